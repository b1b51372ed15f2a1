// Package assignment assigns every Placement to a queue. A Placement is assigned once; an
// annotation of its pages keeps its queue. Quotas limit the Placements and clusters of a queue.
//
// It may import tenancy, tenancy/identity and tenancy/queueconfig, and nothing of Kubernetes. Read
// assignments.go first; assign.go finds the queues.
package assignment
