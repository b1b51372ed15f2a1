// Package golden holds the recorded answers of Open Cluster Management's placement controller for
// hundreds of fleets, and the tests that compare Berth with them. README.md describes the files.
// departures_test.go lists the intended differences.
//
// model_test.go derives Berth's expected answer independently of the engine. compare_test.go
// compares an answer with it and with the recording. The tests use only pkg/simulator, and share
// only the API types with the engine.
package golden
