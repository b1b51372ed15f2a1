// Package bench measures one scheduling cycle as the controller runs it: an event goes into the inventory, a Snapshot comes out
// of it, and a Placement is decided. Inputs alternate, so that nothing is answered from memory.
//
// It may import anything and has benchmarks only. Read cycle_test.go first.
package bench
