// Package changes is the life of a change of a published decision, apart from reading and writing
// it: what a record (PlacementChange) says, which records belong to a Placement, which one is open,
// how long they are kept, and which DisruptionPolicies apply.
//
// All of it is pure: no clock, no clients, no state. It may import the API types. Read record.go
// first.
package changes
