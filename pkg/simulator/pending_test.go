package simulator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/fixture"
)

func policyOf(change func(spec *berthv1alpha1.DisruptionPolicySpec)) *berthv1alpha1.DisruptionPolicy {
	policy := fixture.ApprovalPolicy("ns", "careful")
	policy.Spec.Approval = ""
	change(&policy.Spec)
	return policy
}

// publishedRecord is the record of a change of Placement ns/p.
func publishedRecord(revision int64, from, to []string) *berthv1alpha1.PlacementChange {
	record := changes.NewRecord(fixture.Placement("ns", "p").Obj(), 0, revision, changes.NewChange(from, to))
	record.Status.Phase = berthv1alpha1.PhasePublished
	return record
}

// TestPending: a simulation shows the changes that Permit would hold, the clusters last published,
// and the output of PostFilter.
func TestPending(t *testing.T) {
	tests := map[string]struct {
		placement fixture.PlacementBuilder
		others    Objects
		args      string
		// old are clusters with the label old.
		old         []string
		listed      []string
		want        []string
		wantPending string
		wantMoving  []string
		wantIntent  string
	}{
		"nothing holds it": {placement: fixture.Placement("ns", "p").Number(1), listed: []string{"c2", "c3"}, want: []string{"c2"}},
		"approval": {
			placement: fixture.Placement("ns", "p").Number(1), others: Objects{fixture.ApprovalPolicy("ns", "careful")},
			listed: []string{"c2", "c3"}, want: []string{"c2", "c3"}, wantPending: "DisruptionPolicy careful requires approval",
		},
		"a removal is decided at once": {
			placement: fixture.Placement("ns", "p").Number(1), args: `{"maxRemoved": 0, "minRemoved": 1}`,
			listed: []string{"c2", "c3"}, want: []string{"c2", "c3"}, wantPending: "more than 0",
		},
		"in steps": {
			placement: fixture.Placement("ns", "p").Number(2).Predicate(fixture.MatchLabelExpression("old", metav1.LabelSelectorOpDoesNotExist)),
			others:    Objects{policyOf(func(spec *berthv1alpha1.DisruptionPolicySpec) {})}, old: []string{"c1", "c2"},
			listed: []string{"c1", "c2"}, want: []string{"c1", "c2", "c3"},
			wantPending: "Change 1 (2 added: c3 c4, 2 removed: c1 c2) is published in steps: 1 of 2 added, 0 of 2 removed",
			wantMoving: []string{
				"c1: leaves since 1970-01-01T00:00:00Z; the next step follows", "c2: leaves since 1970-01-01T00:00:00Z; the next step follows",
				"c3: added in this step", "c4: added later",
			},
		},
		"suspended": {
			placement: fixture.Placement("ns", "p").Number(1), others: Objects{policyOf(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })},
			listed: []string{"c2", "c3"}, want: []string{"c2", "c3"}, wantPending: "suspended by DisruptionPolicy careful",
			wantMoving: []string{"c3: leaves since 1970-01-01T00:00:00Z; suspended by DisruptionPolicy careful"},
		},
		"below minAvailable": {
			placement: fixture.Placement("ns", "p").Predicate(fixture.MatchLabelExpression("old", metav1.LabelSelectorOpDoesNotExist)),
			others:    Objects{policyOf(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinAvailable = new(intstr.FromString("100%")) })},
			old:       []string{"c1", "c2", "c3", "c4"}, listed: []string{"c1", "c2"}, want: []string{"c1", "c2"}, wantIntent: "relaxing Predicate is enough",
			wantPending: "minAvailable of DisruptionPolicy careful: 2 of the 2 clusters that were published when the change began must stay published. " +
				"To approve it: kubectl placement approve placementchange/p-1 -n ns",
			wantMoving: []string{
				"c1: leaves since 1970-01-01T00:00:00Z; minAvailable of DisruptionPolicy careful: 2 of the 2 clusters that were published when the change began must stay published. To approve it: kubectl placement approve placementchange/p-1 -n ns",
				"c2: leaves since 1970-01-01T00:00:00Z; minAvailable of DisruptionPolicy careful: 2 of the 2 clusters that were published when the change began must stay published. To approve it: kubectl placement approve placementchange/p-1 -n ns",
			},
		},
		"evicted": {
			placement: fixture.Placement("ns", "p").Number(1), others: Objects{fixture.Eviction("ns", "e", "p", "c2").Obj()},
			listed: []string{"c2"}, want: []string{"c1"},
		},
		"evicted, in steps": {
			placement: fixture.Placement("ns", "p").Number(1),
			others:    Objects{fixture.Eviction("ns", "e", "p", "c2").Obj(), policyOf(func(spec *berthv1alpha1.DisruptionPolicySpec) {})},
			listed:    []string{"c2"}, want: []string{"c1", "c2"},
			wantPending: "Change 1 (1 added: c1, 1 removed: c2) is published in steps: 1 of 1 added, 0 of 1 removed",
			wantMoving:  []string{"c1: added in this step", "c2: leaves since 1970-01-01T00:00:00Z; the next step follows"},
		},
		"an eviction of a cluster that is not published": {
			placement: fixture.Placement("ns", "p").Number(1), others: Objects{fixture.Eviction("ns", "e", "p", "c3").Obj()},
			listed: []string{"c2"}, want: []string{"c2"},
		},
		"pinned": {
			placement: fixture.Placement("ns", "p").Number(1).Annotation(berthv1alpha1.PinnedRevisionAnnotation, "1"),
			others:    Objects{publishedRecord(1, nil, []string{"c3"}), publishedRecord(2, []string{"c3"}, []string{"c2"})},
			listed:    []string{"c2"}, want: []string{"c3"},
		},
		"too few": {placement: fixture.Placement("ns", "p").Number(9), want: []string{"c1", "c2", "c3"}, wantIntent: "3 of 9 clusters fit, 6 missing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := Objects{fixture.Set("s"), fixture.Binding("ns", "s")}
			for _, name := range []string{"c1", "c2", "c3", "c4"} {
				c := fixture.Cluster(name).Set("s")
				if slices.Contains(tc.old, name) {
					c = c.Label("old", "true")
				}
				if tc.old != nil || name != "c4" {
					o = append(o, c.Obj())
				}
			}
			o = append(append(o, tc.placement.Obj()), tc.others...)
			if tc.listed != nil {
				o = append(o, fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists(tc.listed...).Obj())
			}
			configuration := &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{Name: config.DefaultProfile}}}
			if tc.args != "" {
				configuration.Profiles[0].PluginConfig = []config.PluginConfig{{Name: "BlastRadius", Args: []byte(tc.args)}}
			}
			s, err := New(t.Context(), o, time.Unix(0, 0), Options{Config: configuration})
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Decide(t.Context(), s.Placements()[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, r.Decisions[0].Clusters); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
			if (r.Pending != nil) != (tc.wantPending != "") || r.Pending != nil && !strings.Contains(r.Pending.Message, tc.wantPending) {
				t.Errorf("pending %+v, want %q", r.Pending, tc.wantPending)
			}
			var moving []string
			if r.Pending != nil {
				for _, m := range r.Pending.Moving {
					moving = append(moving, m.Cluster+": "+m.State)
				}
			}
			if diff := cmp.Diff(tc.wantMoving, moving); diff != "" {
				t.Errorf("moving (-want +got):\n%s", diff)
			}
			if satisfied := r.Conditions.Get(v1alpha1.PlacementConditionSatisfied); tc.old != nil && satisfied.Reason != v1alpha1.ReasonDecisionPending {
				t.Errorf("satisfied: %+v", satisfied)
			}
			if len(r.Intents) > 0 != (tc.wantIntent != "") || tc.wantIntent != "" && !strings.Contains(r.Intents[0].Note, tc.wantIntent) {
				t.Errorf("intents %+v, want %q", r.Intents, tc.wantIntent)
			}
		})
	}
}

// TestReadinessIsNotRead: published clusters are not ready for a policy with a readiness source,
// because only the controller reads sources.
func TestReadinessIsNotRead(t *testing.T) {
	for source, want := range map[string]string{"argocd": "argocd: only the controller reads it; kubectl placement status shows the state", "cluster": "cluster: it has no condition Available"} {
		objects := Objects{
			fixture.Set("s"), fixture.Binding("ns", "s"), fixture.Cluster("c1").Set("s").Obj(), fixture.Placement("ns", "p").Obj(),
			fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("c1").Obj(),
			policyOf(func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: source}
			}),
		}
		s, err := New(t.Context(), objects, time.Unix(0, 0), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.inventory.Snapshot(s.Placements()[0], time.Unix(0, 0), nil).NotReady["c1"]; got != want {
			t.Errorf("%s: c1 is not ready: %q, want %q", source, got, want)
		}
	}
}
