// Package changes has the rules for the records (PlacementChanges) of a published decision: the
// content of a record, which records belong to a Placement, which one is open, how long records are
// kept, and which DisruptionPolicies apply.
//
// It is pure: no clock, no clients, no state. It may import the API types. Read record.go first.
package changes
