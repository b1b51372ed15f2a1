// Package bench measures one scheduling cycle as the controller runs it: an event goes into the
// inventory, a Snapshot comes out of it, and a Placement is decided. Inputs alternate, so that
// nothing is answered from memory. Fleet is the hub at internet scale; the command growth draws
// what a Placement costs as it grows.
//
// It may import anything. Read cycle_test.go first.
package bench
