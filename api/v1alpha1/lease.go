package v1alpha1

import "time"

// The agent of a cluster renews a Lease of this name, in the namespace with the cluster's name. The
// label on the Lease has the cluster's name, too.
const (
	ManagedClusterLeaseName = "managed-cluster-lease"
	ClusterNameLabel        = "open-cluster-management.io/cluster-name"
)

// DefaultLeaseDuration is the period of renewals if a cluster has none.
const DefaultLeaseDuration = time.Minute

// longestLeaseSeconds is 34 years. Eight of the longest periods fit in a time.Duration.
const longestLeaseSeconds = 1 << 30

// LeaseDuration returns how often the cluster's agent renews its lease. It is positive.
func (c *ManagedCluster) LeaseDuration() time.Duration {
	if seconds := c.Spec.LeaseDurationSeconds; seconds > 0 {
		return min(time.Duration(seconds), longestLeaseSeconds) * time.Second
	}
	return DefaultLeaseDuration
}
