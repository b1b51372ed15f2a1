package simulator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// shop is a hub on which a namespace sees the clusters c1 and c2 of one set: web is everywhere, api
// on one that has the label gpu.
func shop() Objects {

	placement := func(b fixture.PlacementBuilder) *v1alpha1.Placement {
		pl := b.Obj()
		pl.UID = types.UID(pl.Namespace + "/" + pl.Name)
		return pl
	}
	page := func(of string, clusters ...string) *v1alpha1.PlacementDecision {
		return fixture.Page("shop", of+"-decision-1").Of(of).OwnedBy(of).Lists(clusters...).Obj()
	}
	return Objects{
		fixture.Set("eu"), fixture.Set("us"), fixture.Binding("shop", "eu"),
		fixture.Cluster("c1").Set("eu").Label("gpu", "true").Obj(), fixture.Cluster("c2").Set("eu").Obj(), fixture.Cluster("c3").Set("us").Obj(),
		placement(fixture.Placement("shop", "api").Predicate(fixture.MatchLabel("gpu", "true")).Number(1)),
		placement(fixture.Placement("shop", "web")),
		page("api", "c1"), page("web", "c1", "c2"),
	}
}

func labelled(cluster, key, value string) []Edit {
	return []Edit{{Kind: EditLabel, Cluster: cluster, Key: key, Value: value}}
}

func replaced(objects ...client.Object) (edits []Edit) {
	for _, object := range objects {
		edits = append(edits, Edit{Kind: EditReplace, Object: object})
	}
	return edits
}

func removed(kind, name string) []Edit { return []Edit{{Kind: EditRemove, Type: kind, Name: name}} }

func TestCompare(t *testing.T) {
	scheduled, unscheduled := "True AllDecisionsScheduled", "False NotAllDecisionsScheduled"
	for name, tc := range map[string]struct {
		hub    func(o *Objects)
		change []Edit
		// wantChanges are "placement operation before-after +added -removed; page operation;
		// condition before > after".
		wantChanges   []string
		wantOutOfDate []string
	}{
		"nothing":              {change: replaced()},
		"a label nobody reads": {change: labelled("c2", "tier", "2")},
		"a label of more candidates, none of which is wanted": {change: labelled("c2", "gpu", "true")},
		"a label of an incumbent": {
			change:      labelled("c1", "gpu", "false"),
			wantChanges: []string{"shop/api Updated 1-0 -c1; api-decision-1 Updated; PlacementSatisfied " + scheduled + " > False NoManagedClusterMatched"},
		},
		"a cluster moves to the set": {
			change:      labelled("c3", v1alpha1.ClusterSetLabel, "eu"),
			wantChanges: []string{"shop/web Updated 2-3 +c3; web-decision-1 Updated"},
		},
		"a taint": {
			change: []Edit{{Kind: EditTaint, Cluster: "c1", Key: "down", Effect: "NoSelect"}},
			wantChanges: []string{
				"shop/api Updated 1-0 -c1; api-decision-1 Updated; PlacementSatisfied " + scheduled + " > False NoManagedClusterMatched",
				"shop/web Updated 2-1 -c1; web-decision-1 Updated",
			},
		},
		"a Placement that wants more than there is": {
			change: replaced(
				fixture.Placement("shop", "api").Predicate(fixture.MatchLabel("gpu", "true")).Number(2).Obj(),
			),
			wantChanges: []string{"shop/api Updated 1-1; PlacementSatisfied " + scheduled + " > " + unscheduled},
		},
		"a new Placement": {
			change: replaced(fixture.Placement("shop", "new").Obj()),
			wantChanges: []string{"shop/new Created 0-2 +c1 +c2; new-decision-1 Created; " +
				"PlacementMisconfigured  > False Succeedconfigured; PlacementSatisfied  > " + scheduled},
		},
		"a mistake": {
			change: replaced(
				fixture.Placement("shop", "web").Toleration("", v1alpha1.TolerationOpEqual, "x", "").Obj(),
			),
			wantChanges: []string{"shop/web Updated 2-2; PlacementMisconfigured False Succeedconfigured > True Misconfigured; " +
				"PlacementSatisfied " + scheduled + " > False Misconfigured"},
		},
		"a cluster less": {
			change:      removed("ManagedCluster", "c2"),
			wantChanges: []string{"shop/web Updated 2-1 -c2; web-decision-1 Updated"},
		},
		"a Placement less": {
			change: removed("Placement", "shop/web"),
			wantChanges: []string{"shop/web Deleted 2-0 -c1 -c2; web-decision-1 Deleted; " +
				"PlacementMisconfigured False Succeedconfigured > ; PlacementSatisfied " + scheduled + " > "},
		},
		"a binding less": {
			change: removed("ManagedClusterSetBinding", "shop/eu"),
			wantChanges: []string{
				"shop/web Updated 2-0 -c1 -c2; web-decision-1 Updated; PlacementSatisfied " + scheduled + " > False NoManagedClusterSetBindings",
				"shop/api Updated 1-0 -c1; api-decision-1 Updated; PlacementSatisfied " + scheduled + " > False NoManagedClusterSetBindings",
			},
		},
		"what is not published yet is none of the change": {
			hub:           func(o *Objects) { *o = (*o)[:len(*o)-1] },
			change:        labelled("c2", "tier", "2"),
			wantOutOfDate: []string{"shop/web"},
		},
		"a Placement that is left alone": {
			hub: func(o *Objects) {
				List[*v1alpha1.Placement](*o)[1].Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
			},
			change: removed("ManagedCluster", "c2"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub := shop()
			if tc.hub != nil {
				tc.hub(&hub)
			}
			c := compared(t, hub, tc.change)
			var got, outOfDate []string
			for _, change := range c.Changes {
				got = append(got, short(change))
				if change.Added == nil || change.Removed == nil {
					t.Errorf("%s: added %#v, removed %#v: JSON needs empty lists", change.Placement, change.Added, change.Removed)
				}
			}
			for _, u := range c.OutOfDate {
				outOfDate = append(outOfDate, u.Placement)
			}
			if diff := cmp.Diff(tc.wantChanges, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOutOfDate, outOfDate); diff != "" {
				t.Errorf("outOfDate (-want +got):\n%s", diff)
			}
			if c.Summary.Changed != len(c.Changes) || c.Summary.Placements < 2 {
				t.Errorf("summary is %+v", c.Summary)
			}
			if diff := cmp.Diff(shop(), hub); tc.hub == nil && diff != "" {
				t.Errorf("the hub's own objects changed:\n%s", diff)
			}
		})
	}
}

// TestCountsAreNoChange: conditions that differ only in counts are equal; values in a
// misconfiguration are not.
func TestCountsAreNoChange(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, was, is string
		want          int
	}{
		"counts of clusters": {v1alpha1.PlacementConditionSatisfied, "15 cluster decisions unscheduled: of 30 candidates 25 excluded by Predicate",
			"16 cluster decisions unscheduled: of 31 candidates 25 excluded by Predicate, 1 by TaintToleration", 0},
		"a number in a name": {v1alpha1.PlacementConditionSatisfied, "paris1", "paris2", 1},
		"another text":       {v1alpha1.PlacementConditionSatisfied, "1 cluster decisions unscheduled", "1 cluster decisions unscheduled by quota", 1},
		"a wrong value":      {v1alpha1.PlacementConditionMisconfigured, "spec.a: 11 is not allowed", "spec.a: 12 is not allowed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := func(message string) []Condition {
				return []Condition{{Type: tc.kind, Status: "False", Message: message}}
			}
			if got := conditionChanges(conditions(tc.was), conditions(tc.is)); len(got) != tc.want {
				t.Errorf("changes are %v, want %d", got, tc.want)
			}
		})
	}
}

// TestCompareMisconfigured lists misconfigured Placements, and which were so before.
func TestCompareMisconfigured(t *testing.T) {
	wrong := func(name string) *v1alpha1.Placement {
		return fixture.Placement("shop", name).Toleration("", v1alpha1.TolerationOpEqual, "x", "").Obj()
	}
	hub := append(shop(), wrong("already"))
	c := compared(t, hub, replaced(wrong("web")))
	var got []string
	for _, m := range c.Misconfigured {
		if m.Message == "" {
			t.Errorf("%s has no message", m.Placement)
		}
		got = append(got, fmt.Sprint(m.Placement, " ", m.Before))
	}
	if diff := cmp.Diff([]string{"shop/already true", "shop/web false"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCompareApproval has a Placement that needs approval and already waits for a change.
func TestCompareApproval(t *testing.T) {
	hub := shop()
	hub = append(hub, fixture.ApprovalPolicy("shop", "careful", "web"))
	page := List[*v1alpha1.PlacementDecision](hub)[1]
	page.Status.Decisions = page.Status.Decisions[:1]
	c := compared(t, hub, labelled("c3", v1alpha1.ClusterSetLabel, "eu"))
	if len(c.Changes) != 1 || !c.Changes[0].NeedsApproval || !cmp.Equal(c.Changes[0].Added, []string{"c3"}) {
		t.Errorf("changes are %+v, want c3 added with approval", c.Changes)
	}
	if change := c.Changes[0]; change.Published != 1 || change.Before != 2 || change.After != 3 {
		t.Errorf("%d published, %d before and %d after; want 1, 2 and 3", change.Published, change.Before, change.After)
	}
	if diff := cmp.Diff([]OutOfDate{{Placement: "shop/web", Held: true}}, c.OutOfDate); diff != "" {
		t.Error(diff)
	}
}

// TestCompareWindow: a change that only waits for a window needs no approval.
func TestCompareWindow(t *testing.T) {
	nightly := policyOf(func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Placements, spec.Windows = []string{"web"}, []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
	})
	nightly.Namespace = "shop"
	c := compared(t, append(shop(), nightly), labelled("c3", v1alpha1.ClusterSetLabel, "eu"))
	if len(c.Changes) != 1 || c.Changes[0].NeedsApproval {
		t.Errorf("changes are %+v, want c3 added without approval", c.Changes)
	}
}

func compared(t *testing.T, hub Objects, edits []Edit) *Comparison {
	t.Helper()
	w, err := NewWhatIf(t.Context(), hub, edits, noon, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Compare(t.Context(), w.Placements(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Only affected Placements differ.
	for _, change := range c.Changes {
		namespace, name, _ := strings.Cut(change.Placement, "/")
		if !slices.Contains(w.Affected, types.NamespacedName{Namespace: namespace, Name: name}) {
			t.Errorf("%s is not affected, and changes", change.Placement)
		}
	}
	return c
}

func short(c Change) string {
	var text strings.Builder
	text.WriteString(c.Placement + " " + c.Operation + " " + string(rune('0'+c.Before)) + "-" + string(rune('0'+c.After)))
	for _, name := range c.Added {
		text.WriteString(" +" + name)
	}
	for _, name := range c.Removed {
		text.WriteString(" -" + name)
	}
	for _, page := range c.Pages {
		text.WriteString("; " + page.Name + " " + page.Operation)
	}
	say := func(c *Condition) string {
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
	for _, condition := range c.Conditions {
		text.WriteString("; " + condition.Type + " " + say(condition.Before) + " > " + say(condition.After))
	}
	return text.String()
}

func TestCompareEnds(t *testing.T) {
	w, err := NewWhatIf(t.Context(), shop(), nil, noon, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Compare(ctx, w.Placements(), nil); err == nil {
		t.Error("a comparison goes on after its context ended")
	}
	if _, err := NewWhatIf(ctx, shop(), nil, noon, Options{}); err == nil {
		t.Error("a what-if begins after its context ended")
	}
}

func TestLoadInto(t *testing.T) {
	text := `{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: p}, spec: {}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: q, namespace: other}, spec: {}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: c}, spec: {}}
`
	input, err := LoadInto("shop", []string{"-"}, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range input.Objects {
		got = append(got, o.GetNamespace())
	}
	if diff := cmp.Diff([]string{"shop", "other", ""}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPublishedPages(t *testing.T) {
	for name, tc := range fixture.PageCases("shop", "web", "c1") {
		t.Run(name, func(t *testing.T) {
			disabled := fixture.Placement("shop", "web").Annotation(v1alpha1.PlacementDisableAnnotation, "true").Obj()
			s, err := New(t.Context(), Objects{disabled, tc.Page}, noon, Options{})
			if err != nil {
				t.Fatal(err)
			}
			o, err := s.outcome(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, false)
			if got := len(o.published) > 0; got != tc.Published || err != nil {
				t.Errorf("published %v, error %v", o.published, err)
			}
		})
	}
}

// TestHardestHitFirst: what loses all its clusters comes first, then what loses most of them.
func TestHardestHitFirst(t *testing.T) {
	c := NewComparison()
	for _, change := range []Change{
		{Placement: "ns/a", Before: 2, After: 3}, {Placement: "ns/b", Before: 3, After: 3, Removed: []string{"x"}},
		{Placement: "ns/c", Before: 9, After: 5, Removed: []string{"x"}}, {Placement: "ns/d", Before: 1, Removed: []string{"x"}},
		{Placement: "ns/e", Before: 3, Removed: []string{"x"}}, {Placement: "ns/f", After: 2},
	} {
		c.Add(Compared{Change: &change})
	}
	c.Sort()
	var got []string
	for _, change := range c.Changes {
		got = append(got, change.Placement)
	}
	if diff := cmp.Diff([]string{"ns/e", "ns/d", "ns/c", "ns/b", "ns/a", "ns/f"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestCompareCounts: of the Placements that a change moves, each sees where those before it went,
// as in the controller.
func TestCompareCounts(t *testing.T) {
	objects := Objects{
		fixture.Set("eu"), fixture.Binding("shop", "eu"), fixture.Cluster("c1").Set("eu").Label("gpu", "true").Obj(), fixture.Cluster("c2").Set("eu").Obj(),
	}
	for _, name := range []string{"p1", "p2", "p3", "p4"} {
		pl := fixture.Placement("shop", name).Predicate(fixture.MatchLabel("gpu", "true")).Number(1).Obj()
		pl.Spec.PrioritizerPolicy = v1alpha1.PrioritizerPolicy{Mode: v1alpha1.PrioritizerPolicyModeExact, Configurations: []v1alpha1.PrioritizerConfig{
			{ScoreCoordinate: &v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreCoordinateTypeBuiltIn, BuiltIn: v1alpha1.PrioritizerBalance}},
		}}
		objects = append(objects, pl, fixture.Page("shop", name+"-decision-1").Of(name).OwnedBy(name).Lists("c1").Obj())
	}
	w, err := NewWhatIf(t.Context(), objects, labelled("c2", "gpu", "true"), noon, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Compare(t.Context(), w.Placements(), nil)
	if err != nil || len(c.Changes) != 2 {
		t.Errorf("%d Placements move, want half of 4: %v", len(c.Changes), err)
	}
}

// TestCompareEdited: an edit of a Placement is compared with what is published, because it ends the
// Placement's own change.
func TestCompareEdited(t *testing.T) {
	objects := shop()
	w, err := NewWhatIf(t.Context(), objects[:len(objects)-1], []Edit{{Kind: EditNumber, Placement: "shop/web", Number: new(int32(1))}}, noon, Options{})
	if err != nil {
		t.Fatal(err)
	}
	objects = append(objects[:len(objects)-1], fixture.Page("shop", "web-decision-1").Of("web").OwnedBy("web").Lists("c2").Obj())
	held, err := NewWhatIf(t.Context(), objects, []Edit{{Kind: EditNumber, Placement: "shop/web", Number: new(int32(1))}}, noon, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for w, want := range map[*WhatIf]int{w: 1, held: 0} {
		c, err := w.Compare(t.Context(), w.Placements(), nil)
		if err != nil || c.Summary.Removed != want || len(c.Changes) > 0 && c.Changes[0].Before != 2 {
			t.Errorf("%d removed, want %d: %+v, %v", c.Summary.Removed, want, c, err)
		}
	}
}
