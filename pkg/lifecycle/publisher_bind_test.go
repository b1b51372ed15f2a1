package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// shelf is a framework.PageClient that notes each call. It gives each page a new version, and
// refuses one call.
type shelf struct {
	calls   []string
	refused string
	// before is called before each write.
	before func(ctx context.Context)
}

func (s *shelf) write(ctx context.Context, verb string, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	if s.before != nil {
		s.before(ctx)
	}
	call := fmt.Sprintf("%s %s@%s", verb, page.Name, page.ResourceVersion)
	for _, d := range page.Status.Decisions {
		call += " " + d.ClusterName
	}
	s.calls = append(s.calls, call)
	if verb+" "+page.Name == s.refused {
		return nil, errors.New("refused")
	}
	page = page.DeepCopy()
	page.ResourceVersion = fmt.Sprint(len(s.calls))
	return page, nil
}

func (s *shelf) Create(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return s.write(ctx, "create", page)
}

func (s *shelf) Update(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return s.write(ctx, "update", page)
}

func (s *shelf) Fence(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return s.write(ctx, "fence", page)
}

func (s *shelf) Delete(ctx context.Context, page *v1alpha1.PlacementDecision) error {
	_, err := s.write(ctx, "delete", page)
	return err
}

func (s *shelf) Read(_ context.Context, _, name string) (*v1alpha1.PlacementDecision, error) {
	s.calls = append(s.calls, "read "+name)
	return nil, errors.New("hub is down")
}

func newPublisher(t *testing.T, handle *framework.Handle) *DecisionPublisher {
	t.Helper()
	plugin, err := NewDecisionPublisher(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*DecisionPublisher)
}

// proposed selects clusters by name.
func proposed(names ...string) *framework.Proposal {
	p := &framework.Proposal{Revision: 3}
	for i, name := range names {
		p.Selected = append(p.Selected, framework.SelectedCluster{Score: int64(i), Cluster: framework.NewCluster(fixture.Cluster(name).Obj(), i)})
	}
	return p
}

func stateOf(pl *v1alpha1.Placement, pages ...*v1alpha1.PlacementDecision) *framework.CycleState {
	return framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: &framework.Subject{Placement: pl, Pages: pages}})
}

func ownPage(n int, version string, clusters ...string) *v1alpha1.PlacementDecision {
	return fixture.Page("ns", fmt.Sprintf("p-decision-%d", n)).UID("u").Version(version).Of("p").OwnedBy("p").Lists(clusters...).Obj()
}

func TestBind(t *testing.T) {
	tests := map[string]struct {
		pages       []*v1alpha1.PlacementDecision
		selected    []string
		refused     string
		want        []string
		wantWrites  []framework.PageWrite
		wantOutcome framework.BindResult
		wantErr     string
		wantDoubt   bool
	}{
		"the first page": {
			selected: []string{"a"}, want: []string{"create p-decision-1@ a"},
			wantWrites: []framework.PageWrite{{Created: true, DecisionsChanged: true}},
			wantOutcome: framework.BindResult{Changed: true,
				Groups: []v1alpha1.DecisionGroupStatus{{Decisions: []string{"p-decision-1"}, ClusterCount: 1}}},
		},
		"another cluster on it, and a page too many": {
			pages: []*v1alpha1.PlacementDecision{ownPage(1, "7", "a"), ownPage(2, "8")}, selected: []string{"a", "b"},
			want:       []string{"update p-decision-1@7 a b", "delete p-decision-2@8"},
			wantWrites: []framework.PageWrite{{DecisionsChanged: true}, {Deleted: true, DecisionsChanged: true}},
			wantOutcome: framework.BindResult{Changed: true,
				Groups: []v1alpha1.DecisionGroupStatus{{Decisions: []string{"p-decision-1"}, ClusterCount: 2}}},
		},
		"a failed write ends it": {
			pages: []*v1alpha1.PlacementDecision{ownPage(1, "7", "a"), ownPage(2, "8")}, selected: []string{"a", "b"},
			refused: "delete p-decision-2",
			want:    []string{"update p-decision-1@7 a b", "delete p-decision-2@8", "read p-decision-2"},
			wantErr: "Delete of PlacementDecision ns/p-decision-2: refused\nreading PlacementDecision ns/p-decision-2, whose last write failed: hub is down",
			wantOutcome: framework.BindResult{Changed: true, Unverified: true,
				Groups: []v1alpha1.DecisionGroupStatus{{Decisions: []string{"p-decision-1"}, ClusterCount: 2}}},
			wantWrites: []framework.PageWrite{{DecisionsChanged: true}}, wantDoubt: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pl, pages, p := fixture.Placement("ns", "p").Obj(), &shelf{refused: tc.refused}, proposed(tc.selected...)
			publisher := newPublisher(t, &framework.Handle{Pages: pages})
			status := publisher.Bind(t.Context(), stateOf(pl, tc.pages...), pl, p)
			if status.Reason() != tc.wantErr || (status.Code() == framework.Error) != (tc.wantErr != "") {
				t.Errorf("got %s %q", status.Code(), status.Reason())
			}
			if diff := cmp.Diff(tc.want, pages.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOutcome, p.Result); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			for i := range p.Writes {
				if p.Writes[i].Page == nil {
					t.Errorf("write %d without its page", i)
				}
				p.Writes[i].Page = nil
			}
			if diff := cmp.Diff(tc.wantWrites, p.Writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if (len(publisher.failed) > 0) != tc.wantDoubt {
				t.Errorf("unverified: %v", publisher.failed)
			}
			publisher.Forget(types.NamespacedName{Namespace: "ns", Name: "p"})
			if len(publisher.failed) > 0 {
				t.Errorf("not forgotten: %v", publisher.failed)
			}
		})
	}
}

// TestBindWritesAPageTwice: two groups swap a cluster, so the first page lists both meanwhile. Its
// second write is of what the first returned.
func TestBindWritesAPageTwice(t *testing.T) {
	pl, pages, p := fixture.Placement("ns", "p").Obj(), &shelf{}, proposed("a", "b", "c", "d")
	for _, group := range []string{"x", "y"} {
		pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = append(pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups, v1alpha1.DecisionGroup{
			GroupName: group, ClusterSelector: v1alpha1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"g": group}}},
		})
	}
	for i, label := range []string{"x", "y", "x", "y"} {
		p.Selected[i].Cluster.Labels = map[string]string{"g": label}
	}
	one, two := ownPage(1, "7", "a", "b"), ownPage(2, "8", "c", "d")
	one.Labels[v1alpha1.DecisionGroupNameLabel] = "x"
	two.Labels[v1alpha1.DecisionGroupNameLabel], two.Labels[v1alpha1.DecisionGroupIndexLabel] = "y", "1"
	if status := newPublisher(t, &framework.Handle{Pages: pages}).Bind(t.Context(), stateOf(pl, one, two), pl, p); !status.IsSuccess() {
		t.Fatal(status.Err())
	}
	want := []string{"update p-decision-1@7 a b c", "update p-decision-2@8 b d", "update p-decision-1@1 a c"}
	if diff := cmp.Diff(want, pages.calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBindWithoutHub: a simulation cannot publish.
func TestBindWithoutHub(t *testing.T) {
	pl := fixture.Placement("ns", "p").Obj()
	for _, handle := range []*framework.Handle{nil, {}} {
		status := newPublisher(t, handle).Bind(t.Context(), stateOf(pl), pl, proposed("a"))
		if status.Code() != framework.Error || status.Reason() != "a simulation cannot publish" {
			t.Errorf("got %s %q", status.Code(), status.Reason())
		}
	}
}

// TestBindOfInvalidStrategy: what cannot be published for clusters is an error, and for no cluster
// the pages keep their groups.
func TestBindOfInvalidStrategy(t *testing.T) {
	pl := fixture.Placement("ns", "p").Obj()
	pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString("no number")
	tests := map[string]struct {
		proposal *framework.Proposal
		wantErr  bool
	}{
		"clusters":         {proposal: proposed("a"), wantErr: true},
		"no cluster":       {proposal: proposed()},
		"revoked clusters": {proposal: &framework.Proposal{Kind: framework.RevokedRemoval, Selected: proposed("a").Selected}},
		"restored pages":   {proposal: &framework.Proposal{Kind: framework.Republication, Selected: proposed("a").Selected}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pages := &shelf{}
			status := newPublisher(t, &framework.Handle{Pages: pages}).Bind(t.Context(), stateOf(pl), pl, tc.proposal)
			if (status.Code() == framework.Error) != tc.wantErr || (len(pages.calls) == 0) != tc.wantErr {
				t.Errorf("got %s %q after %v", status.Code(), status.Reason(), pages.calls)
			}
			if _, status := newPublisher(t, nil).PreFilter(t.Context(), nil, pl); status.Code() != framework.UnschedulableAndUnresolvable {
				t.Errorf("PreFilter: %s", status.Code())
			}
		})
	}
	if _, status := newPublisher(t, nil).PreFilter(t.Context(), nil, fixture.Placement("ns", "p").Obj()); !status.IsSuccess() {
		t.Errorf("PreFilter: %s", status.Code())
	}
}

// TestBindEnds: a process that is asked to end finishes the page it writes, and begins no other.
func TestBindEnds(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	var within error
	pages := &shelf{before: func(ctx context.Context) {
		end(errors.New("the process ends"))
		within = ctx.Err()
	}}
	pl := fixture.Placement("ns", "p").Obj()
	p := proposed("a", "b")
	status := newPublisher(t, &framework.Handle{Pages: pages}).Bind(ctx, stateOf(pl, ownPage(1, "7", "a"), ownPage(2, "8")), pl, p)
	if want := "stopping before the Delete of PlacementDecision ns/p-decision-2: context canceled"; status.Reason() != want {
		t.Errorf("got %q, want %q", status.Reason(), want)
	}
	if within != nil {
		t.Errorf("the write that had begun is given up: %v", within)
	}
	if len(pages.calls) != 1 || len(p.Writes) != 1 {
		t.Errorf("calls %v, writes %v", pages.calls, p.Writes)
	}
}

// TestFinishing: a write ends five seconds after the process is asked to, or when it is done.
func TestFinishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancel(t.Context())
		ctx, done := withFinishTime(parent)
		defer done()
		end()
		time.Sleep(finishTime - 1)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("it ends too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("it does not end")
		}
	})
	ctx, done := withFinishTime(t.Context())
	if ctx.Err() != nil {
		t.Error("it has ended")
	}
	if done(); ctx.Err() == nil {
		t.Error("it goes on")
	}
}

// TestBindUpdatesTheInventory: for each page before it is written, after it, and when both are
// over.
func TestBindUpdatesTheInventory(t *testing.T) {
	var calls []string
	record := func(what string, page *v1alpha1.PlacementDecision, deleted bool) {
		calls = append(calls, fmt.Sprintf("%s %s@%s %t", what, page.Name, page.ResourceVersion, deleted))
	}
	pl := fixture.Placement("ns", "p").Obj()
	publisher := newPublisher(t, &framework.Handle{
		Pages:  &shelf{},
		Assume: func(page *v1alpha1.PlacementDecision, deleted bool) { record("assume", page, deleted) },
		Announce: func(page *v1alpha1.PlacementDecision, deleted bool) func() {
			record("announce", page, deleted)
			return func() { calls = append(calls, "end") }
		},
	})
	status := publisher.Bind(t.Context(), stateOf(pl, ownPage(1, "7", "a"), ownPage(2, "8")), pl, proposed("a", "b"))
	if !status.IsSuccess() {
		t.Fatal(status.Err())
	}
	want := []string{
		"announce p-decision-1@7 false", "assume p-decision-1@1 false", "end",
		"announce p-decision-2@8 true", "assume p-decision-2@8 true", "end",
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPlan: what the plan takes from the Proposal and the Snapshot.
func TestPlan(t *testing.T) {
	hourly := fixture.Placement("ns", "p").Obj()
	hourly.Spec.SortBy = v1alpha1.SortByScore
	scored := ownPage(1, "7", "a")
	old := int64(-5)
	scored.Status.Decisions[0].Score = &old
	due := decisions.ScoresDue(hourly, fixture.Now, fixture.Now)
	tests := map[string]struct {
		restores    bool
		lastScores  time.Time
		wantHeld    bool
		wantRequeue time.Time
	}{
		"scores are due":        {},
		"scores are not due":    {lastScores: fixture.Now, wantHeld: true, wantRequeue: due},
		"not due, but restored": {lastScores: fixture.Now, restores: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			state, p := stateOf(hourly, scored), proposed("a")
			p.Kind, p.LastScores = map[bool]framework.Kind{true: framework.Republication}[tc.restores], tc.lastScores
			plan, err := Plan(state, p)
			if err != nil {
				t.Fatal(err)
			}
			if plan.ScoresDeferred != tc.wantHeld || !state.Requeue().Equal(tc.wantRequeue) {
				t.Errorf("held: %t, again at %v", plan.ScoresDeferred, state.Requeue())
			}
			want := int64(0)
			if tc.wantHeld {
				want = -5
			}
			if got := plan.Pages[0].Decisions[0].Score; got == nil || *got != want {
				t.Errorf("score %v, want %d", got, want)
			}
			if plan.Pages[0].Revision != 3 || plan.Pages[0].Queue != "" {
				t.Errorf("page %+v", plan.Pages[0])
			}
		})
	}
	snapshot := &framework.Snapshot{
		Now: fixture.Now, Queue: &framework.QueueAdmission{Annotation: "root.a"},
		Subject: &framework.Subject{Placement: fixture.Placement("ns", "p").Obj(), Taken: []string{"p-decision-1"}},
	}
	plan, err := Plan(framework.NewCycleState(snapshot), proposed("a"))
	if err != nil || len(plan.Pages) != 1 || plan.Pages[0].Queue != "root.a" || plan.Pages[0].Name != "p-decision-2" {
		t.Errorf("got %+v, %v", plan.Pages, err)
	}
}

func TestDecisionPublisherReads(t *testing.T) {
	p := newPublisher(t, nil)
	if p.Name() != "DecisionPublisher" {
		t.Errorf("named %s", p.Name())
	}
	if diff := cmp.Diff(framework.Reads{}, p.Reads(nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
