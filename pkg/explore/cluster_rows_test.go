package explore

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// TestOrderOfSets: the first set of a cluster is the one that it belongs to exclusively, before
// those with a selector; default and global are last, because every cluster can be in them.
func TestOrderOfSets(t *testing.T) {
	objects := simulator.Objects{
		fixture.Set("prod"), fixture.Set("default"), fixture.SelectorSet("global", &metav1.LabelSelector{}),
		fixture.SelectorSet("all-eu", &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}),
		fixture.Cluster("a").Set("prod").Label("region", "eu").Obj(), fixture.Cluster("b").Set("default").Label("region", "eu").Obj(),
		fixture.Cluster("c").Set("default").Obj(), fixture.Cluster("d").Obj(),
	}
	var got []string
	for _, row := range newTestHub(t, objects).fleet().Clusters {
		got = append(got, fmt.Sprint(row.Name, row.Sets))
	}
	if diff := cmp.Diff([]string{"a[prod all-eu global]", "b[all-eu default global]", "c[default global]", "d[global]"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestSetsNotKnown: a viewer who may not list cluster sets, or clusters, does not know in which
// sets clusters are.
func TestSetsNotKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		lacks string
		want  bool
	}{
		"everything": {"", false}, "no sets": {"ManagedClusterSet", true}, "no clusters": {"ManagedCluster", true}, "no bindings": {"ManagedClusterSetBinding", false},
	} {
		t.Run(name, func(t *testing.T) {
			hub := newTestHub(t, small())
			s := scope{known: true}
			for _, kind := range kinds.All() {
				if kind.Name != tc.lacks {
					s.kinds = append(s.kinds, kind)
				}
			}
			hub.limit(s, hub.world.decider)
			if got := hub.fleet().SetsNotKnown; got != tc.want {
				t.Errorf("not known: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestUsage: a row has the version of the cluster, and what its Placements request of what can be
// allocated.
func TestUsage(t *testing.T) {
	c := fixture.Cluster("c1").Set("s").Obj()
	c.Status.Version.Kubernetes = "v1.34.2"
	c.Status.Allocatable = v1alpha1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("26Gi"), "pods": resource.MustParse("110")}
	row := newTestHub(t, simulator.Objects{fixture.Set("s"), c}).fleet().Clusters[0]
	want := []Resource{{Name: "cpu", Allocatable: "8"}, {Name: "memory", Allocatable: "26Gi"}}
	if diff := cmp.Diff(want, row.Usage); diff != "" || row.Version != "v1.34.2" {
		t.Errorf("version %q, usage (-want +got):\n%s", row.Version, diff)
	}
}

// TestSelectedWithoutPages: a viewer who may not list pages sees the number of the Placement's
// status.
func TestSelectedWithoutPages(t *testing.T) {
	for name, lists := range map[string]bool{"with pages": true, "without pages": false} {
		t.Run(name, func(t *testing.T) {
			hub := newTestHub(t, nil)
			s := scope{known: true}
			for _, kind := range kinds.All() {
				if lists || kind.Name != "PlacementDecision" {
					s.kinds = append(s.kinds, kind)
				}
			}
			run, err := hub.reset(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			pl := fixture.Placement("ns", "web").Obj()
			pl.Status.NumberOfSelectedClusters = 2
			hub.update(run, nil, pl)
			hub.start()
			if got, want := hub.fleet().Placements[0].Selected, map[bool]int{true: 0, false: 2}[lists]; got != want {
				t.Errorf("%d selected, want %d", got, want)
			}
		})
	}
}
