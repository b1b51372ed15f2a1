package simulator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// fleetOf returns clusters of a set that the namespace shop may use.
func fleetOf(clusters int) Objects {
	objects := Objects{fixture.Set("eu"), fixture.Binding("shop", "eu")}
	for i := range clusters {
		objects = append(objects, fixture.Cluster(fmt.Sprint("c", i)).Set("eu").Obj())
	}
	return objects
}

// TestNewPlacementsSeeEachOther decides Placements without clusters one after the other, as a hub
// does: each sees the clusters of those before it, so that Balance distributes them.
func TestNewPlacementsSeeEachOther(t *testing.T) {
	objects := fleetOf(4)
	add := func(name, priority string, age time.Duration) {
		pl := fixture.Placement("shop", name).Number(1).Obj()
		if priority != "" {
			pl.Annotations = map[string]string{v1alpha1.PriorityAnnotation: priority}
		}
		if age > 0 {
			pl.CreationTimestamp = metav1.NewTime(fixture.Now.Add(-age))
		}
		objects = append(objects, pl)
	}
	add("a-published", "", 0)
	add("b-young", "", time.Minute)
	add("c-old", "", time.Hour)
	add("d-first", "7", 0)
	add("e-new", "", 0)
	objects = append(objects, fixture.Page("shop", "a-published-decision-1").Of("a-published").Lists("c1").Obj())
	for name, tc := range map[string]struct {
		alone bool
		want  []string
	}{
		"on a hub": {want: []string{"a-published c1", "b-young c3", "c-old c2", "d-first c0", "e-new c0"}},
		"alone":    {alone: true, want: []string{"a-published c1", "b-young c0", "c-old c0", "d-first c0", "e-new c0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(t.Context(), objects, fixture.Now, Options{Alone: tc.alone})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, key := range s.InQueueOrder(s.Placements()) {
				report, err := s.Decide(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, key.Name+" "+strings.Join(report.Decisions[0].Clusters, ","))
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("one of them", func(t *testing.T) {
		s, err := New(t.Context(), objects, fixture.Now, Options{})
		if err != nil {
			t.Fatal(err)
		}
		report, err := s.DecideOnly(t.Context(), types.NamespacedName{Namespace: "shop", Name: "b-young"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"c3"}, report.Decisions[0].Clusters); diff != "" {
			t.Error(diff)
		}
	})
}

// TestCompareCountsNewPlacements shows two new Placements on two clusters. One with pages does not
// move.
func TestCompareCountsNewPlacements(t *testing.T) {
	hub := fleetOf(3)
	hub = append(hub, fixture.Placement("shop", "z-old").Number(1).Obj(), fixture.Page("shop", "z-old-decision-1").Of("z-old").Lists("c0").Obj())
	w, err := NewWhatIf(t.Context(), hub, replaced(fixture.Placement("shop", "a").Number(1).Obj(), fixture.Placement("shop", "b").Number(1).Obj()), fixture.Now, Options{})
	if err != nil {
		t.Fatal(err)
	}
	comparison, err := w.Compare(t.Context(), w.Placements(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range comparison.Changes {
		got = append(got, fmt.Sprint(c.Placement, " ", c.Added, c.Removed))
	}
	if diff := cmp.Diff([]string{"shop/a [c1] []", "shop/b [c2] []"}, got); diff != "" {
		t.Error(diff)
	}
}
