// Command load measures a placement controller on a real API server, against what a plain client
// needs for the same writes. It knows nothing of the controller but its binary, its arguments and
// the API: what it sees, it sees by watching. It needs Linux, whose /proc tells processor time and
// memory.
//
// It may import any package of Berth. Read run.go first.
package main
