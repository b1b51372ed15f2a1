package framework

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func clusterNamed(name string, i int) *Cluster {
	return NewCluster(&v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.ClusterSetLabel: "s"}}}, i)
}

// TestTrials: a trial Snapshot has another Placement or cluster; the original stays.
func TestTrials(t *testing.T) {
	clusters := &Vector[*Cluster]{}
	clusters.Set(0, clusterNamed("a", 0))
	clusters.Set(1, clusterNamed("b", 1))
	set := &ClusterSet{Name: "s", Members: Bitset(nil).Set(0)}
	s := &Snapshot{
		Fleet: &Fleet{Clusters: clusters.Freeze(), Log: ChangeLog{Entries: []ClusterChange{{Index: 5}}}}, Subject: &Subject{Placement: &v1alpha1.Placement{}}, Sets: []*ClusterSet{set},
	}
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	if trial := s.Relaxed(Relaxation{Placement: pl}); trial.Subject.Placement != pl || !trial.Trial || s.Subject.Placement == pl || s.Trial {
		t.Errorf("trial %t of %v", trial.Trial, trial.Subject.Placement)
	}
	joins := clusterNamed("b", 1)
	leaves := clusterNamed("a", 0)
	leaves.Labels = nil
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    []bool // members after it
	}{
		"joins the set":  {joins, []bool{true, true}},
		"leaves the set": {leaves, []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			trial := s.WithCluster(tc.cluster)
			if trial.Clusters.Get(tc.cluster.Index) != tc.cluster || s.Clusters.Get(tc.cluster.Index) == tc.cluster || !trial.Trial {
				t.Error("the cluster is not exchanged")
			}
			if diff := cmp.Diff(tc.want, []bool{trial.Sets[0].Members.Has(0), trial.Sets[0].Members.Has(1)}); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]ClusterChange{{Index: 5}, {Index: tc.cluster.Index, Selectable: true}}, trial.Log.Entries); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
			if !set.Members.Has(0) || set.Members.Has(1) || len(s.Log.Entries) != 1 {
				t.Error("the original changed")
			}
		})
	}
}

func TestWithoutClusters(t *testing.T) {
	clusters := &Vector[*Cluster]{}
	for i := range 3 * chunkSize {
		clusters.Set(i, clusterNamed(fmt.Sprintf("c%04d", i), i))
	}
	fleet := &Fleet{Clusters: clusters.Freeze()}
	var members Bitset
	for i := range clusters.Len() {
		fleet.Sorted, members = append(fleet.Sorted, int32(i)), members.Set(i)
	}
	used, other := &ClusterSet{Name: "s", Members: members}, &ClusterSet{Name: "o", Members: Bitset(nil).Set(7)}
	s := &Snapshot{Fleet: fleet, Sets: []*ClusterSet{used}, Bound: []*ClusterSet{used, other}}
	lost := Bitset(nil).Set(1).Set(2).Set(chunkSize + 5).Set(9 * chunkSize)
	trial := s.WithoutClusters(lost)
	if !trial.Trial || trial.Candidates().Len() != clusters.Len()-3 || trial.Bound[0].Members.Intersects(lost) {
		t.Errorf("trial %t, %d candidates", trial.Trial, trial.Candidates().Len())
	}
	if trial.Bound[1] != other {
		t.Error("a set without lost clusters was copied")
	}
	for i := range clusters.Len() {
		name := fmt.Sprintf("c%04d", i)
		if gone := trial.Cluster(name) == nil; gone != lost.Has(i) || gone != (trial.Clusters.Get(i) == nil) {
			t.Errorf("%s: gone %t", name, gone)
		}
		if s.Cluster(name) == nil || !s.Candidates().Has(i) {
			t.Errorf("%s: the original changed", name)
		}
	}
}

// TestEvictionOf: until it ends.
func TestEvictionOf(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	s := &Snapshot{Now: now, Subject: &Subject{Evictions: []Eviction{{Cluster: "a"}, {Cluster: "b", Until: now}, {Cluster: "c", Until: now.Add(time.Second)}}}}
	for cluster, want := range map[string]bool{"a": true, "b": false, "c": true, "d": false} {
		if got := s.EvictionOf(cluster); (got != nil) != want || want && got.Cluster != cluster {
			t.Errorf("%s: %v", cluster, got)
		}
	}
	open, soon, later := Eviction{Name: "x"}, Eviction{Name: "x", Until: now}, Eviction{Name: "x", Until: now.Add(time.Second)}
	for name, tc := range map[string]struct {
		a, b Eviction
		want bool
	}{
		"later":            {later, soon, true},
		"sooner":           {soon, later, false},
		"without an end":   {open, later, true},
		"with an end":      {later, open, false},
		"the first name":   {Eviction{Name: "a", Until: now}, soon, true},
		"the same":         {soon, soon, false},
		"two without ends": {Eviction{Name: "a"}, open, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.EndsAfter(tc.b); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestPublishedOn reads names and scores from several pages.
func TestPublishedOn(t *testing.T) {
	page := func(name string, decisions ...v1alpha1.ClusterDecision) *v1alpha1.PlacementDecision {
		return &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.PlacementDecisionStatus{Decisions: decisions}}
	}
	one, two := page("1", v1alpha1.ClusterDecision{ClusterName: "c"}, v1alpha1.ClusterDecision{ClusterName: "b"}), page("2", v1alpha1.ClusterDecision{ClusterName: "a", Score: new(int64(4))}, v1alpha1.ClusterDecision{ClusterName: "c"})
	names := []string{"a", "b", "c"}
	want := &Published{
		Names: names, Digest: DigestOf(names), Scores: map[string]int64{"a": 4}, FromPages: true, Pages: map[string]uint64{"1": ContentHash(one), "2": ContentHash(two)},
	}
	if diff := cmp.Diff(want, PublishedOn([]*v1alpha1.PlacementDecision{one, two})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ContentHash(page("1", v1alpha1.ClusterDecision{ClusterName: "a", Reason: "b"})) == ContentHash(page("1", v1alpha1.ClusterDecision{ClusterName: "ab"})) {
		t.Error("names and reasons run together")
	}
}

// TestBitsetsOfDifferentLengths compares and subtracts them.
func TestBitsetsOfDifferentLengths(t *testing.T) {
	of := func(members ...int) Bitset {
		var b Bitset
		for _, i := range members {
			b = b.Set(i)
		}
		return b
	}
	shared := of(3, 70)
	for name, tc := range map[string]struct {
		a, b, without Bitset
		covers        bool
	}{
		"both empty":          {covers: true},
		"the same memory":     {a: shared, b: shared, covers: true},
		"equal":               {a: of(3, 70), b: of(3, 70), covers: true},
		"longer":              {a: of(3, 70), b: of(3), without: of(70), covers: true},
		"shorter":             {a: of(3), b: of(3, 70)},
		"longer without more": {a: of(3), b: of(3, 70)[:1], covers: true},
		"of the same length":  {a: of(3, 5), b: of(5, 7), without: of(3)},
		"nothing to subtract": {a: of(3), without: of(3), covers: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Without(tc.b); !slices.Equal(slices.Collect(got.All), slices.Collect(tc.without.All)) {
				t.Errorf("without: %v", slices.Collect(got.All))
			}
			if got := tc.a.Covers(tc.b); got != tc.covers {
				t.Errorf("covers: %t", got)
			}
		})
	}
	longer := of(3, 70)
	longer.Unset(70)
	if !of(3).Covers(longer) || of(3).Covers(of(3, 128)) {
		t.Error("words beyond the end")
	}
}

// TestFrozenVectors do not change, and are copied once.
func TestFrozenVectors(t *testing.T) {
	v := &Vector[int]{}
	v.Set(600, 1)
	frozen := v.Freeze()
	if v.Freeze() != frozen || v.Len() != 601 || len(v.chunks) != 3 {
		t.Errorf("%d elements in %d chunks", v.Len(), len(v.chunks))
	}
	v.Set(600, 2)
	chunk := v.chunks[2]
	v.Set(601, 3)
	if v.chunks[2] != chunk {
		t.Error("the chunk is copied again")
	}
	with := frozen.With(600, 4)
	if got := []int{frozen.Get(600), frozen.Get(601), v.Get(600), v.Get(601), v.Get(602), with.Get(600), (*Vector[int])(nil).Get(0)}; !slices.Equal(got, []int{1, 0, 2, 3, 0, 4, 0}) {
		t.Errorf("got %v", got)
	}
}

// TestUnfinished is Pending, and other Status are not unfinished.
func TestUnfinished(t *testing.T) {
	for name, tc := range map[string]struct {
		status *Status
		want   bool
	}{
		"none":       {},
		"pending":    {status: NewStatus(Pending, "why")},
		"unfinished": {status: Unfinished("why"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.status.IsUnfinished(); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
	for queue, want := range map[*QueueAdmission]bool{nil: true, {}: true, {Restricted: true}: false, {Restricted: true, Sets: []string{"s"}}: true} {
		if got := queue.Allows("s"); got != want {
			t.Errorf("%+v allows s: %t", queue, got)
		}
	}
	state := NewCycleState(nil)
	if state.ShouldYield() {
		t.Error("a state without a limit yields")
	}
}
