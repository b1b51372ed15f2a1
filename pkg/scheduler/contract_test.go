package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// contract is the table of the design: what the engine does when the first plugin of a point
// answers with a code. The words are those of effects.
var contract = []struct {
	point                                                                      string
	success, failed, unschedulable, unresolvable, wait, skip, pending, unknown string
}{
	{"PreFilter", "continue", "error", "parked", "misconfigured", "error", "its Filter is off", "awaits a fact", "error"},
	{"Filter", "continue", "error", "cluster excluded", "cluster excluded", "error", "error", "error", "error"},
	{"PostFilter", "enough", "error", "next plugin", "enough", "error", "error", "error", "error"},
	{"PreScore", "continue", "error", "error", "error", "error", "its Score is off", "awaits a fact", "error"},
	{"Score", "continue", "error", "error", "error", "error", "no score", "error", "error"},
	{"NormalizeScore", "continue", "error", "error", "error", "error", "error", "error", "error"},
	{"Reserve", "continue", "error, undone", "denied", "denied", "error, undone", "error, undone", "waiting", "error, undone"},
	{"Permit", "continue", "error, undone", "denied", "denied", "held", "error, undone", "waiting", "error, undone"},
	{"PreBind", "continue", "not published", "not published", "not published", "not published", "not published", "not published", "not published"},
	{"Bind", "enough", "not published", "not published", "not published", "not published", "next plugin", "not published", "not published"},
	// These answer nothing: QueueSort runs outside of attempts, Unreserve and PostBind cannot fail.
	{"QueueSort", "continue", "continue", "continue", "continue", "continue", "continue", "continue", "continue"},
	{"Unreserve", "continue", "continue", "continue", "continue", "continue", "continue", "continue", "continue"},
	{"PostBind", "continue", "continue", "continue", "continue", "continue", "continue", "continue", "continue"},
}

// whole is a whole attempt with the plugins a and b over the clusters 1, which is published, and 2.
const whole = "PreFilter a, PreFilter b, Filter a1, Filter b1, Filter a2, Filter b2, PostFilter a, PreScore a, PreScore b, " +
	"Score a1, Score a2, Score b1, Score b2, NormalizeScore a, NormalizeScore b, Reserve a, Reserve b, Permit a, Permit b, " +
	"PreBind a, PreBind b, Bind a, PostBind a, PostBind b"

// undone is what follows where an attempt ends after Reserve began.
const undone = ", Unreserve b, Unreserve a"

// outcome is how an attempt ended.
type outcome struct {
	// calls are those made, in order.
	calls string
	// failure is why nothing was decided, pending why it may not be published, and publish why it
	// was not.
	failure, publish framework.Code
	pending          string
	// requeue is when the Placement is to be tried again without backoff; 0 is not before something
	// changes.
	requeue time.Duration
	// selected are the clusters, with their totals.
	selected string
}

// effects say what each word of the contract stands for.
var wantedEffects = map[string]func(point string, code framework.Code) outcome{
	// The attempt goes on as if nothing had been said.
	"continue": func(string, framework.Code) outcome { return outcome{calls: whole, selected: "1:20 2:20"} },
	// As that; no other plugin of the point is asked.
	"enough": func(string, framework.Code) outcome { return outcome{calls: whole, selected: "1:20 2:20"} },
	// The attempt ends; no plugin is asked any more, the published decision stays, and it is tried
	// again with backoff.
	"error": func(point string, _ framework.Code) outcome {
		return outcome{calls: through(point), failure: framework.Error}
	},
	// As an error, and what was reserved is given back.
	"error, undone": func(point string, _ framework.Code) outcome {
		return outcome{calls: through(point) + undone, publish: framework.Error, selected: "1:20 2:20"}
	},
	// The remaining plugins of the point are asked; then the published decision stays until
	// something changes.
	"parked": func(string, framework.Code) outcome {
		return outcome{calls: "PreFilter a, PreFilter b", failure: framework.Unschedulable}
	},
	// Nothing helps but an edit of the Placement.
	"misconfigured": func(point string, _ framework.Code) outcome {
		return outcome{calls: through(point), failure: framework.UnschedulableAndUnresolvable}
	},
	// The published decision stays; it is tried again soon.
	"awaits a fact": func(point string, _ framework.Code) outcome {
		return outcome{calls: through(point), failure: framework.Pending, requeue: 10 * time.Second}
	},
	// Plugin a rejects cluster 1: b is not asked about it, and what is left is an answer.
	"cluster excluded": func(string, framework.Code) outcome {
		return outcome{calls: without("Filter b1, ", "Score a1, ", "Score b1, "), selected: "2:20"}
	},
	"its Filter is off": func(string, framework.Code) outcome {
		return outcome{calls: without("Filter a1, ", "Filter a2, "), selected: "1:20 2:20"}
	},
	"its Score is off": func(string, framework.Code) outcome {
		return outcome{calls: without("Score a1, ", "Score a2, ", "NormalizeScore a, "), selected: "1:10 2:10"}
	},
	// Plugin a has no score for cluster 1, which counts as 0.
	"no score": func(string, framework.Code) outcome { return outcome{calls: whole, selected: "2:20 1:10"} },
	// The next plugin of the point is asked.
	"next plugin": func(point string, _ framework.Code) outcome {
		return outcome{calls: strings.Replace(whole, ", "+point+" a", ", "+point+" a, "+point+" b", 1), selected: "1:20 2:20"}
	},
	// The change is denied until the next attempt. Reservations are undone.
	"denied": func(point string, _ framework.Code) outcome {
		return outcome{calls: through(point) + undone, pending: v1alpha1.ReasonDenied, selected: "1:20 2:20"}
	},
	// The change is tried again soon. It stays reserved, unless that failed.
	"waiting": func(point string, _ framework.Code) outcome {
		calls := through(point)
		if point == "Reserve" {
			calls += undone
		}
		return outcome{calls: calls, pending: v1alpha1.ReasonWaiting, requeue: 10 * time.Second, selected: "1:20 2:20"}
	},
	// The change is kept and stays reserved, and the remaining plugins are asked; at the latest it
	// is tried again at its deadline.
	"held": func(string, framework.Code) outcome {
		return outcome{calls: through("Permit") + ", Permit b, Permit a", pending: v1alpha1.ReasonHeld, requeue: time.Minute, selected: "1:20 2:20"}
	},
	// The answer stands but is not written. It is tried again with backoff; what was reserved is
	// given back.
	"not published": func(point string, code framework.Code) outcome {
		return outcome{calls: through(point) + undone, publish: code, selected: "1:20 2:20"}
	},
}

// through is the attempt up to the first call at a point.
func through(point string) string {
	before, _, _ := strings.Cut(whole, ", "+point+" a")
	if point == "PreFilter" {
		return "PreFilter a"
	}
	call := point + " a"
	if point == "Filter" || point == "Score" {
		call += "1"
	}
	return before + ", " + call
}

// without is the attempt without some calls.
func without(calls ...string) string {
	left := whole
	for _, call := range calls {
		left = strings.Replace(left, call, "", 1)
	}
	return left
}

// probed runs one attempt: cluster 1 is published, and three are wanted.
func probed(s *scheduler.Scheduler, calls *[]string) (outcome, *scheduler.Attempt, *framework.Status) {
	ctx := context.Background()
	inv := fleet(ask().Number(3), fixture.Cluster("1"), fixture.Cluster("2"))
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists("1").Obj())
	a := s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	got := outcome{calls: strings.Join(*calls, ", "), failure: a.Failure.Code(), publish: a.Err.Code()}
	if a.Effects().DecisionPending != "" {
		got.pending = string(a.Outcome)
	}
	if at := a.State.Requeue(); !at.IsZero() {
		got.requeue = at.Sub(fixture.Now)
	}
	var selected []string
	for _, s := range a.Selected {
		selected = append(selected, fmt.Sprintf("%s:%d", s.Cluster.Name, s.Score))
	}
	got.selected = strings.Join(selected, " ")
	return got, a, a.Err
}

func TestContract(t *testing.T) {
	for _, row := range contract {
		for code, word := range []string{row.success, row.failed, row.unschedulable, row.unresolvable, row.wait, row.skip, row.pending, row.unknown} {
			code := framework.Code(code)
			t.Run(row.point+"/"+code.String(), func(t *testing.T) {
				s, _, calls := probing(t, "a b", map[string]*framework.Status{row.point + " a": framework.NewStatus(code, "so it is")})
				got, a, failure := probed(s, calls)
				effect, known := wantedEffects[word]
				if !known {
					t.Fatalf("%q is no effect", word)
				}
				if diff := cmp.Diff(effect(row.point, code), got, cmp.AllowUnexported(outcome{})); diff != "" {
					t.Errorf("%s (-want +got):\n%s", word, diff)
				}
				// The plugin and its reason are reported; error is not empty: where nothing was
				// decided, nothing is proposed.
				for _, said := range []*framework.Status{a.Failure, failure} {
					if said != nil && (said.Plugin() != "a" || !strings.HasSuffix(said.Reason(), "so it is")) {
						t.Errorf("%s: %v", said.Plugin(), said.Err())
					}
				}
				if a.Failure != nil && a.Target != nil {
					t.Errorf("selected %+v", a.Target)
				}
			})
		}
	}
}

// TestPreFilterSkipFilter: the Filter of a plugin whose PreFilter decides runs for no cluster that
// PreFilter admits; that of a plugin whose PreFilter only admits runs for each.
func TestPreFilterDecides(t *testing.T) {
	for name, decides := range map[string]bool{"decides": true, "admits": false} {
		t.Run(name, func(t *testing.T) {
			s, probes, calls := probing(t, "a b", nil)
			probes["a"].result = &framework.PreFilterResult{Clusters: framework.Bitset{}.Set(0).Set(1), SkipFilter: decides}
			got, _, _ := probed(s, calls)
			if want := "1:20 2:20"; got.selected != want {
				t.Errorf("selected %s, want %s", got.selected, want)
			}
			for call, want := range map[string]bool{"Filter a1": !decides, "Filter a2": !decides, "Filter b1": true, "Filter b2": true} {
				if slices.Contains(*calls, call) != want {
					t.Errorf("%s called: %t, want %t; calls: %v", call, !want, want, *calls)
				}
			}
		})
	}
}

// TestWhatRunsAfterAFailure: from Reserve on, whatever goes wrong, every Reserve plugin gives back
// in reverse, those that never reserved, too, and nobody after the one that failed is asked.
func TestWhatRunsAfterAFailure(t *testing.T) {
	no, broken := framework.NewStatus(framework.Unschedulable, "no"), framework.AsStatus(errors.New("broken"))
	skip, wait := framework.NewStatus(framework.Skip, ""), framework.NewStatus(framework.Wait, "")
	const reserved, permitted = "Reserve a, Reserve b, Reserve c, ", "Permit a, Permit b, Permit c, "
	const unreserved = "Unreserve c, Unreserve b, Unreserve a"
	tests := map[string]struct {
		answers map[string]*framework.Status
		want    string
	}{
		"Reserve is refused":             {map[string]*framework.Status{"Reserve b": no}, "Reserve a, Reserve b, " + unreserved},
		"Reserve fails":                  {map[string]*framework.Status{"Reserve b": broken}, "Reserve a, Reserve b, " + unreserved},
		"Permit refuses":                 {map[string]*framework.Status{"Permit b": no}, reserved + "Permit a, Permit b, " + unreserved},
		"Permit fails":                   {map[string]*framework.Status{"Permit b": broken}, reserved + "Permit a, Permit b, " + unreserved},
		"Permit holds: all are asked":    {map[string]*framework.Status{"Permit b": wait}, reserved + permitted + "Permit b"},
		"Permit holds, and then refuses": {map[string]*framework.Status{"Permit a": wait, "Permit b": no}, reserved + "Permit a, Permit b, " + unreserved},
		"Permit holds, and then fails":   {map[string]*framework.Status{"Permit a": wait, "Permit b": broken}, reserved + "Permit a, Permit b, " + unreserved},
		"PreBind fails":                  {map[string]*framework.Status{"PreBind b": broken}, reserved + permitted + "PreBind a, PreBind b, " + unreserved},
		"Bind fails":                     {map[string]*framework.Status{"Bind a": skip, "Bind b": broken}, reserved + permitted + "PreBind a, PreBind b, PreBind c, Bind a, Bind b, " + unreserved},
		"nobody binds":                   {map[string]*framework.Status{"Bind a": skip, "Bind b": skip, "Bind c": skip}, reserved + permitted + "PreBind a, PreBind b, PreBind c, Bind a, Bind b, Bind c, " + unreserved},
		"PostBind cannot fail":           {map[string]*framework.Status{"PostBind a": broken}, reserved + permitted + "PreBind a, PreBind b, PreBind c, Bind a, PostBind a, PostBind b, PostBind c"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, _, calls := probing(t, "a b c", tc.answers)
			got, _, _ := probed(s, calls)
			_, after, _ := strings.Cut(got.calls, "NormalizeScore c, ")
			if diff := cmp.Diff(tc.want, after); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFirstFailureOfPreFilter: of several plugins that end the attempt the first is reported; one
// that says more stops at once.
func TestFirstFailureOfPreFilter(t *testing.T) {
	park, mistake := framework.NewStatus(framework.Unschedulable, "park"), framework.NewStatus(framework.UnschedulableAndUnresolvable, "mistake")
	tests := map[string]struct {
		answers   map[string]*framework.Status
		want      string
		wantCalls string
	}{
		"two park":             {map[string]*framework.Status{"PreFilter a": park, "PreFilter c": park}, "a: park", "PreFilter a, PreFilter b, PreFilter c"},
		"a mistake beats it":   {map[string]*framework.Status{"PreFilter a": park, "PreFilter b": mistake}, "b: mistake", "PreFilter a, PreFilter b"},
		"after a mistake none": {map[string]*framework.Status{"PreFilter a": mistake, "PreFilter b": park}, "a: mistake", "PreFilter a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, _, calls := probing(t, "a b c", tc.answers)
			got, a, _ := probed(s, calls)
			if got.calls != tc.wantCalls || a.Failure.Err().Error() != tc.want {
				t.Errorf("failed with %v after %s", a.Failure.Err(), got.calls)
			}
		})
	}
}

// TestPluginsReceiveTheProposal: after the selection, every point gets the Proposal of the
// attempt, whole.
func TestPluginsReceiveTheProposal(t *testing.T) {
	for name, answers := range map[string]map[string]*framework.Status{
		"published": nil,
		"given up":  {"Bind a": framework.AsStatus(errors.New("broken"))},
	} {
		t.Run(name, func(t *testing.T) {
			s, probes, calls := probing(t, "a", answers)
			_, a, _ := probed(s, calls)
			if len(probes["a"].proposals) != 5 {
				t.Fatalf("%d calls with a Proposal: %q", len(probes["a"].proposals), *calls)
			}
			for _, p := range probes["a"].proposals {
				if !slices.Equal(p.Clusters, a.Target.Clusters) || len(p.Selected) != 2 || len(p.Added) != 1 || p.Added[0] != "2" || p.Digest != framework.DigestOf([]string{"1", "2"}) || p.Revision == 0 {
					t.Errorf("got %+v", p)
				}
			}
		})
	}
}

// TestAnErrorIsNotEmpty: where nothing was decided, what is published stays; where nothing is
// published yet, an empty page says that the Placement was seen. An empty set of feasible clusters,
// though, is an answer.
func TestAnErrorIsNotEmpty(t *testing.T) {
	broken, no := framework.AsStatus(errors.New("broken")), framework.NewStatus(framework.Unschedulable, "no")
	tests := map[string]struct {
		answers     map[string]*framework.Status
		unpublished bool
		want        *framework.Proposal
	}{
		"a plugin fails":              {answers: map[string]*framework.Status{"Filter a": broken}},
		"a plugin fails, none before": {answers: map[string]*framework.Status{"Filter a": broken}, unpublished: true, want: &framework.Proposal{}},
		"nothing is feasible":         {answers: map[string]*framework.Status{"Filter a": no}, want: &framework.Proposal{Removed: []string{"1"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, _, _ := probing(t, "a", tc.answers)
			inv := fleet(ask(), fixture.Cluster("1"))
			if !tc.unpublished {
				inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists("1").Obj())
			}
			a := s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
			published, failure := a.Step, a.Err
			if !failure.IsSuccess() {
				t.Fatal(failure.Err())
			}
			if (published == nil) != (tc.want == nil) {
				t.Fatalf("published %+v", published)
			}
			if tc.want != nil {
				if diff := cmp.Diff(tc.want.Removed, published.Removed); diff != "" || len(published.Selected) > 0 {
					t.Errorf("published %+v; removed (-want +got):\n%s", published, diff)
				}
			}
		})
	}
}

// TestUnknownProfile: the mistake is reported although there is no profile whose plugins could
// publish.
func TestUnknownProfile(t *testing.T) {
	ctx := context.Background()
	s, _, calls := probing(t, "a", nil)
	inv := fleet(ask().Annotation(v1alpha1.ProfileAnnotation, "none"), fixture.Cluster("1"))
	a := s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	published, failure := a.Step, a.Err
	if !a.Misconfigured() || !failure.IsSuccess() {
		t.Errorf("attempt: %v; publishing: %v", a.Failure.Err(), failure.Err())
	}
	// The first page, as the built-in profile writes it, marks the Placement as seen.
	if published == nil || len(published.Selected) > 0 || strings.Join(*calls, ", ") != "PreBind a, Bind a, PostBind a" {
		t.Errorf("published %+v after %q", published, *calls)
	}
}

// TestNewerInputSupersedes: what waits is what the last attempt wanted, though no plugin could
// store it.
func TestNewerInputSupersedes(t *testing.T) {
	ctx := context.Background()
	s, probes, _ := probing(t, "a", map[string]*framework.Status{"Permit a": framework.NewStatus(framework.Wait, "not yet")})
	inv := fleet(ask(), fixture.Cluster("1"))
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists("1").Obj())
	for _, newer := range []string{"2", "3"} {
		inv.Update(fixture.Cluster(newer).Set("s1").Obj())
		a := s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
		if a.Step != nil || !a.Err.IsSuccess() {
			t.Fatalf("published %+v, %v", a.Step, a.Err.Err())
		}
		if a.Outcome != plan.Held {
			t.Fatalf("the outcome is %s", a.Outcome)
		}
		if a.Change.Revision != 1 {
			t.Errorf("revision %d was not written", a.Change.Revision)
		}
	}
	last := probes["a"].proposals[len(probes["a"].proposals)-1]
	if len(last.HeldBy) > 0 || !slices.Equal(last.Added, []string{"2", "3"}) {
		t.Errorf("the last change is %+v", last)
	}
}
