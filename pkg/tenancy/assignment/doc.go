// Package assignment keeps every Placement in its queue: placed once, kept by a record with the
// published decision, and limited by quotas.
//
// It may import tenancy, tenancy/identity and tenancy/queueconfig, and nothing of Kubernetes. Read
// assignments.go first; placing.go finds the queues.
package assignment
