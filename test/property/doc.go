// Package property holds what must be true of every fleet, tried on random ones: the inventory that
// events feed answers as one built from scratch and wakes all whose answer changes, the order of
// the input counts for nothing, a new cluster takes no other's place, and spreading is what a
// literal reading of its rules gives.
//
// It may import anything and has tests only. Read differential_test.go first.
package property
