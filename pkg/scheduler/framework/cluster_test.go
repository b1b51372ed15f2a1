package framework

import (
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestCluster: a copy with another object keeps taint times and claims, and is rendered again.
func TestCluster(t *testing.T) {
	tainted := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.ManagedClusterSpec{Taints: []v1alpha1.Taint{{Key: "k"}}}}
	c := NewCluster(tainted, 3)
	if !c.Tainted || c.Index != 3 || NewCluster(&v1alpha1.ManagedCluster{}, 0).Tainted {
		t.Errorf("got %+v", c)
	}
	c.TaintTimes, c.Claims = []time.Time{{}}, map[string]string{"k": "v"}
	rendered := 0
	render := func(object *v1alpha1.ManagedCluster) (map[string]any, error) {
		rendered++
		return map[string]any{"name": object.Name}, errors.New("of " + object.Name)
	}
	changed := c.Changed(&v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	for of, want := range map[*Cluster]string{c: "a", changed: "b"} {
		for range 2 {
			if object, err := of.Unstructured(render); object["name"] != want || err == nil || err.Error() != "of "+want {
				t.Errorf("%s is rendered as %v, %v", want, object, err)
			}
		}
		if len(of.TaintTimes) != 1 || of.Claims["k"] != "v" || of.Index != 3 {
			t.Errorf("%s: %+v", want, of)
		}
	}
	if rendered != 2 {
		t.Errorf("rendered %d times", rendered)
	}
}

// TestSetMatches: by the label of the set or by a selector, and no cluster that is being deleted.
func TestSetMatches(t *testing.T) {
	with := func(labels map[string]string) *Cluster {
		return NewCluster(&v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, 0)
	}
	in := with(map[string]string{v1alpha1.ClusterSetLabel: "s", "tier": "gold"})
	deleting := with(in.Labels)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	label, selector := &ClusterSet{Name: "s"}, &ClusterSet{Name: "x", Selector: labels.SelectorFromSet(labels.Set{"tier": "gold"})}
	for name, tc := range map[string]struct {
		set     *ClusterSet
		cluster *Cluster
		want    bool
	}{
		"the label":              {label, in, true},
		"another label":          {label, with(map[string]string{v1alpha1.ClusterSetLabel: "t"}), false},
		"no label":               {&ClusterSet{}, with(nil), false},
		"the selector":           {selector, in, true},
		"not the selector":       {selector, with(map[string]string{v1alpha1.ClusterSetLabel: "x"}), false},
		"deleted, by label":      {label, deleting, false},
		"deleted, by a selector": {selector, deleting, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.set.Matches(tc.cluster); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestCandidates are the members of all sets.
func TestCandidates(t *testing.T) {
	one, two := &ClusterSet{Members: Bitset(nil).Set(1).Set(70)}, &ClusterSet{Members: Bitset(nil).Set(2)}
	for name, tc := range map[string]struct {
		sets []*ClusterSet
		want []int
	}{
		"no set":   {},
		"one set":  {[]*ClusterSet{one}, []int{1, 70}},
		"two sets": {[]*ClusterSet{two, one}, []int{1, 2, 70}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Snapshot{Sets: tc.sets}
			if got := slices.Collect(s.Candidates().All); !slices.Equal(tc.want, got) {
				t.Errorf("got %v", got)
			}
		})
	}
	if one.Members.Len() != 2 || two.Members.Len() != 1 {
		t.Error("a set changed")
	}
}

// TestHighestCount leaves out entries of the Placement itself.
func TestHighestCount(t *testing.T) {
	counts := &Vector[int32]{}
	for i, n := range []int32{3, 2, 1} {
		counts.Set(i, n)
	}
	d := &DecisionCounts{ByIndex: counts, Histogram: []int32{0, 1, 1, 1}}
	for name, tc := range map[string]struct {
		less Entries
		want int32
	}{
		"all":               {want: 3},
		"without one":       {Entries{Clusters: bitsetOf(0)}, 2},
		"without the first": {Entries{bitsetOf(0), map[int]int32{0: 2}}, 2},
		"without any":       {Entries{bitsetOf(0, 1, 2), map[int]int32{0: 2, 1: 1}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := d.Max(&tc.less); got != tc.want {
				t.Errorf("got %d", got)
			}
		})
	}
}

// TestShared: the instances of a plugin share one value, and nothing without a Handle.
func TestShared(t *testing.T) {
	begin := func() *int { return new(int) }
	h := &Handle{}
	first, again, other := Shared(h, "a", begin), Shared(h, "a", begin), Shared(h, "b", begin)
	if first != again || first == other {
		t.Error("not one value for each plugin")
	}
	first, again = Shared(nil, "a", begin), Shared(nil, "a", begin)
	if first == again {
		t.Error("shared without a Handle")
	}
}

// TestYieldWhen: plugins ask the functions of the cycle.
func TestYieldWhen(t *testing.T) {
	s := NewCycleState(nil)
	if s.ShouldYield() || s.ShouldPause() {
		t.Error("a cycle without a limit yields or pauses")
	}
	s.YieldWhen(func() bool { return true })
	if !s.ShouldYield() || s.ShouldPause() {
		t.Error("it does not yield, or it pauses")
	}
	s.PauseWhen(func() bool { return true })
	if !s.ShouldPause() || !s.Clone().ShouldPause() {
		t.Error("it does not pause")
	}
}
