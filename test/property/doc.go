// Package property tests properties of every fleet on random ones. An inventory fed by events
// answers like one built from scratch and returns every Placement whose answer changes. The order
// of the input has no effect. A new cluster does not displace another. Spreading gives the result
// of a literal implementation of its rules. Placements with SelectionPolicies are decided as a
// model of these policies says, and settle after every change. Recordings are read back bit for
// bit.
//
// It may import any package of Berth and has tests only. Read differential_test.go first.
package property
