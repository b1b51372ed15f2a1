package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

// onlyName selects the cluster whose label name has a value.
func onlyName(name string) []v1alpha1.ClusterPredicate {
	return fixture.Placement("n", "p").Predicate(fixture.MatchLabel("name", name)).Obj().Spec.Predicates
}

// disabledHub has Placement n/p, which published q1, and then was disabled.
func disabledHub(t *testing.T) *setUpHub {
	t.Helper()
	h := startSetUpHub(t, hubOptions{})
	for _, name := range []string{"q1", "q2"} {
		h.reconciler.Inventory.Update(fixture.Cluster(name).Set("s1").Label("name", name).Obj())
	}
	pl := fixture.Placement("n", "p").Obj()
	pl.Spec.Predicates = onlyName("q1")
	h.place(pl)
	h.succeed()
	h.reconciler.Inventory.Started()
	h.annotate("true")
	h.succeed()
	h.checkPublished("q1")
	return h
}

// annotate sets the annotation that disables scheduling.
func (h *setUpHub) annotate(value string) {
	h.t.Helper()
	pl := h.placement()
	pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: value}
	h.edit(pl)
}

// meddle is an edit of the page by another writer; nil deletes it.
func (h *setUpHub) meddle(clusters []string) *v1alpha1.PlacementDecision {
	h.t.Helper()
	page := &v1alpha1.PlacementDecision{}
	if err := h.hub.Get(h.t.Context(), client.ObjectKey{Namespace: "n", Name: "p-decision-1"}, page); err != nil {
		h.t.Fatal(err)
	}
	if clusters == nil {
		if err := h.hub.Delete(h.t.Context(), page); err != nil {
			h.t.Fatal(err)
		}
		return page
	}
	page.Status.Decisions = nil
	for _, name := range clusters {
		page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: name})
	}
	if err := h.hub.Status().Update(h.t.Context(), page); err != nil {
		h.t.Fatal(err)
	}
	return page
}

// records are the records on the hub as "revision phase +added -removed: cause", in their order.
func (h *setUpHub) recordLines() []string {
	h.t.Helper()
	var all berthv1alpha1.PlacementChangeList
	if err := h.hub.List(h.t.Context(), &all); err != nil {
		h.t.Fatal(err)
	}
	lines := make([]string, 0, len(all.Items))
	for _, r := range all.Items {
		lines = append(lines, fmt.Sprintf("%d %s +%v -%v: %s", r.Spec.Revision, r.Status.Phase, r.Spec.Added, r.Spec.Removed, r.Spec.Cause))
	}
	slices.Sort(lines)
	return lines
}

// forget makes the inventory forget the Placement and read it again, as a restart does.
func (h *setUpHub) forget() {
	pl := h.placement()
	h.reconciler.Inventory.Delete(pl)
	h.reconciler.Inventory.Update(pl)
}

const (
	firstRecord = "1 Published +[q1] -[]: start"
	failedOver  = "2 Published +[q2] -[q1]: pages edited while scheduling was disabled"
)

// TestAdoptPages: pages that another writer edited while scheduling was disabled are what Berth
// starts from when it is enabled again, whatever the watch has reported and whether the controller
// was restarted meanwhile.
func TestAdoptPages(t *testing.T) {
	for name, tc := range map[string]struct {
		spec        []v1alpha1.ClusterPredicate
		clusters    []string
		approval    bool
		want        []string
		wantRecords []string
		wantPending string
	}{
		"a failover":                        {spec: onlyName("q2"), clusters: []string{"q2"}, want: []string{"q2"}, wantRecords: []string{firstRecord, failedOver}},
		"a failover, and approval":          {spec: onlyName("q2"), clusters: []string{"q2"}, approval: true, want: []string{"q2"}, wantRecords: []string{firstRecord, failedOver}},
		"an edit that the spec contradicts": {spec: onlyName("q1"), clusters: []string{"q2"}, approval: true, want: []string{"q2"}, wantPending: "True Held: ", wantRecords: []string{firstRecord, failedOver, "3 Held +[q1] -[q2]: "}},
		"an edit of the spec alone":         {spec: onlyName("q2"), clusters: []string{"q1"}, approval: true, want: []string{"q1"}, wantPending: "True Held: ", wantRecords: []string{firstRecord, "2 Held +[q2] -[q1]: "}},
		"a deleted page":                    {spec: onlyName("q1"), approval: true, wantPending: "True Held: ", wantRecords: []string{firstRecord, "2 Published +[] -[q1]: pages edited while scheduling was disabled", "3 Held +[q1] -[]: "}},
		"no edit":                           {spec: onlyName("q1"), clusters: []string{"q1"}, approval: true, want: []string{"q1"}, wantRecords: []string{firstRecord}},
	} {
		for _, watched := range []string{"before", "after", "restart", "restart while disabled"} {
			t.Run(name+", "+watched, func(t *testing.T) {
				h := disabledHub(t)
				inv := h.reconciler.Inventory
				if tc.approval {
					inv.Update(fixture.ApprovalPolicy("n", "careful"))
				}
				if watched == "restart while disabled" {
					h.forget()
				}
				page := h.meddle(tc.clusters)
				report := func() {
					if tc.clusters == nil {
						inv.Delete(page)
					} else {
						inv.Update(page)
					}
				}
				if watched != "after" {
					report()
				}
				pl := h.placement()
				pl.Generation++
				pl.Spec.Predicates = tc.spec
				h.edit(pl)
				h.annotate("false")
				if watched == "restart" {
					h.forget()
				}
				h.succeed()
				if watched == "after" {
					report()
				}
				h.succeed()
				if got := h.published(); !slices.Equal(got, tc.want) {
					t.Errorf("published are %v, want %v", got, tc.want)
				}
				if got := h.recordLines(); !slices.EqualFunc(got, tc.wantRecords, func(line, want string) bool { return strings.HasPrefix(line, strings.TrimSuffix(want, "start")) }) {
					t.Errorf("records (-want +got):\n%s", cmp.Diff(tc.wantRecords, got))
				}
				if got := h.condition(pending); !strings.HasPrefix(got, tc.wantPending) || tc.wantPending == "" && got != "" {
					t.Errorf("condition %s: %q", pending, got)
				}
				if got := h.condition(v1alpha1.PlacementConditionSchedulingDisabled); got != "" {
					t.Errorf("the condition is still %q", got)
				}
				h.checkStatus()
			})
		}
	}
}

// TestLostStatusIsWritten: the status describes what is published also if the process that
// published it could not write the status, and the next change is held.
func TestLostStatusIsWritten(t *testing.T) {
	h := startSetUpHub(t, hubOptions{})
	for _, name := range []string{"q1", "q2"} {
		h.reconciler.Inventory.Update(fixture.Cluster(name).Set("s1").Label("name", name).Obj())
	}
	h.place(fixture.Placement("n", "p").Obj())
	h.refuse = func(request string) error {
		if request == "patch status of Placement p" {
			return errBroken
		}
		return nil
	}
	if _, err := h.reconcile(); err == nil {
		t.Fatal("the status was written")
	}
	h.refuse = nil
	h.reconciler.Inventory.Update(fixture.ApprovalPolicy("n", "careful"))
	h.reconciler.Inventory.Update(fixture.Cluster("q3").Set("s1").Obj())
	h.forget()
	h.succeed()
	if got := h.condition(pending); !strings.HasPrefix(got, "True Held: ") {
		t.Errorf("condition %s: %q", pending, got)
	}
	h.checkStatus()
}

// TestUnknownPagesStayUnknown: if all pages are gone and no record says what they listed, the
// status is all that is known, and stays. Without it, the next attempt would publish an empty page.
func TestUnknownPagesStayUnknown(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "q1")
	inv := h.reconciler.Inventory
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	h.checkPublished("q1")
	h.reconciler.Records.Forget(placementKey)
	want := h.placement().Status
	var records berthv1alpha1.PlacementChangeList
	if err := h.hub.List(t.Context(), &records); err != nil {
		t.Fatal(err)
	}
	for i := range records.Items {
		inv.Delete(&records.Items[i])
	}
	inv.Delete(h.meddle(nil))
	inv.Update(fixture.ApprovalPolicy("n", "careful"))
	h.forget()
	for range 3 {
		h.succeed()
	}
	var pages v1alpha1.PlacementDecisionList
	if err := h.hub.List(t.Context(), &pages); err != nil {
		t.Fatal(err)
	}
	if len(pages.Items) > 0 {
		t.Errorf("published are %d pages: %v", len(pages.Items), h.published())
	}
	if got := h.placement().Status; got.NumberOfSelectedClusters != want.NumberOfSelectedClusters || !cmp.Equal(got.DecisionGroups, want.DecisionGroups) {
		t.Errorf("the status counts %d clusters in %v, before %d in %v", got.NumberOfSelectedClusters, got.DecisionGroups, want.NumberOfSelectedClusters, want.DecisionGroups)
	}
}

// TestAdoptPagesIsRepeated: each request may fail, and the next attempt of this or another process
// completes what was begun.
func TestAdoptPagesIsRepeated(t *testing.T) {
	for _, fails := range []string{"create PlacementChange p-2", "update status of PlacementChange p-2", "patch status of Placement p"} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %t", fails, restarts), func(t *testing.T) {
				h := disabledHub(t)
				h.reconciler.Inventory.Update(h.meddle([]string{"q2"}))
				pl := h.placement()
				pl.Spec.Predicates, pl.Annotations = onlyName("q2"), nil
				h.edit(pl)
				broken := errors.New("broken")
				h.refuse = func(request string) error {
					if request == fails {
						return broken
					}
					return nil
				}
				if _, err := h.reconcile(); !errors.Is(err, broken) {
					t.Fatalf("got %v", err)
				}
				if got := h.condition(v1alpha1.PlacementConditionSchedulingDisabled); got == "" {
					t.Error("the condition was removed too early")
				}
				if got := h.published(); !slices.Equal(got, []string{"q2"}) {
					t.Errorf("published are %v", got)
				}
				h.refuse = nil
				var records berthv1alpha1.PlacementChangeList
				if err := h.hub.List(t.Context(), &records); err != nil {
					t.Fatal(err)
				}
				for i := range records.Items {
					h.reconciler.Inventory.Update(&records.Items[i])
				}
				if restarts {
					h.forget()
				}
				h.succeed()
				h.checkPublished("q2")
				if got := h.recordLines(); len(got) != 2 || got[1] != failedOver {
					t.Errorf("records %q", got)
				}
			})
		}
	}
}

// TestAdoptPagesWithoutRecord: a Placement is decided also if the API server refuses the record.
func TestAdoptPagesWithoutRecord(t *testing.T) {
	h := disabledHub(t)
	h.reconciler.Inventory.Update(h.meddle([]string{"q2"}))
	pl := h.placement()
	pl.Spec.Predicates, pl.Annotations = onlyName("q2"), nil
	h.edit(pl)
	h.refuse = func(request string) error {
		if request == "create PlacementChange p-2" {
			return apierrors.NewForbidden(schema.GroupResource{Group: "berth.dev", Resource: "placementchanges"}, "p-2", nil)
		}
		return nil
	}
	h.succeed()
	h.checkPublished("q2")
	if got := h.condition(v1alpha1.PlacementConditionSchedulingDisabled); got != "" {
		t.Errorf("the condition stays: %s", got)
	}
}

// TestAdoptPagesAfterARefusedRecord: a change whose record is still refused when scheduling is
// enabled again is recorded once.
func TestAdoptPagesAfterARefusedRecord(t *testing.T) {
	h := disabledHub(t)
	h.reconciler.Inventory.Update(fixture.Cluster("q3").Set("s1").Label("name", "q3").Obj())
	h.annotate("false")
	h.succeed() // The first record is written.
	refused := true
	h.refuse = func(request string) error {
		if refused && strings.HasPrefix(request, "create PlacementChange") {
			return apierrors.NewForbidden(schema.GroupResource{Group: "berth.dev", Resource: "placementchanges"}, "p-2", nil)
		}
		return nil
	}
	pl := h.placement()
	pl.Spec.Predicates = onlyName("q2")
	h.edit(pl)
	h.succeed()
	h.checkPublished("q2")
	h.annotate("true")
	h.succeed()
	h.reconciler.Inventory.Update(h.meddle([]string{"q3"}))
	pl = h.placement()
	pl.Spec.Predicates, pl.Annotations = onlyName("q3"), nil
	h.edit(pl)
	h.succeed()
	refused = false
	if err := h.reconciler.Records.flush(t.Context(), placementKey); err != nil {
		t.Fatal(err)
	}
	want := []string{firstRecord, "2 Published +[q2] -[q1]: Placement: spec", "3 Published +[q3] -[q2]: " + changes.CauseDisabled}
	if diff := cmp.Diff(want, h.recordLines()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestDamageAfterAdoption: an edit after scheduling was enabled again is reverted.
func TestDamageAfterAdoption(t *testing.T) {
	h := disabledHub(t)
	h.annotate("false")
	h.succeed()
	h.reconciler.Inventory.Update(h.meddle([]string{"q2"}))
	h.succeed()
	h.checkPublished("q1")
}

// TestHeldWhileDisabled: a held change does not count as published after scheduling was disabled
// and nobody edited a page.
func TestHeldWhileDisabled(t *testing.T) {
	h := disabledHub(t)
	h.annotate("false")
	h.succeed()
	h.reconciler.Inventory.Update(&berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "careful", ResourceVersion: "1"}, Spec: berthv1alpha1.DisruptionPolicySpec{
		PlacementSelector: &metav1.LabelSelector{}, Approval: berthv1alpha1.ApprovalRequired,
	}})
	pl := h.placement()
	pl.Spec.Predicates = onlyName("q2")
	h.edit(pl)
	h.succeed()
	h.annotate("true")
	h.succeed()
	h.annotate("false")
	h.succeed()
	h.reconciler.Inventory.Update(h.meddle([]string{"q2"}))
	h.succeed()
	if got := h.reconciler.Inventory.Subject(placementKey).LastRevision(); got != 1 || !slices.Equal(h.published(), []string{"q1"}) {
		t.Errorf("published is %v, revision %d, and the records are\n%s", h.published(), got, strings.Join(h.recordLines(), "\n"))
	}
}

// TestPagesOfADisabledPlacement: evictions, quotas and other Placements count what the pages list.
func TestPagesOfADisabledPlacement(t *testing.T) {
	h := disabledHub(t)
	h.reconciler.Inventory.Update(h.meddle([]string{"q2"}))
	h.succeed()
	h.checkPublished("q2")
	if got := h.reconciler.Inventory.Subject(placementKey).LastNames(); !slices.Equal(got, []string{"q2"}) {
		t.Errorf("got %v", got)
	}
}

// TestDisabledWhileProgressing: disabling and enabling scheduling in the middle of a change, or
// after one that was published in part, changes no record if nobody edits a page.
func TestDisabledWhileProgressing(t *testing.T) {
	for _, superseded := range []bool{false, true} {
		for _, disabled := range []bool{false, true} {
			h := startSetUpHub(t, hubOptions{})
			inv := h.reconciler.Inventory
			pool := func(value string, names ...string) {
				for _, name := range names {
					inv.Update(fixture.Cluster(name).Set("s1").Label("pool", value).Obj())
				}
			}
			policy := func(spec berthv1alpha1.DisruptionPolicySpec, version string) {
				spec.PlacementSelector = &metav1.LabelSelector{}
				inv.Update(&berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "careful", ResourceVersion: version}, Spec: spec})
			}
			pool("in", "q1", "q2")
			h.place(fixture.Placement("n", "p").Predicate(fixture.MatchLabel("pool", "in")).Obj())
			h.succeed()
			inv.Started()
			policy(berthv1alpha1.DisruptionPolicySpec{MinReadySeconds: 600}, "1")
			pool("out", "q1")
			pool("in", "q3")
			for range 3 {
				h.succeed()
			}
			if superseded {
				policy(berthv1alpha1.DisruptionPolicySpec{MinReadySeconds: 600, Approval: berthv1alpha1.ApprovalRequired}, "2")
				pool("in", "q1", "q4")
				for range 2 {
					h.succeed()
				}
			}
			before := h.recordLines()
			if disabled {
				h.annotate("true")
				h.succeed()
				h.annotate("false")
			}
			for range 3 {
				h.succeed()
			}
			if got := h.recordLines(); strings.Join(got, "\n") != strings.Join(before, "\n") {
				t.Errorf("superseded %t, disabled %t: published is %v, and the records are\n%s\nbefore they were\n%s", superseded, disabled, h.published(), strings.Join(got, "\n"), strings.Join(before, "\n"))
			}
		}
	}
}

// TestAdoptPagesAfterPartOfAChange: the record begins with what was published, also if a superseded
// change was published in part, and if its status is written by another process.
func TestAdoptPagesAfterPartOfAChange(t *testing.T) {
	for _, fails := range []string{"", "update status of PlacementChange p-4"} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %t", fails, restarts), func(t *testing.T) {
				h := startSetUpHub(t, hubOptions{})
				inv := h.reconciler.Inventory
				pool := func(value string, names ...string) {
					for _, name := range names {
						inv.Update(fixture.Cluster(name).Set("s1").Label("pool", value).Obj())
					}
				}
				policy := func(version string, spec berthv1alpha1.DisruptionPolicySpec) {
					spec.PlacementSelector, spec.MinReadySeconds = &metav1.LabelSelector{}, 600
					inv.Update(&berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "careful", ResourceVersion: version}, Spec: spec})
				}
				pool("in", "q1", "q2")
				h.place(fixture.Placement("n", "p").Predicate(fixture.MatchLabel("pool", "in")).Obj())
				h.succeed()
				inv.Started()
				policy("1", berthv1alpha1.DisruptionPolicySpec{})
				pool("out", "q1")
				pool("in", "q3")
				for range 3 {
					h.succeed()
				}
				policy("2", berthv1alpha1.DisruptionPolicySpec{Approval: berthv1alpha1.ApprovalRequired})
				pool("in", "q1", "q4")
				for range 2 {
					h.succeed()
				}
				h.annotate("true")
				h.succeed()
				inv.Update(h.meddle([]string{"q2", "q4"}))
				h.annotate("false")
				h.refuse = func(request string) error {
					if request == fails {
						return errors.New("broken")
					}
					return nil
				}
				_, _ = h.reconcile()
				h.refuse = nil
				var records berthv1alpha1.PlacementChangeList
				if err := h.hub.List(t.Context(), &records); err != nil {
					t.Fatal(err)
				}
				for i := range records.Items {
					inv.Update(&records.Items[i])
				}
				if restarts {
					h.forget()
				}
				h.succeed()
				want := "4 Published +[q4] -[q1 q3]: " + changes.CauseDisabled
				if got := h.recordLines(); len(got) < 4 || got[3] != want {
					t.Errorf("want %q, got %q", want, got)
				}
			})
		}
	}
}
