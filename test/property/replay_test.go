package property

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// attempts is the number of attempts that one check replays: 10,000 with the default of 100 checks.
const attempts = 100

// TestReplay makes random attempts on a hub that changes between them. Then it replays each from a
// copy of its Snapshot, with a new scheduler and new plugins, and expects the same result. The
// replays run last, so that a change of a Snapshot after its attempt is found, too.
//
// The results of step 9 are not compared: the writes of a Proposal and their failures. A Reserve
// plugin that denies cannot be replayed, because a dry run does not reserve; no plugin does that
// here.
func TestReplay(t *testing.T) {
	outcomes := map[plan.Outcome]int{}
	rapid.Check(t, func(t *rapid.T) {
		h := newReplayHub(t)
		for range attempts {
			h.change(t)
			h.attempt(t)
		}
		for i, r := range h.recorded {
			fresh := newReplayScheduler(t, &framework.Handle{Assume: func(*v1alpha1.PlacementDecision, bool) {}}, nil, &copier{})
			a := fresh.Decide(context.Background(), r.snapshot)
			outcomes[a.Outcome]++
			got := outcomeOf(a)
			if r.failed {
				got.After, got.History = r.want.After, r.want.History
			}
			if reflect.DeepEqual(r.want, got) {
				// cmp.Diff takes longer than the attempt.
				continue
			}
			if diff := cmp.Diff(r.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("attempt %d for %s (-attempt +replay):\n%s", i, r.snapshot.Subject.Key(), diff)
			}
		}
	})
	t.Logf("replayed: %v", outcomes)
	if flag.Lookup("rapid.checks").Value.String() != flag.Lookup("rapid.checks").DefValue {
		return
	}
	for _, outcome := range []plan.Outcome{
		plan.Unchanged, plan.Undecided, plan.Published, plan.Held, plan.Waiting,
		plan.Denied, plan.Rejected, plan.Expired, plan.Failed,
	} {
		if outcomes[outcome] == 0 {
			t.Errorf("no attempt ended %s", outcome)
		}
	}
}

// recordedAttempt is a copy of what an attempt read, and its result.
type recordedAttempt struct {
	snapshot *framework.Snapshot
	want     replayedOutcome
	// failed is true if step 9 failed, so that nothing is recorded after it.
	failed bool
}

// replayedOutcome has everything that steps 2 to 8 decide.
type replayedOutcome struct {
	Outcome                plan.Outcome
	Message, Failure       string
	Holds                  []berthv1alpha1.ChangeHold
	Target, Change, Step   *replayedProposal
	Answer                 answer
	Pending                []string
	Before, After, History []string
}

func outcomeOf(a *scheduler.Attempt) replayedOutcome {
	o := replayedOutcome{
		Outcome: a.Outcome, Message: a.Message(), Holds: a.Holds, Failure: statusText(a.Failure), Answer: answerOf(a.Decision),
		Target: proposalOf(a.Target), Change: changeOf(a), Step: proposalOf(a.Publish),
	}
	if a.Outcome == plan.Failed {
		o.Failure = statusText(a.Err)
	}
	var conditions []metav1.Condition
	report.SetConditions(a, &conditions)
	for _, c := range conditions {
		o.Pending = append(o.Pending, fmt.Sprint(c.Type, c.Status, c.Reason, c.Message))
	}
	o.Before, o.After = recordTexts(a.Records.Before), recordTexts(a.RecordsAfter())
	if a.Outcome != plan.Published {
		return o
	}
	// The phase of the change depends on its writes, the change itself does not.
	a.Err = nil
	if revision, change, ok := a.History(); ok {
		o.History = []string{fmt.Sprint(revision, change)}
	}
	return o
}

func statusText(s *framework.Status) string {
	if s == nil {
		return ""
	}
	return fmt.Sprint(s.Code(), s.Plugin(), s.Reason())
}

// replayedProposal is a Proposal without what Bind adds, and with names for clusters.
type replayedProposal struct {
	framework.Proposal
	Selected []string
}

func changeOf(a *scheduler.Attempt) *replayedProposal {
	if a.Change == nil {
		return nil
	}
	return proposalOf(a.Change.Proposal)
}

func proposalOf(p *framework.Proposal) *replayedProposal {
	if p == nil {
		return nil
	}
	o := replayedProposal{Proposal: *p}
	// The cause describes the edit of a spec, and a recording may begin after it.
	o.Writes, o.Result, o.Proposal.Selected, o.Cause = nil, framework.BindResult{}, nil, ""
	for _, s := range p.Selected {
		o.Selected = append(o.Selected, fmt.Sprint(s.Cluster.Name, " ", s.Score))
	}
	return &o
}

func recordTexts(records []*berthv1alpha1.PlacementChange) []string {
	texts := make([]string, len(records))
	for i, record := range records {
		text, err := json.Marshal(record)
		if err != nil {
			panic(err)
		}
		texts[i] = string(text)
	}
	return texts
}

// copier is the first PreEnqueue plugin: it copies the Snapshot before any other plugin sees it.
type copier struct{ copied *framework.Snapshot }

func (*copier) Name() string { return "Copier" }

func (c *copier) PreEnqueue(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) *framework.Status {
	c.copied = copySnapshot(state.Snapshot())
	return nil
}

// gateAnnotation sets the answer of the gate of that name for a Placement.
const gateAnnotation = "test/gate-"

// annotatedGate is a Permit plugin whose answer is in an annotation of the Placement.
type annotatedGate struct{ name string }

func (g annotatedGate) Name() string { return g.name }

func (g annotatedGate) Permit(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	switch pl.Annotations[gateAnnotation+g.name] {
	case "hold":
		if !p.Approved {
			return framework.NewStatus(framework.Wait, "asks for patience"), time.Hour
		}
	case "deny":
		return framework.NewStatus(framework.Unschedulable, "denies"), 0
	case "wait":
		return framework.NewStatus(framework.Pending, "waits"), 0
	case "fail":
		return framework.AsStatus(errors.New("fails")), 0
	}
	return nil, 0
}

// newReplayScheduler returns a scheduler with the default profile, limits and two gates. A copier
// runs before all other plugins.
func newReplayScheduler(t rapid.TB, handle *framework.Handle, held *scheduler.Memory, first *copier) *scheduler.Scheduler {
	registry, profile := builtin.Registry(), builtin.DefaultProfile()
	enabled := &profile.Plugins.MultiPoint.Enabled
	for _, plugin := range []framework.Plugin{first, annotatedGate{"x"}, annotatedGate{"y"}} {
		registry[plugin.Name()] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
			return plugin, nil
		}
		*enabled = append(*enabled, config.Plugin{Name: plugin.Name()})
	}
	n := len(*enabled) - 3
	*enabled = slices.Concat((*enabled)[n:n+1], (*enabled)[:n], (*enabled)[n+1:])
	profile.PluginConfig = []config.PluginConfig{
		{Name: lifecycle.BlastRadiusName, Args: json.RawMessage(`{"maxRemoved": "60%", "minRemoved": 2, "fleetMaxRemoved": 4, "window": "10m"}`)},
		{Name: lifecycle.MaintenanceWindowName, Args: json.RawMessage(`{"windows": [{"schedule": "0 */2 * * *", "duration": "110m"}], "removals": true}`)},
	}
	profiles, err := plugins.NewProfiles(context.Background(), nil, profile, registry, handle)
	if err != nil {
		t.Fatal(err)
	}
	return scheduler.New(profiles, held)
}
