// Package bench measures one scheduling cycle as the controller runs it: an event updates the
// inventory, the inventory returns a Snapshot, and a Placement is decided. Inputs alternate, so
// that no answer comes from memory. BenchmarkFleet measures a hub at internet scale,
// BenchmarkBounds what one party may write at most. The command growth draws the cost of a
// Placement as the fleet grows.
//
// It may import any package of Berth. Read cycle_test.go first.
package bench
