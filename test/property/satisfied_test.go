package property

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/test/fixture"
)

// request is a random Placement with what it depends on.
type request struct {
	clusters  []*v1alpha1.ManagedCluster
	placement *v1alpha1.Placement
	policy    *berthv1alpha1.SelectionPolicy
	limit     int
}

func drawRequest(t *rapid.T) request {
	q := request{limit: oneOf(t, "limit", -1, -1, -1, 0, 1, 3)}
	for n := range rapid.IntRange(1, 12).Draw(t, "clusters") {
		b := fixture.Cluster(fmt.Sprintf("c%02d", n)).Set("s").Label("region", oneOf(t, "region", "eu", "us"))
		if zone := oneOf(t, "zone", "1", "1", "2", ""); zone != "" {
			b = b.Label("zone", zone)
		}
		if oneOf(t, "taint", false, false, true) {
			b = b.TaintAt("slow", "", v1alpha1.TaintEffectNoSelect, fixture.At(-20))
		}
		q.clusters = append(q.clusters, b.Obj())
	}
	p := fixture.Placement("n", "p")
	if number := rapid.Int32Range(-1, 12).Draw(t, "numberOfClusters"); number >= 0 {
		p = p.Number(number)
	}
	if oneOf(t, "predicate", false, false, true) {
		p = p.Predicate(fixture.MatchLabel("region", "eu"))
	}
	if oneOf(t, "toleration", false, false, true) {
		p = p.Toleration("slow", v1alpha1.TolerationOpExists, "", "").Seconds(10)
	}
	if oneOf(t, "spread", false, true) {
		p = p.Spread("zone", 1, oneOf(t, "unsatisfiable", v1alpha1.DoNotSchedule, v1alpha1.ScheduleAnyway))
	}
	q.placement = p.Obj()
	if oneOf(t, "policy", false, true) {
		q.policy = &berthv1alpha1.SelectionPolicy{ObjectMeta: objectMeta("n", "policy"), Spec: berthv1alpha1.SelectionPolicySpec{Placement: "p"}}
		for _, region := range []string{"eu", "us"} {
			g := berthv1alpha1.SelectionGroup{Name: region, ClusterSelector: v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"region": region}}}}
			if least := rapid.Int32Range(-1, 2).Draw(t, "min"); least >= 0 {
				g.Min = &least
			}
			if most := rapid.Int32Range(-1, 3).Draw(t, "max"); most >= 0 && (g.Min == nil || *g.Min <= most) {
				g.Max = &most
			}
			q.policy.Spec.Groups = append(q.policy.Spec.Groups, g)
		}
	}
	return q
}

// decide decides the request after a change of a copy.
func (q request) decide(t *rapid.T, change func(*request)) (*scheduler.Scheduler, *scheduler.Attempt) {
	q.placement = q.placement.DeepCopy()
	if q.policy != nil {
		q.policy = q.policy.DeepCopy()
	}
	change(&q)
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("n", "s"))
	for _, c := range q.clusters {
		inv.Update(c)
	}
	inv.Update(q.placement)
	if q.policy != nil {
		inv.Update(q.policy)
	}
	snapshot := inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil)
	snapshot.Limit = q.limit
	s := newScheduler(t, true)
	return s, s.Decide(context.Background(), snapshot)
}

// The changes without one of the causes.
var causes = map[string]func(*request){
	"Predicate": func(q *request) { q.placement.Spec.Predicates = nil },
	"TaintToleration": func(q *request) {
		q.placement.Spec.Tolerations = []v1alpha1.Toleration{{Operator: v1alpha1.TolerationOpExists}}
	},
	"limit": func(q *request) { q.limit = -1 },
	"spread": func(q *request) {
		for i := range q.placement.Spec.SpreadPolicy.SpreadConstraints {
			q.placement.Spec.SpreadPolicy.SpreadConstraints[i].WhenUnsatisfiable = v1alpha1.ScheduleAnyway
		}
	},
	"maxima": func(q *request) {
		for i := range q.policy.Spec.Groups {
			q.policy.Spec.Groups[i].Max = new(int32(100))
		}
	},
}

func satisfiedOf(a *scheduler.Attempt) *metav1.Condition {
	return meta.FindStatusCondition(a.Conditions(), v1alpha1.PlacementConditionSatisfied)
}

// TestTheNamedCauseIsReal: without the cause that PlacementSatisfied names, more clusters are
// selected; for filters and minima, the clusters are counted.
func TestTheNamedCauseIsReal(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		q := drawRequest(t)
		_, a := q.decide(t, func(*request) {})
		c := satisfiedOf(a)
		seen[c.Reason]++
		selected := func(without ...string) int {
			_, after := q.decide(t, func(q *request) {
				for _, cause := range without {
					causes[cause](q)
				}
			})
			return len(after.Selected)
		}
		gains := func(cause string) bool { return selected(cause) > len(a.Selected) }
		wanted := q.placement.Spec.NumberOfClusters
		isReal := false
		switch c.Reason {
		case v1alpha1.ReasonAllDecisionsScheduled:
			isReal = c.Status == metav1.ConditionTrue && (wanted != nil && len(a.Selected) == int(*wanted) || wanted == nil && len(a.Selected) > 0)
		case v1alpha1.ReasonNoManagedClusterMatched:
			isReal = len(a.Feasible) == 0
		case v1alpha1.ReasonSpreadUnsatisfiable:
			isReal = gains("spread")
		case v1alpha1.ReasonGroupUnsatisfiable:
			isReal = minimumIsMissed(q, a) || gains("maxima") || selected("maxima", "spread", "limit") > selected("spread", "limit")
		case v1alpha1.ReasonNotAllDecisionsScheduled:
			isReal = len(a.Selected) == len(a.Feasible) || gains("limit") || len(a.Selected) == q.limit
		case v1alpha1.ReasonMisconfigured:
			isReal = a.Misconfigured()
		}
		if !isReal {
			t.Fatalf("%d of %d feasible clusters selected, and PlacementSatisfied is %s %s: %s", len(a.Selected), len(a.Feasible), c.Status, c.Reason, c.Message)
		}
	})
	t.Log(seen)
}

// minimumIsMissed counts the selected clusters of each group.
func minimumIsMissed(q request, a *scheduler.Attempt) bool {
	for _, g := range q.policy.Spec.Groups {
		n := 0
		for _, chosen := range a.Selected {
			if chosen.Cluster.Labels["region"] == g.Name {
				n++
			}
		}
		if g.Min != nil && n < int(*g.Min) {
			return true
		}
	}
	return false
}

// TestAdviceIsConfirmed: an edit of the Placement that does what an advice says gives what it
// promises, and each filter without an advice gives nothing alone.
func TestAdviceIsConfirmed(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		q := drawRequest(t)
		s, a := q.decide(t, func(*request) {})
		advised := map[string]bool{}
		for _, advice := range s.Advise(context.Background(), a.Decision) {
			advised[advice.Plugin] = true
			_, after := q.decide(t, func(q *request) {
				for filter := range strings.SplitSeq(advice.Plugin, " and ") {
					causes[filter](q)
				}
			})
			missing := after.Shortfall.Missing
			want, kind := fmt.Sprintf("relaxing %s would select %d of %d", advice.Plugin, len(after.Selected), len(after.Selected)+missing), "some"
			if satisfiedOf(after).Status == metav1.ConditionTrue {
				want, kind = fmt.Sprintf("relaxing %s is enough", advice.Plugin), "enough"
			}
			if seen[kind]++; advice.Note != want {
				t.Fatalf("advised: %s, want: %s", advice.Note, want)
			}
		}
		if satisfiedOf(a).Status == metav1.ConditionTrue || a.Failure != nil {
			return
		}
		for _, e := range a.ExcludedBy() {
			if _, after := q.decide(t, causes[e.Plugin]); !advised[e.Plugin] && len(after.Selected) > len(a.Selected) {
				t.Fatalf("no advice to relax %s, which would select %d", e.Plugin, len(after.Selected))
			}
		}
	})
	t.Log(seen)
}
