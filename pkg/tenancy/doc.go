// Package tenancy decides which users may place where. It has the tree of queues that own the
// fleet's cluster sets, the placement rules that find a queue from a Placement's submitter,
// annotations and labels, the quotas, and the access lists of the tree.
//
// It is pure: it imports nothing of Berth and nothing of Kubernetes, and gets all inputs as values.
// The same holds for the packages below it, which may import it: identity (the submitter),
// queueconfig (reads and validates a configuration; may import identity) and assignment (which
// Placement is in which queue; may import both).
//
// Read place.go and rule.go first: they apply the rules to a submission. tree.go has the result of
// a configuration.
package tenancy
