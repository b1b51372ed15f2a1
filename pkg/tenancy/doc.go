// Package tenancy decides who may place where: the tree of queues that owns the fleet's cluster
// sets, the placement rules that find a Placement's queue from who submitted it and what it
// carries, quotas, and the access lists along the tree.
//
// It is pure: it imports nothing of Berth and nothing of Kubernetes, and is given all it needs as
// values. So are the packages below it, which may import it: identity (who submitted), queueconfig
// (reads and validates a configuration; may import identity) and assignment (which Placement is in
// which queue; may import both).
//
// Read place.go and rule.go first: how a submission goes through the rules. tree.go holds what a
// configuration comes to.
package tenancy
