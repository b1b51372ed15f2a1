package explore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// controller answers PlacementExplanations.
type controller struct {
	mu sync.Mutex
	// candidates are those of each Placement.
	candidates map[string][]string
	// asked are the Placements, and clusters, of all questions.
	asked []string
	// refuses is the error of each question.
	refuses error
	// busy is true if no question is answered.
	busy bool
}

func (c *controller) client() client.Client {
	return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			e := o.(*berthv1alpha1.PlacementExplanation)
			question := e.Spec.Placement
			for _, cluster := range e.Spec.Clusters {
				question += " " + cluster
			}
			c.asked = append(c.asked, question)
			e.Name = e.GenerateName + strconv.Itoa(len(c.asked))
			return c.refuses
		},
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			e := o.(*berthv1alpha1.PlacementExplanation)
			if c.busy {
				return nil
			}
			e.Status.Conditions = []metav1.Condition{{Type: berthv1alpha1.ExplanationExplained, Status: metav1.ConditionTrue}}
			e.Status.Verdicts = nil
			for _, name := range c.candidates[e.Spec.Placement] {
				e.Status.Verdicts = append(e.Status.Verdicts, berthv1alpha1.ClusterVerdict{Cluster: name, Rank: 1})
			}
			e.Status.Candidates = int32(len(e.Status.Verdicts))
			if len(e.Spec.Edits) > 0 {
				e.Status.Change = &berthv1alpha1.ExplainedChange{Operation: simulator.Updated, Before: c.candidates[e.Spec.Placement]}
			}
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			for name := range c.candidates {
				all := list.(*v1alpha1.PlacementList)
				all.Items = append(all.Items, *fixture.Placement("ns", name).Obj())
			}
			return nil
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return nil },
	})
}

// questions is how many questions there were.
func (c *controller) questions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

// newLimitedHub returns the LiveWorld of a viewer who may list one namespace and no clusters.
func newLimitedHub(t *testing.T, c *controller, objects ...client.Object) *LiveWorld {
	t.Helper()
	hub, err := NewLiveWorld(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := scope{known: true, namespace: "ns"}
	run, err := hub.reset(s, newRemote(t.Context(), s, c.client(), hub.answered))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		hub.update(run, nil, o)
	}
	hub.start()
	hub.setState(Connected, "")
	return hub
}

// waitForAnswers lets the controller answer, and the LiveWorld send what changed.
func waitForAnswers() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// TestWhatIfInNamespace: the controller compares for a viewer who may list one namespace.
func TestWhatIfInNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{candidates: map[string][]string{"a": {"c1", "c2"}}}
		hub := newLimitedHub(t, c, fixture.Placement("ns", "a").Obj())
		s := NewServer(simulator.Options{}, NewViewer(simulator.Options{}, hub, c.client(), ""))
		var got WhatIf
		read(t, askWhatIf(s, `{"edits":[{"kind":"drain","cluster":"c1"}]}`, nil), 200, &got)
		waitForAnswers()
		read(t, get(s, nil, "api/what-if?id="+got.ID), 200, &got)
		if !got.Done || got.HasWorld || got.Error != "" || len(got.Comparison.Changes) != 1 || len(got.Comparison.Notes) != 1 {
			t.Fatalf("got %+v", got)
		}
		if diff := cmp.Diff([]string{"c1", "c2"}, got.Comparison.Changes[0].Removed); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
		if w := get(s, nil, "api/fleet?world="+got.ID); w.Code != 404 {
			t.Errorf("the state after the edits has code %d", w.Code)
		}
	})
}

// cellsOf returns the cells of a Placement.
func cellsOf(t *testing.T, h *LiveWorld, placement string) string {
	t.Helper()
	c, err := columns(t.Context(), h, []string{placement})
	if err != nil {
		t.Fatal(err)
	}
	return c.Columns[0].Cells
}

// TestForgottenClusters: clusters that only the answer about a deleted Placement named disappear
// with it, so that the cells of the others have the rows of the page.
func TestForgottenClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{candidates: map[string][]string{"a": {"c1", "c2"}, "b": {"c2", "c3"}}}
		a := fixture.Placement("ns", "a").Obj()
		hub := newLimitedHub(t, c, a, fixture.Placement("ns", "b").Obj())
		state := hub.fleet()
		follow := func() string {
			waitForAnswers()
			updates, _, ok := hub.since(state.Version)
			if !ok {
				t.Fatal("the page is to read everything again")
			}
			for _, u := range updates {
				apply(state, &u)
			}
			return fmt.Sprint(rowsOf(state))
		}
		cellsOf(t, hub, "ns/a")
		cellsOf(t, hub, "ns/b")
		follow()
		if len(state.Clusters) != 3 {
			t.Fatalf("the page has %d clusters, want those that the answers name", len(state.Clusters))
		}
		hub.remove(hub.run, a)
		if got, want := follow(), fmt.Sprint(rowsOf(hub.fleet())); got != want {
			t.Errorf("the page has\n%s\nthe hub\n%s", got, want)
		}
		if cells := cellsOf(t, hub, "ns/b"); len(cells) != len(state.Clusters) || len(cells) != 2 {
			t.Errorf("%d cells for the %d clusters of the page, want 2", len(cells), len(state.Clusters))
		}
	})
}

// TestUnknownNames: the controller is asked about Placements and clusters that exist, and about few
// at a time.
func TestUnknownNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{candidates: map[string][]string{"web": {"c1"}}}
		objects := []client.Object{fixture.Placement("ns", "web").Obj()}
		for i := range 2 * maxWaiting {
			objects = append(objects, fixture.Placement("ns", "p"+strconv.Itoa(i)).Obj())
		}
		hub := newLimitedHub(t, c, objects...)
		v := NewViewer(simulator.Options{}, hub, nil, "")
		if _, err := v.placement(t.Context(), hub, "ns/web"); err != nil {
			t.Fatal(err)
		}
		waitForAnswers()
		for i := range 50 {
			name := "none" + strconv.Itoa(i)
			if _, err := v.placement(t.Context(), hub, "ns/"+name); !errors.Is(err, errUnknown) {
				t.Errorf("a Placement that does not exist: %v", err)
			}
			if _, err := v.cell(t.Context(), hub, "ns/web", name); !errors.Is(err, errUnknown) {
				t.Errorf("a cluster that does not exist: %v", err)
			}
		}
		if n := c.questions(); n != 1 {
			t.Errorf("%d questions, want the one about web", n)
		}
		if _, err := v.cell(t.Context(), hub, "ns/web", "c1"); err != nil || c.questions() != 2 {
			t.Errorf("a cluster that exists: %d questions, %v", c.questions(), err)
		}
		c.mu.Lock()
		c.busy = true
		c.mu.Unlock()
		for i := range 2 * maxWaiting {
			cellsOf(t, hub, "ns/p"+strconv.Itoa(i))
		}
		r := hub.world.decider.(*remote)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.running != maxWaiting {
			t.Errorf("%d questions wait, want %d", r.running, maxWaiting)
		}
		if err := r.known[question{key: keyOf("ns/p" + strconv.Itoa(2*maxWaiting-1))}].err; !errors.Is(err, errTooMany) {
			t.Errorf("the last one is told %v", err)
		}
	})
}

// TestOutdatedAnswer: an answer to a question that was asked before a change does not count.
func TestOutdatedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{candidates: map[string][]string{"web": {"c1"}}, busy: true}
		web := fixture.Placement("ns", "web").Obj()
		hub := newLimitedHub(t, c, web)
		cellsOf(t, hub, "ns/web")
		waitForAnswers()
		hub.update(hub.run, web, fixture.Placement("ns", "web").Generation(2).Obj())
		hub.update(hub.run, nil, fixture.Page("ns", "web-decision-1").Of("web").OwnedBy("web").Lists("c1").Obj())
		c.mu.Lock()
		c.busy = false
		c.mu.Unlock()
		waitForAnswers()
		cellsOf(t, hub, "ns/web")
		waitForAnswers()
		if n := c.questions(); n != 2 {
			t.Errorf("%d questions, want another one after the change", n)
		}
		cellsOf(t, hub, "ns/web")
		waitForAnswers()
		if n := c.questions(); n != 2 {
			t.Errorf("%d questions without another change", n)
		}
	})
}

// TestOldAnswers: a page reads columns again when answers have their age, and asks after errors in
// growing intervals.
func TestOldAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{refuses: errors.New("no")}
		hub := newLimitedHub(t, c, fixture.Placement("ns", "web").Obj())
		version := hub.fleet().Version
		// follow reads the column whenever the page is to.
		follow := func(after time.Duration) {
			for range after / time.Second {
				waitForAnswers()
				updates, _, ok := hub.since(version)
				if !ok {
					t.Fatal("the page is to read everything again")
				}
				for _, u := range updates {
					version = u.Version
					if u.AllColumns || len(u.Columns) > 0 {
						cellsOf(t, hub, "ns/web")
					}
				}
			}
		}
		cellsOf(t, hub, "ns/web")
		follow(time.Minute)
		early := c.questions()
		follow(answerAge)
		if late := c.questions() - early; early < 2 || early > 4 || late < 2 || late > 5 {
			t.Errorf("%d questions in the first minute, %d in the next five", early, late)
		}
		c.mu.Lock()
		c.refuses = nil
		c.mu.Unlock()
		follow(2 * answerAge)
		before := c.questions()
		follow(2 * answerAge)
		if n := c.questions() - before; n < 1 || n > 2 {
			t.Errorf("%d questions in twice the age of an answer", n)
		}
	})
}
