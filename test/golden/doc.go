// Package golden holds what Open Cluster Management's placement controller answered for hundreds of
// fleets, and the tests that hold Berth to it. README.md describes the files; departures_test.go
// names what Berth does otherwise on purpose.
//
// model_test.go says, independently of the engine, what Berth must answer to a Placement;
// compare_test.go holds an answer against it and against the recording. The tests ask only
// pkg/simulator, and share nothing with the engine but the API types.
package golden
