// Package assignment assigns every Placement to a queue. A Placement is assigned once; a record
// with the published decision keeps its queue. Quotas limit the Placements and clusters of a queue.
//
// It may import tenancy, tenancy/identity and tenancy/queueconfig, and nothing of Kubernetes. Read
// assignments.go first; placing.go finds the queues.
package assignment
