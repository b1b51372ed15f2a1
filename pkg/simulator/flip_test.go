package simulator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPromisedFlipsFlip changes the objects as the verdicts say and decides again: the cluster must
// then be selected.
func TestPromisedFlipsFlip(t *testing.T) {
	ctx := context.Background()
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	promised := 0
	rapid.Check(t, func(t *rapid.T) {
		fleet := drawFleet(t)
		s, err := New(ctx, fleet, now, Options{})
		if err != nil {
			t.Fatal(err)
		}
		key := types.NamespacedName{Namespace: "ns", Name: "p"}
		report, err := s.Decide(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range report.Verdicts {
			if v.SelectedWith == "" {
				continue
			}
			promised++
			changed := apply(t, fleet, v.Cluster, v.SelectedWith)
			again, err := New(ctx, changed, now, Options{})
			if err != nil {
				t.Fatal(err)
			}
			after, err := again.Decide(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			selected := false
			for _, w := range after.Verdicts {
				selected = selected || w.Cluster == v.Cluster && w.Selected
			}
			if !selected {
				t.Errorf("%s was promised to be selected with %q and is not", v.Cluster, v.SelectedWith)
			}
		}
	})
	if promised == 0 {
		t.Error("no flip was promised")
	}
}

func drawFleet(t *rapid.T) Objects {
	values := rapid.SampledFrom([]string{"a", "b", "c"})
	effects := rapid.SampledFrom([]v1alpha1.TaintEffect{v1alpha1.TaintEffectNoSelect, v1alpha1.TaintEffectPreferNoSelect, v1alpha1.TaintEffectNoSelectIfNew})
	set := &v1alpha1.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	o := Objects{set, fixture.Binding("ns", "s")}
	if rapid.Bool().Draw(t, "by label") {
		set.Spec.ClusterSelector = v1alpha1.ManagedClusterSelector{SelectorType: v1alpha1.LabelSelector,
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpExists}}}}
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "clusters") {
		c := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i),
			Labels: map[string]string{v1alpha1.ClusterSetLabel: "s", "zone": values.Draw(t, "zone"), "env": values.Draw(t, "env")}}}
		c.Status.ClusterClaims = []v1alpha1.ManagedClusterClaim{{Name: "region", Value: values.Draw(t, "region")}}
		memory := v1alpha1.ResourceList{v1alpha1.ResourceName(corev1.ResourceMemory): *resource.NewQuantity(int64(rapid.IntRange(1, 5).Draw(t, "memory")), resource.DecimalSI)}
		c.Status.Allocatable, c.Status.Capacity = memory, memory
		for range rapid.IntRange(0, 2).Draw(t, "taints") {
			c.Spec.Taints = append(c.Spec.Taints, v1alpha1.Taint{Key: "k" + values.Draw(t, "key"), Value: values.Draw(t, "value"), Effect: effects.Draw(t, "effect")})
		}
		o = append(o, c)
	}
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}
	if rapid.Bool().Draw(t, "counted") {
		n := int32(rapid.IntRange(0, 4).Draw(t, "wanted"))
		pl.Spec.NumberOfClusters = &n
	}
	for range rapid.IntRange(0, 2).Draw(t, "predicates") {
		var p v1alpha1.ClusterPredicate
		p.RequiredClusterSelector.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{drawRequirement(t, "env", values), drawRequirement(t, "zone", values)}
		p.RequiredClusterSelector.ClaimSelector.MatchExpressions = []metav1.LabelSelectorRequirement{drawRequirement(t, "region", values)}
		pl.Spec.Predicates = append(pl.Spec.Predicates, p)
	}
	pl.Spec.PrioritizerPolicy.Configurations = []v1alpha1.PrioritizerConfig{{
		ScoreCoordinate: &v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreCoordinateTypeBuiltIn, BuiltIn: v1alpha1.PrioritizerResourceAllocatableMemory}}}
	if rapid.Bool().Draw(t, "spread") {
		pl.Spec.SpreadPolicy.SpreadConstraints = []v1alpha1.SpreadConstraintsTerm{{TopologyKey: "zone", TopologyKeyType: v1alpha1.TopologyKeyTypeLabel,
			MaxSkew: 1, WhenUnsatisfiable: rapid.SampledFrom([]v1alpha1.UnsatisfiableMaxSkewAction{v1alpha1.DoNotSchedule, v1alpha1.ScheduleAnyway}).Draw(t, "when")}}
	}
	return append(o, pl)
}

func drawRequirement(t *rapid.T, key string, values *rapid.Generator[string]) metav1.LabelSelectorRequirement {
	operator := rapid.SampledFrom([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists}).Draw(t, "operator")
	r := metav1.LabelSelectorRequirement{Key: key, Operator: operator}
	if operator != metav1.LabelSelectorOpExists {
		r.Values = []string{values.Draw(t, "wanted value")}
	}
	return r
}

// apply reads a promise back into objects.
func apply(t *rapid.T, o Objects, cluster, flips string) Objects {
	var (
		pl *v1alpha1.Placement
		c  *v1alpha1.ManagedCluster
	)
	changed := slices.Clone(o)
	for i, object := range changed {
		switch object := object.(type) {
		case *v1alpha1.Placement:
			pl = object.DeepCopy()
			changed[i] = pl
		case *v1alpha1.ManagedCluster:
			if object.Name == cluster {
				c = object.DeepCopy()
				changed[i] = c
			}
		}
	}
	claims := map[string]string{}
	for _, claim := range c.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	for part := range strings.SplitSeq(flips, " and ") {
		word, rest, _ := strings.Cut(part, " ")
		name, value, _ := strings.Cut(rest, "=")
		switch {
		case word == "tolerate":
			key, effect, _ := strings.Cut(rest, ":")
			key, value, _ := strings.Cut(key, "=")
			pl.Spec.Tolerations = append(pl.Spec.Tolerations, v1alpha1.Toleration{Key: key, Value: value, Operator: v1alpha1.TolerationOpEqual, Effect: v1alpha1.TaintEffect(effect)})
		case strings.HasPrefix(word, "predicate"):
			at := 0
			if word != "predicate" {
				if _, err := fmt.Sscanf(word, "predicates[%d]", &at); err != nil {
					t.Fatal(err)
				}
			}
			words := strings.Fields(rest) // without, label or claim, key
			selector, have := &pl.Spec.Predicates[at].RequiredClusterSelector, c.Labels
			requirements := &selector.LabelSelector.MatchExpressions
			if words[1] == "claim" {
				requirements, have = &selector.ClaimSelector.MatchExpressions, claims
			}
			*requirements = slices.DeleteFunc(*requirements, func(r metav1.LabelSelectorRequirement) bool {
				one, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}})
				return err == nil && r.Key == words[2] && !one.Matches(labels.Set(have))
			})
		case word == "cluster" && strings.HasPrefix(rest, "label "):
			c.Labels[strings.TrimPrefix(name, "label ")] = value
		case word == "cluster":
			claims[strings.TrimPrefix(name, "claim ")] = value
		case word == "no":
			if name, is := strings.CutPrefix(rest, "cluster label "); is {
				delete(c.Labels, name)
			} else {
				delete(claims, strings.TrimPrefix(rest, "cluster claim "))
			}
		case word == "numberOfClusters":
			n, err := strconv.ParseInt(rest, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			pl.Spec.NumberOfClusters = new(int32(n))
		case rest == "score":
			n, err := strconv.ParseInt(strings.TrimPrefix(word, "+"), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			raise(&changed, pl, cluster, int32(n))
		default:
			t.Fatalf("a promise nobody can keep: %q", part)
		}
	}
	c.Status.ClusterClaims = nil
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		c.Status.ClusterClaims = append(c.Status.ClusterClaims, v1alpha1.ManagedClusterClaim{Name: name, Value: claims[name]})
	}
	return changed
}

// raise gives one cluster more score by an AddOnPlacementScore of its own.
func raise(o *Objects, pl *v1alpha1.Placement, cluster string, n int32) {
	pl.Spec.PrioritizerPolicy.Configurations = append(pl.Spec.PrioritizerPolicy.Configurations, v1alpha1.PrioritizerConfig{
		ScoreCoordinate: &v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreCoordinateTypeAddOn, AddOn: &v1alpha1.AddOnScore{ResourceName: "more", ScoreName: "more"}}})
	score := &v1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: cluster}}
	score.Status.Scores = []v1alpha1.AddOnPlacementScoreItem{{Name: "more", Value: n}}
	*o = append(*o, score)
}

// TestFlipsOfScore: a cluster that ranks too low would be selected with a higher score. One that a
// spread constraint excludes would only push another one out: a score is no advice.
func TestFlipsOfScore(t *testing.T) {
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		want      map[string]string
	}{
		"rank":   {fixture.Placement("ns", "p").Number(2), map[string]string{"a": "", "b": "", "c": "+1 score"}},
		"spread": {fixture.Placement("ns", "p").Number(3).Spread("region", 1, v1alpha1.DoNotSchedule), map[string]string{"a": "", "b": "", "c": ""}},
	} {
		t.Run(name, func(t *testing.T) { flipsOfScore(t, tc.placement.Obj(), tc.want) })
	}
}

func flipsOfScore(t *testing.T, pl *v1alpha1.Placement, want map[string]string) {
	t.Helper()
	fleet := Objects{
		fixture.Set("s"), fixture.Binding("ns", "s"), pl, fixture.Cluster("a").Set("s").Label("region", "eu").Obj(),
		fixture.Cluster("b").Set("s").Label("region", "eu").Obj(), fixture.Cluster("c").Set("s").Label("region", "eu").Obj(),
		fixture.Cluster("d").Set("s").Label("region", "us").Taint("k", "", v1alpha1.TaintEffectNoSelect).Obj(),
	}
	s, err := New(t.Context(), fleet, time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC), Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := s.Decide(t.Context(), types.NamespacedName{Namespace: "ns", Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range report.Verdicts {
		if v.Cluster != "d" {
			got[v.Cluster] = v.SelectedWith
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("flips are %v, want %v", got, want)
	}
}
