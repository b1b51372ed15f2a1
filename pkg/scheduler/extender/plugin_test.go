package extender_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

var key = inventory.Key{Namespace: "n", Name: "p"}

// now is when the Placement is decided; ttl is the TTL of the extender.
var now = fixture.Now

const ttl = 5 * time.Minute

// answerOf is an answer, written "a=5 b=x c": a scored 5, b excluded, c neither.
func answerOf(text string) *framework.ExtenderAnswer {
	a := &framework.ExtenderAnswer{Generation: 1, Time: now.Add(-time.Minute)}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		c := framework.ExtenderCluster{Name: name}
		switch value {
		case "":
		case "x":
			c.Excluded, c.Reason = true, "too dear"
		default:
			var score int8
			_, _ = fmt.Sscan(value, &score)
			c.Score = &score
		}
		a.Clusters = append(a.Clusters, c)
	}
	return a
}

func failing(a *framework.ExtenderAnswer, generation int64, retryIn time.Duration) *framework.ExtenderAnswer {
	a.Failure = &framework.ExtenderFailure{Generation: generation, Message: "no answer within 2s", Since: now.Add(-time.Hour), RetryAt: now.Add(retryIn)}
	return a
}

func TestDecide(t *testing.T) {
	old := func(a *framework.ExtenderAnswer) *framework.ExtenderAnswer {
		a.Time = now.Add(-ttl)
		return a
	}
	missing := func(a *framework.ExtenderAnswer, names ...string) *framework.ExtenderAnswer {
		a.Missing = names
		return a
	}
	const since = "no answer within 2s, since 2026"
	tests := map[string]struct {
		policy string
		// scores is true for an extender without filterVerb.
		scores    bool
		answer    *framework.ExtenderAnswer
		published string
		// want are the selected clusters, two at most, or what the attempt waits for.
		want string
		// asked are the clusters that the extender is asked for, with "all" if for all of them.
		asked string
		// next is when the next attempt is, from now on.
		next    time.Duration
		warning string
	}{
		"no answer":                    {want: "waiting for the first answer of the extender cost", asked: "all a b c", next: time.Minute},
		"no answer about scores":       {scores: true, want: "waiting for the first answer of the extender cost", asked: "all a b c", next: time.Minute},
		"scores":                       {answer: answerOf("a b=5 c=7"), want: "c b", next: ttl - time.Minute},
		"scores only":                  {scores: true, answer: answerOf("a=x b=5 c=-7"), want: "b a", next: ttl - time.Minute},
		"an excluded one":              {answer: answerOf("a=x b c"), want: "b c", next: ttl - time.Minute},
		"all excluded":                 {answer: answerOf("a=x b=x c=x"), want: "", next: 0},
		"one is new":                   {answer: answerOf("a b"), want: "a b", asked: "c", next: ttl - time.Minute},
		"a new one is not selected":    {answer: answerOf("a"), want: "a", asked: "b c", next: ttl - time.Minute},
		"one stays missing":            {answer: missing(answerOf("a"), "b", "c"), want: "a", next: ttl - time.Minute},
		"a published one stays":        {answer: missing(answerOf("a=50"), "b", "c"), published: "c", want: "c a", next: ttl - time.Minute},
		"the TTL is over":              {answer: old(answerOf("a=x b c")), want: "b c", asked: "all a b c"},
		"another spec":                 {answer: func() *framework.ExtenderAnswer { a := answerOf("a b c"); a.Generation = 0; return a }(), want: "waiting for the first answer of the extender cost", asked: "all a b c", next: time.Minute},
		"it fails":                     {answer: failing(answerOf("a=x b c"), 1, time.Minute), want: "b c", next: time.Minute, warning: since},
		"it fails, and is asked again": {answer: failing(answerOf("a=x b c"), 1, 0), want: "b c", asked: "all a b c", warning: since},
		"it fails, with a new cluster": {answer: failing(answerOf("a b=x"), 1, time.Minute), want: "a", next: time.Minute, warning: since},
		"it failed for another spec":   {answer: failing(answerOf("a=x b c"), 0, time.Minute), want: "b c", next: time.Minute},
		"it never answered":            {answer: failing(&framework.ExtenderAnswer{}, 1, time.Minute), want: "the extender cost does not answer: " + since, next: time.Minute},
		"fail":                         {policy: config.Fail, answer: failing(answerOf("a b c"), 1, time.Minute), want: "the extender cost does not answer: " + since, next: time.Minute},
		"ignore":                       {policy: config.Ignore, answer: failing(answerOf("a=x b c=9"), 1, time.Minute), want: "a b", next: time.Minute, warning: since},
		"ignore scores":                {policy: config.Ignore, scores: true, answer: failing(answerOf("c=9"), 1, time.Minute), want: "a b", next: time.Minute, warning: since},
		"ignore waits for the first":   {policy: config.Ignore, want: "waiting for the first answer of the extender cost", asked: "all a b c", next: time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var questions []*framework.ExtenderQuestion
			e := config.Extender{Name: "cost", URLPrefix: "https://x", FilterVerb: "f", PrioritizeVerb: "p", FailurePolicy: tc.policy}
			if tc.scores {
				e.FilterVerb = ""
			}
			s := engine(t, e, &framework.Handle{AskExtender: func(q *framework.ExtenderQuestion) { questions = append(questions, q) }})
			inv := fleet(s, tc.published)
			if tc.answer != nil {
				inv.SetExtenderAnswer(key, inv.Placement(key).UID, framework.ExtenderKey{Profile: "default", Name: "cost"}, tc.answer)
			}
			a := s.Decide(t.Context(), inv.Snapshot(key, now, nil))
			if tc.next > 0 {
				if got := a.State.NextAttempt().Sub(now); got != tc.next {
					t.Errorf("the next attempt is in %s, want %s", got, tc.next)
				}
			}
			got := a.Failure.Reason()
			if a.Failure == nil {
				var names []string
				for _, c := range a.Selected {
					names = append(names, c.Cluster.Name)
				}
				got = strings.Join(names, " ")
			} else if a.Failure.Code() != framework.Pending || a.Failure.Plugin() != "cost" {
				t.Errorf("failure %v", a.Failure.Err())
			}
			if strings.Contains(tc.want, since) {
				got, _, _ = strings.Cut(got, "-")
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			var warnings string
			for _, w := range a.State.Warnings() {
				warnings += w.Message
			}
			if (tc.warning != "") != (warnings != "") || !strings.Contains(warnings, tc.warning) {
				t.Errorf("warnings %q", warnings)
			}
			if diff := cmp.Diff(tc.asked, asked(questions)); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// asked shows the only question.
func asked(questions []*framework.ExtenderQuestion) string {
	var words []string
	for _, q := range questions {
		if q.All {
			words = append(words, "all")
		}
		var names []string
		for i := range q.Clusters.All {
			names = append(names, q.Fleet.Clusters.Get(i).Name)
		}
		words = append(words, names...)
	}
	return strings.Join(words, " ")
}

func engine(t *testing.T, e config.Extender, handle *framework.Handle) *scheduler.Scheduler {
	t.Helper()
	e.TTL = &metav1.Duration{Duration: ttl}
	c := &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{Name: config.DefaultProfile, Extenders: []config.Extender{e}}}}
	profiles, err := scheduler.NewProfiles(t.Context(), c, builtin.DefaultProfile(), builtin.Registry(), handle)
	if err != nil {
		t.Fatal(err)
	}
	return scheduler.New(profiles, nil)
}

// fleet has the clusters a, b and c, and a Placement that wants two of them.
func fleet(s *scheduler.Scheduler, published string) *inventory.Inventory {
	inv := inventory.New(inventory.Options{Reads: s.Reads})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("n", "s"))
	for _, name := range []string{"a", "b", "c"} {
		inv.Update(fixture.Cluster(name).Set("s").Obj())
	}
	inv.Update(fixture.Placement("n", "p").Generation(1).Number(2).Obj())
	if published != "" {
		inv.Update(fixture.Page("n", "p-decision-1").Of("p").Lists(strings.Fields(published)...).Obj())
	}
	inv.Started()
	return inv
}

// TestOtherPlacements: a Placement that gives the extender's scores no weight does not wait for
// them, and another profile does not know the extender.
func TestOtherPlacements(t *testing.T) {
	s := engine(t, config.Extender{Name: "cost", URLPrefix: "https://x", PrioritizeVerb: "p"}, &framework.Handle{
		AskExtender: func(*framework.ExtenderQuestion) { t.Error("asked") },
	})
	inv := fleet(s, "")
	inv.Update(fixture.Placement("n", "p").Generation(2).Number(1).Mode(v1alpha1.PrioritizerPolicyModeExact).Obj())
	if a := s.Decide(t.Context(), inv.Snapshot(key, now, nil)); a.Failure != nil {
		t.Error(a.Failure.Err())
	}
	inv.Update(fixture.Placement("n", "p").Generation(3).Number(1).Prioritizer("cost", 0).Obj())
	if a := s.Decide(t.Context(), inv.Snapshot(key, now, nil)); a.Failure != nil {
		t.Error(a.Failure.Err())
	}
}

// TestVerdictsNameTheExtender: an explanation says which extender excluded a cluster, and why.
func TestVerdictsNameTheExtender(t *testing.T) {
	s := engine(t, config.Extender{Name: "cost", URLPrefix: "https://x", FilterVerb: "f", PrioritizeVerb: "f"}, &framework.Handle{})
	inv := fleet(s, "")
	inv.SetExtenderAnswer(key, inv.Placement(key).UID, framework.ExtenderKey{Profile: "default", Name: "cost"}, answerOf("a=9 b=x"))
	a := s.Decide(t.Context(), inv.Snapshot(key, now, nil))
	var got []string
	for _, v := range s.Explain(t.Context(), a.Result, "") {
		got = append(got, fmt.Sprintf("%s %v %s %s", v.Cluster, v.Selected, v.Plugin, v.Reason))
	}
	want := []string{
		"a true  rank 1 of 1",
		"b false cost excluded by the extender: too dear",
		"c false cost the extender has not answered for this cluster yet",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
