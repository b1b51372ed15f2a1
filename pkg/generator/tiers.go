package generator

import (
	"k8s.io/apimachinery/pkg/types"
)

// tiersOf returns the tiers of the clusters of a Placement, as the controller published them in the
// status of the SelectionPolicy.
func (f *fleet) tiersOf(key types.NamespacedName) map[string]string {
	policy := f.policy(key)
	if policy == nil {
		return nil
	}
	tiers := map[string]string{}
	for i := range policy.Status.Tiers {
		for _, cluster := range policy.Status.Tiers[i].Clusters {
			tiers[cluster] = policy.Status.Tiers[i].Name
		}
	}
	return tiers
}
