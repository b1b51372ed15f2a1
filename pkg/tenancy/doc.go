// Package tenancy decides who may place where: the tree of queues that owns the fleet's cluster sets, the placement rules that
// find a Placement's queue from who submitted it and what it carries, the access lists along the tree, and the identity of a
// submitter. Its configuration is written in the language of Apache YuniKorn.
//
// It is pure: it imports nothing of Berth and nothing of Kubernetes, and is given all it needs as values.
//
// Read place.go and rule.go first: how a submission goes through the rules. config.go turns a text into a Config, the files
// named validate say what may be wrong with it, and tree.go holds what it comes to.
package tenancy
