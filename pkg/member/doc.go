// Package member copies the state of member clusters to their ManagedClusters on the hub, and
// renews their leases there. `berth report` adds flags and printing.
//
// It may import api. Read reporter.go first: one member. probe.go reads the member,
// bounds.go limits what it answers, lease.go renews
// the lease, fleet.go follows the Secrets of many members, secrets.go reads one Secret, argocd.go
// writes those of Argo CD for `berth argocd-clusters`.
package member
