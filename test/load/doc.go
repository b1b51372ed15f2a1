// Command load measures a placement controller on a real API server, and compares it with a plain
// client that makes the same writes. It uses only the controller's binary, arguments and API, and
// observes it with watches. It needs Linux: /proc gives processor time and memory.
//
// It may import any package of Berth. Read run.go first.
package main
