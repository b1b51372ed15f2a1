package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

type selectionSpec = berthv1alpha1.SelectionPolicySpec

// policyFor is the SelectionPolicy slp-<placement>.
func policyFor(placement string, spec selectionSpec) *berthv1alpha1.SelectionPolicy {
	spec.Placement = placement
	return &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "slp-" + placement, UID: "u"}, Spec: spec}
}

func byRegion(region string) v1alpha1.ClusterSelector {
	return v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"region": region}}}
}

func cpus(amount string) map[v1alpha1.ResourceName]resource.Quantity {
	return map[v1alpha1.ResourceName]resource.Quantity{"cpu": resource.MustParse(amount)}
}

func inRegion(name, region string) fixture.ClusterBuilder {
	return fixture.Cluster(name).Label("region", region)
}

func inTiers(regions ...string) []berthv1alpha1.SelectionTier {
	var tiers []berthv1alpha1.SelectionTier
	for _, region := range regions {
		tiers = append(tiers, berthv1alpha1.SelectionTier{Name: region, ClusterSelector: byRegion(region)})
	}
	return tiers
}

func references(names ...string) []berthv1alpha1.PlacementReference {
	var all []berthv1alpha1.PlacementReference
	for _, name := range names {
		all = append(all, berthv1alpha1.PlacementReference{Placement: name})
	}
	return all
}

// placed is another Placement with clusters, and its policy if it requests something.
func placed(name, requests string, clusters ...string) []client.Object {
	all := []client.Object{
		fixture.Placement("ns", name).Obj(), fixture.Page("ns", name+"-decision-1").Of(name).OwnedBy(name).Lists(clusters...).Obj(),
	}
	if requests != "" {
		all = append(all, policyFor(name, selectionSpec{Requests: cpus(requests)}))
	}
	return all
}

// TestSelectionVerdicts: why a cluster is not selected, and what changes that; each change is
// proved by a decision.
func TestSelectionVerdicts(t *testing.T) {
	number := func(n int32) fixture.PlacementBuilder { return fixture.Placement("ns", "p").Number(n) }
	two := new(int32(2))
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		spec      selectionSpec
		clusters  []fixture.ClusterBuilder
		others    []client.Object
		reason    string
		flip      string
	}{
		"excluded by name": {number(2), selectionSpec{ClusterNames: berthv1alpha1.ClusterNames{Exclude: []string{"c1"}}}, nil, nil,
			"in clusterNames.exclude of SelectionPolicy slp-p", "SelectionPolicy without c1 in clusterNames.exclude"},
		"nothing included": {number(2), selectionSpec{ClusterNames: berthv1alpha1.ClusterNames{Include: []string{}}}, nil, nil,
			"not in the empty clusterNames.include of SelectionPolicy slp-p", "SelectionPolicy with c1 in clusterNames.include"},
		"not included": {number(2), selectionSpec{ClusterNames: berthv1alpha1.ClusterNames{Include: []string{"c2"}}}, nil, nil,
			"not in clusterNames.include of SelectionPolicy slp-p", "SelectionPolicy with c1 in clusterNames.include"},
		"in no tier": {number(2), selectionSpec{Tiers: inTiers("eu", "us")}, []fixture.ClusterBuilder{fixture.Cluster("c1"), inRegion("c2", "eu")}, nil,
			`in no tier of SelectionPolicy slp-p: tier eu: labels do not match region=eu; tier us: labels do not match region=us`, "cluster label region=eu"},
		"a later tier": {number(1), selectionSpec{Tiers: inTiers("eu", "us")}, []fixture.ClusterBuilder{inRegion("c1", "us"), inRegion("c2", "eu")}, nil,
			"rank 1 of 2, tier us is not used, because tier eu is sufficient", "cluster label region=eu"},
		"a tier that is too small": {number(2), selectionSpec{Tiers: inTiers("eu", "us")}, []fixture.ClusterBuilder{inRegion("c1", "eu"), inRegion("c2", "us"), inRegion("c3", "us")}, nil,
			"rank 1 of 3, tier eu is not sufficient: 1 of 2 clusters qualify", "cluster label region=us"},
		"no clusters wanted": {number(0), selectionSpec{Tiers: inTiers("eu")}, []fixture.ClusterBuilder{inRegion("c1", "eu")}, nil,
			"rank 1 of 1, numberOfClusters is 0", "numberOfClusters 1"},
		"a full group": {number(2), selectionSpec{Groups: []berthv1alpha1.SelectionGroup{{Name: "g", ClusterSelector: byRegion("eu"), Max: new(int32(0))}}}, []fixture.ClusterBuilder{inRegion("c1", "eu"), fixture.Cluster("c2")}, nil,
			"rank 1 of 2, group g has its maximum of 0", "SelectionPolicy with max 1 for group g"},
		"a full group with a count": {number(3), selectionSpec{Groups: []berthv1alpha1.SelectionGroup{{Name: "g", Count: two}}}, []fixture.ClusterBuilder{fixture.Cluster("c3"), fixture.Cluster("c2"), fixture.Cluster("c1").Taint("t", "", v1alpha1.TaintEffectPreferNoSelect)}, nil,
			"rank 3 of 3, group g has its maximum of 2", "tolerate t:PreferNoSelect"},
		"too full": {number(2), selectionSpec{Requests: cpus("4")}, []fixture.ClusterBuilder{fixture.Cluster("c1").Allocatable("cpu", "64"), fixture.Cluster("c2").Allocatable("cpu", "4")}, placed("q", "61500m", "c1"),
			"needs 4 cpu, 2500m of 64 are free", "1500m more allocatable cpu"},
		"a resource that is not reported": {number(2), selectionSpec{Requests: cpus("4")}, []fixture.ClusterBuilder{fixture.Cluster("c1"), fixture.Cluster("c2").Allocatable("cpu", "4")}, nil,
			"the cluster does not report cpu", ""},
		"a cluster of a Placement apart": {number(2), selectionSpec{Affinity: berthv1alpha1.PlacementAffinity{ApartFrom: references("q")}}, nil, placed("q", "", "c1"),
			"Placement q has the cluster (spec.affinity.apartFrom[0])", "if Placement q did not have it"},
		"a cluster of two Placements apart": {number(2), selectionSpec{Affinity: berthv1alpha1.PlacementAffinity{ApartFrom: references("r", "q")}}, nil, append(placed("q", "", "c1"), placed("r", "", "c1")...),
			"Placement q has the cluster (spec.affinity.apartFrom[1])", "if Placement q did not have it and Placement r did not have it"},
		"not a cluster of a Placement with": {number(2), selectionSpec{Affinity: berthv1alpha1.PlacementAffinity{With: references("q")}}, nil, placed("q", "", "c2"),
			"Placement q does not have the cluster (spec.affinity.with[0])", "if Placement q had it"},
		"preferences of another cluster": {number(1), selectionSpec{Preferences: []berthv1alpha1.Preference{{Weight: 60, ClusterSelector: byRegion("eu")}}}, []fixture.ClusterBuilder{fixture.Cluster("c1"), inRegion("c2", "eu")}, nil,
			"rank 2 of 2, 1 selected", "+60 score"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.clusters == nil {
				tc.clusters = []fixture.ClusterBuilder{fixture.Cluster("c1"), fixture.Cluster("c2")}
			}
			inv, s := fleet(tc.placement, tc.clusters...), newScheduler(t)
			inv.Update(policyFor("p", tc.spec))
			for _, o := range tc.others {
				inv.Update(o)
			}
			r := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			verdicts := s.Explain(context.Background(), r.Decision, "c1")
			if len(verdicts) != 1 {
				t.Fatalf("%d verdicts: %v", len(verdicts), r.Failure)
			}
			if v := verdicts[0]; v.Reason != tc.reason || v.SelectedWith != tc.flip {
				t.Errorf("got %q and %q,\nwant %q and %q", v.Reason, v.SelectedWith, tc.reason, tc.flip)
			}
		})
	}
}

// conditionText is a condition as "status/reason: message".
func conditionText(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return string(c.Status) + "/" + c.Reason + ": " + c.Message
	}
	return ""
}

// TestSelectionStatus: the status of a policy, and PlacementSatisfied.
func TestSelectionStatus(t *testing.T) {
	ready := "True/Applied: The policy applies to Placement p"
	for name, tc := range map[string]struct {
		placement                    fixture.PlacementBuilder
		policies                     []*berthv1alpha1.SelectionPolicy
		tainted                      string
		ready, sufficient, satisfied string
		tiers                        []berthv1alpha1.SelectionTierStatus
		unmet                        []berthv1alpha1.UnmetGroup
		unknown                      []string
	}{
		"unknown names": {
			placement: fixture.Placement("ns", "p"), ready: ready + "; names that are no candidates: x, y", satisfied: "True/AllDecisionsScheduled: All cluster decisions scheduled", unknown: []string{"x", "y"},
			policies: []*berthv1alpha1.SelectionPolicy{policyFor("p", selectionSpec{ClusterNames: berthv1alpha1.ClusterNames{Include: []string{"y", "c1"}, Exclude: []string{"x", "c2"}}})},
		},
		"an unmet group": {
			placement: fixture.Placement("ns", "p").Number(3), ready: ready, tainted: "c1", satisfied: "False/GroupUnsatisfiable: group g has 1 of at least 3 clusters: of 3 candidates 1 excluded by TaintToleration",
			policies: []*berthv1alpha1.SelectionPolicy{policyFor("p", selectionSpec{Groups: []berthv1alpha1.SelectionGroup{{Name: "g", ClusterSelector: byRegion("eu"), Count: new(int32(3))}}})},
			unmet:    []berthv1alpha1.UnmetGroup{{Group: "g", Missing: 2, Relax: "TaintToleration excludes 1 of the group"}},
		},
		"no sufficient tier": {
			placement: fixture.Placement("ns", "p").Number(3), ready: ready, sufficient: "False/NoTierSufficient: No tier has enough qualifying clusters; tiers are filled in order",
			satisfied: "True/AllDecisionsScheduled: All cluster decisions scheduled",
			policies:  []*berthv1alpha1.SelectionPolicy{policyFor("p", selectionSpec{Tiers: inTiers("eu", "us")})},
			tiers:     []berthv1alpha1.SelectionTierStatus{{Name: "eu", Qualifying: 2, Used: true, Clusters: []string{"c1", "c2"}}, {Name: "us", Qualifying: 1, Used: true, Clusters: []string{"c3"}}},
		},
		"a mistake in the Placement": {
			placement: fixture.Placement("ns", "p").Predicate(fixture.MatchLabelExpression("a", "Near")),
			policies:  []*berthv1alpha1.SelectionPolicy{policyFor("p", selectionSpec{})},
			satisfied: "False/Misconfigured: Predicate:spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator: Unsupported value: \"Near\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\"",
		},
		"two policies": {
			placement: fixture.Placement("ns", "p"), ready: "False/Invalid: the SelectionPolicies other, slp-p name the Placement: it can have one",
			satisfied: "False/Misconfigured: SelectionPolicy:the SelectionPolicies other, slp-p name the Placement: it can have one",
			policies: []*berthv1alpha1.SelectionPolicy{policyFor("p", selectionSpec{}), {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", UID: "o"},
				Spec: selectionSpec{Placement: "p"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clusters := []fixture.ClusterBuilder{inRegion("c1", "eu"), inRegion("c2", "eu"), inRegion("c3", "us")}
			for i, c := range clusters {
				if c.Obj().Name == tc.tainted {
					clusters[i] = c.Taint("t", "", v1alpha1.TaintEffectNoSelect)
				}
			}
			inv := fleet(tc.placement, clusters...)
			for _, policy := range tc.policies {
				inv.Update(policy)
			}
			a := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			for _, policy := range tc.policies {
				status := a.SelectionStatus(policy)
				got := []any{conditionText(status.Conditions, berthv1alpha1.SelectionReady), conditionText(status.Conditions, berthv1alpha1.SelectionTierSufficient),
					conditionText(a.Conditions(), v1alpha1.PlacementConditionSatisfied), status.Tiers, status.Unmet, status.UnknownNames}
				want := []any{tc.ready, tc.sufficient, tc.satisfied, tc.tiers, tc.unmet, tc.unknown}
				for i := range want {
					if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
						t.Errorf("got  %v\nwant %v", got[i], want[i])
					}
				}
			}
		})
	}
}

// TestPinIgnoresTiersAndGroups: a pinned Placement has the clusters of the revision, whatever its
// tiers and groups permit.
func TestPinIgnoresTiersAndGroups(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.inv.Update(policyFor("p", selectionSpec{
		Tiers: []berthv1alpha1.SelectionTier{{Name: "all", MinClusters: new(int32(2))}}, Groups: []berthv1alpha1.SelectionGroup{{Name: "all", Max: new(int32(1))}},
	}))
	d.attemptUntilStable()
	if got, want := d.published(), "p-decision-1: c1"; got != want {
		t.Fatalf("published are %q, want %q", got, want)
	}
	d.pin("1")
	a := d.attemptUntilStable()
	if got, want := d.published(), "p-decision-1: c1 c2"; got != want {
		t.Errorf("published with the pin are %q, want %q", got, want)
	}
	before := policyFor("p", selectionSpec{})
	before.Status.Tiers = []berthv1alpha1.SelectionTierStatus{{Name: "all", Qualifying: 2, Used: true}}
	if diff := cmp.Diff(before.Status.Tiers, a.SelectionStatus(before).Tiers); diff != "" {
		t.Errorf("the status of tiers changes with the pin (-before +after):\n%s", diff)
	}
}

// TestNamesTellNothing: for the author of a policy, a cluster outside of the bound sets is the same
// as none: no status, condition, intent or verdict tells that it exists.
func TestNamesTellNothing(t *testing.T) {
	gone := fixture.Cluster("x").Set("other").Obj()
	gone.DeletionTimestamp, gone.Finalizers = &metav1.Time{Time: fixture.Now}, []string{"f"}
	want := ""
	for _, tc := range []struct {
		name    string
		objects []client.Object
	}{
		{"none", nil},
		{"in a set that is not bound", []client.Object{fixture.Set("other"), fixture.Cluster("x").Set("other").Obj()}},
		{"in no set", []client.Object{fixture.Cluster("x").Label("region", "eu").Obj()}},
		{"in a set that does not exist", []client.Object{fixture.Cluster("x").Set("none").Obj()}},
		{"in a set of another namespace", []client.Object{fixture.Set("other"), fixture.Binding("elsewhere", "other"), fixture.Cluster("x").Set("other").Obj()}},
		{"being deleted", []client.Object{fixture.Set("other"), gone}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inv := fleet(fixture.Placement("ns", "p").Number(3), inRegion("c1", "eu"), inRegion("c2", "us"))
			policy := policyFor("p", selectionSpec{
				ClusterNames: berthv1alpha1.ClusterNames{Include: []string{"c1", "c2", "x"}, Exclude: []string{"c2"}}, Tiers: inTiers("eu", "us"),
				Groups: []berthv1alpha1.SelectionGroup{{Name: "g", ClusterSelector: byRegion("eu"), Count: new(int32(2))}},
			})
			inv.Update(policy)
			for _, o := range tc.objects {
				inv.Update(o)
			}
			s := newScheduler(t)
			a := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			status := a.SelectionStatus(policy)
			for i := range status.Conditions {
				status.Conditions[i].LastTransitionTime = metav1.Time{}
			}
			text, err := json.MarshalIndent([]any{status, a.Conditions(), a.Intents, a.Message(), s.Explain(context.Background(), a.Decision, ""), s.Explain(context.Background(), a.Decision, "x")}, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			if want == "" {
				want = string(text)
			}
			if diff := cmp.Diff(want, string(text)); !slices.Contains(status.UnknownNames, "x") || diff != "" {
				t.Errorf("unlike without the cluster (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTierIsKept: a cluster that no tier matches any more keeps its tier in the status while it is
// published.
func TestTierIsKept(t *testing.T) {
	inv := fleet(fixture.Placement("ns", "p").Number(2), inRegion("c1", "eu"), inRegion("c2", "us"))
	policy := policyFor("p", selectionSpec{Tiers: inTiers("eu", "us"), TierMode: berthv1alpha1.TierOverflow})
	inv.Update(policy)
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("c1", "c2").Obj())
	s := newScheduler(t)
	clusters := func() []string {
		status := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil)).SelectionStatus(policy)
		policy = policyFor("p", policy.Spec)
		policy.Status = *status
		inv.Update(policy)
		return append([]string{strings.Join(status.Tiers[0].Clusters, " ")}, status.Tiers[1].Clusters...)
	}
	want := []string{"c1", "c2"}
	if diff := cmp.Diff(want, clusters()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	inv.Update(fixture.ApprovalPolicy("ns", "careful", "p"))
	inv.Update(inRegion("c2", "ap").Set("s1").Obj())
	if diff := cmp.Diff(want, clusters()); diff != "" {
		t.Errorf("while its removal is held (-want +got):\n%s", diff)
	}
}
