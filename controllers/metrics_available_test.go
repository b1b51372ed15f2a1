package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestAvailableGauge: clusters by their Available condition. Reasons of other programs are Other.
func TestAvailableGauge(t *testing.T) {
	available := v1alpha1.ManagedClusterConditionAvailable
	cluster := func(status metav1.ConditionStatus, reason string) *v1alpha1.ManagedCluster {
		c := fixture.Cluster("counted").Condition(available, status, fixture.At(0)).Obj()
		c.Status.Conditions[0].Reason = reason
		return c
	}
	for name, tc := range map[string]struct {
		cluster *v1alpha1.ManagedCluster
		want    string
	}{
		"available":       {cluster("True", v1alpha1.ReasonClusterAvailable), "clusters True ManagedClusterAvailable"},
		"a stopped lease": {cluster("Unknown", v1alpha1.ReasonLeaseUpdateStopped), "clusters Unknown ManagedClusterLeaseUpdateStopped"},
		"another reason":  {cluster("False", "Whim"), "clusters False Other"},
		"no condition":    {fixture.Cluster("counted").Obj(), "clusters Absent "},
	} {
		t.Run(name, func(t *testing.T) {
			var gauge availableGauge
			set := func() {
				gauge.set(tc.cluster)
				gauge.set(tc.cluster)
			}
			if diff := cmp.Diff(map[string]float64{tc.want: 1}, changed(t, set, clustersNow)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]float64{tc.want: -1}, changed(t, func() { gauge.remove(tc.cluster) }, clustersNow)); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFeedCountsClusters: the feed keeps the metric up to date.
func TestFeedCountsClusters(t *testing.T) {
	f, cluster := newMemoryFeed(t), fixture.Cluster("fed").Obj()
	if diff := cmp.Diff(map[string]float64{"clusters Absent ": 1}, changed(t, func() { f.update(cluster) }, clustersNow)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"clusters Absent ": -1}, changed(t, func() { f.delete(cluster) }, clustersNow)); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}
