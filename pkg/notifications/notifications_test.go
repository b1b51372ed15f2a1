package notifications

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/outbound"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/fixture"
)

func TestNext(t *testing.T) {
	c := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "why", LastTransitionTime: fixture.At(0)}
	}
	list := func(all ...metav1.Condition) []metav1.Condition { return all }
	held := c(v1alpha1.PlacementConditionDecisionPending, metav1.ConditionTrue, v1alpha1.ReasonHeld)
	waiting := c(v1alpha1.PlacementConditionDecisionPending, metav1.ConditionTrue, v1alpha1.ReasonWaiting)
	rejected := c(v1alpha1.PlacementConditionDecisionPending, metav1.ConditionFalse, v1alpha1.ReasonRejected)
	wrong := c(v1alpha1.PlacementConditionMisconfigured, metav1.ConditionTrue, v1alpha1.ReasonMisconfigured)
	late := c(v1alpha1.PlacementConditionDecisionProgressing, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
	suspended := c(v1alpha1.PlacementConditionDecisionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	short := c(v1alpha1.PlacementConditionSatisfied, metav1.ConditionFalse, v1alpha1.ReasonNotAllDecisionsScheduled)
	satisfied := c(v1alpha1.PlacementConditionSatisfied, metav1.ConditionTrue, v1alpha1.ReasonAllDecisionsScheduled)
	shortWrong := c(v1alpha1.PlacementConditionSatisfied, metav1.ConditionFalse, v1alpha1.ReasonMisconfigured)
	shortHeld := c(v1alpha1.PlacementConditionSatisfied, metav1.ConditionFalse, v1alpha1.ReasonDecisionPending)
	for name, tc := range map[string]struct {
		before, after []metav1.Condition
		want          string
	}{
		"nothing":                   {},
		"satisfied":                 {after: list(satisfied)},
		"held":                      {after: list(held, shortHeld), want: "held"},
		"held still":                {before: list(held), after: list(held)},
		"approved":                  {before: list(held), after: list(satisfied), want: "held.resolved"},
		"rejected":                  {before: list(held), after: list(rejected), want: "held.resolved"},
		"waiting":                   {before: list(held), after: list(waiting), want: "held.resolved"},
		"misconfigured":             {before: list(satisfied), after: list(wrong, shortWrong), want: "misconfigured"},
		"short, then a mistake":     {before: list(short), after: list(wrong, shortWrong), want: "misconfigured"},
		"short":                     {before: list(satisfied), after: list(short), want: "unsatisfied"},
		"enough":                    {before: list(short), after: list(satisfied), want: "unsatisfied.resolved"},
		"late":                      {after: list(late), want: "deadlineexceeded"},
		"late, then suspended":      {before: list(late), after: list(suspended), want: "deadlineexceeded.resolved"},
		"late, and the change ends": {before: list(late), after: list(), want: "deadlineexceeded.resolved"},
	} {
		t.Run(name, func(t *testing.T) {
			pl := fixture.Placement("shop", "web").Obj()
			pl.UID = "u"
			status := &v1alpha1.PlacementStatus{Conditions: tc.after}
			active, found := Next(ActiveIn(tc.before), pl, status, fixture.Now)
			if _, again := Next(active, pl, status, fixture.Now); len(again) > 0 {
				t.Errorf("the same status again has events %+v", again)
			}
			if _, second := Next(ActiveIn(tc.before), pl, status, fixture.Now.Add(time.Hour)); !sameIDs(found, second) {
				t.Error("the same events have other identifiers later")
			}
			ids := map[string]bool{}
			var got []string
			for _, e := range found {
				ids[e.ID] = true
				got = append(got, strings.TrimPrefix(e.Type, "dev.berth.placement."))
				if e.Data.Active == strings.HasSuffix(e.Type, ".resolved") || e.Data.Message != "why" || e.Subject != "shop/web" || e.SpecVersion != "1.0" {
					t.Errorf("%+v", e)
				}
			}
			if strings.Join(got, " ") != tc.want || len(ids) != len(got) {
				t.Errorf("%v, want %s", got, tc.want)
			}
		})
	}
}

func sameIDs(a, b []Event) bool {
	return slices.EqualFunc(a, b, func(a, b Event) bool { return a.ID == b.ID })
}

// TestLongMessage: an event stays small.
func TestLongMessage(t *testing.T) {
	status := &v1alpha1.PlacementStatus{Conditions: []metav1.Condition{{
		Type: v1alpha1.PlacementConditionMisconfigured, Status: metav1.ConditionTrue, Message: strings.Repeat("<&>", 11000),
	}}}
	_, events := Next(nil, fixture.Placement("n", "p").Obj(), status, fixture.Now)
	if len(events) != 1 || len(events[0].Data.Message) > maxMessage {
		t.Fatalf("%d events", len(events))
	}
	if text, err := json.Marshal(events[0]); err != nil || len(text) > 64<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestExampleInThePage: the event of docs/notifications.md has the fields of an event.
func TestExampleInThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```json\n")
	text, _, _ = strings.Cut(text, "```")
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var e Event
	if err := decoder.Decode(&e); err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(text), string(again)); diff != "" {
		t.Errorf("(-page +event):\n%s", diff)
	}
	_, text, _ = strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	if _, err := config.Load([]byte(text)); err != nil {
		t.Error(err)
	}
}

// world is a receiver whose answers are chosen.
type world struct {
	mu sync.Mutex
	// answers are the next ones, "503 7" with a Retry-After; then 200. "down" is an error, "slow"
	// takes a minute.
	answers []string
	got     []string
	tokens  []string
	results []string
}

func (w *world) Do(r *http.Request, _ int64) (*http.Response, []byte, error) {
	var e Event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	answer := "200"
	if len(w.answers) > 0 {
		answer, w.answers = w.answers[0], w.answers[1:]
	}
	w.got = append(w.got, e.ID+" "+answer)
	w.tokens = append(w.tokens, r.Header.Get("Authorization"))
	w.mu.Unlock()
	if answer == "slow" {
		wait(r.Context(), time.Minute)
		answer = "down"
	}
	if answer == "redirect" {
		return nil, nil, fmt.Errorf("%w (302)", outbound.ErrRedirect)
	}
	if answer == "down" {
		return nil, nil, errors.New("it refuses connections")
	}
	status, after := 0, 0
	_, _ = fmt.Sscan(answer+" 0", &status, &after)
	header := http.Header{}
	if after > 0 {
		header.Set("Retry-After", fmt.Sprint(after))
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(&bytes.Buffer{})}, nil, nil
}

// run starts a sender to a world until end is called.
func run(t *testing.T, w *world, n config.Notification) (s *Sender, end func()) {
	t.Helper()
	n.Name, n.URL = "oncall", "https://receiver"
	s, err := New(&config.PlacementSchedulerConfiguration{Notifications: []config.Notification{n}}, Options{
		Log: logr.Discard(), Observe: func(_, result string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.results = append(w.results, result)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.receivers[0].client = w
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	return s, func() {
		cancel()
		<-ended
	}
}

func events(ids ...string) (all []Event) {
	for _, id := range ids {
		all = append(all, Event{ID: id, state: config.HeldState})
	}
	return all
}

func TestSend(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []string
		// send are the events that are sent at the beginning.
		send []string
		// after is how long the world is watched.
		after         time.Duration
		want, results []string
	}{
		"in order":                 {send: []string{"a", "b"}, want: []string{"a 200", "b 200"}, results: []string{Sent, Sent}},
		"again after a failure":    {answers: []string{"down", "503", "429 30"}, send: []string{"a", "b"}, after: time.Minute, want: []string{"a down", "a 503", "a 429 30", "a 200", "b 200"}, results: []string{Sent, Sent}},
		"Retry-After is respected": {answers: []string{"429 30"}, send: []string{"a"}, after: 29 * time.Second, want: []string{"a 429 30"}},
		"a new token helps":        {answers: []string{"401", "403"}, send: []string{"a"}, after: 10 * time.Second, want: []string{"a 401", "a 403", "a 200"}, results: []string{Sent}},
		"what is refused is gone":  {answers: []string{"400", "410", "204"}, send: []string{"a", "b", "c"}, want: []string{"a 400", "b 410", "c 204"}, results: []string{Refused, Refused, Sent}},
		"a redirect":               {answers: []string{"redirect"}, send: []string{"a"}, want: []string{"a redirect"}, results: []string{Refused}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{answers: tc.answers}
				s, end := run(t, w, config.Notification{})
				s.Send(events(tc.send...))
				time.Sleep(tc.after)
				synctest.Wait()
				got, results := w.got, w.results
				if diff := cmp.Diff([]any{tc.want, tc.results}, []any{got, results}); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				end()
			})
		})
	}
}

// TestGivesUp: an event is sent again for an hour, at most every 5 minutes; then it is the next
// one's turn.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		for range 1000 {
			w.answers = append(w.answers, "down")
		}
		s, end := run(t, w, config.Notification{})
		s.Send(events("a"))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := len(w.got); n < 15 || n > 35 {
			t.Errorf("%d requests in an hour", n)
		}
		if diff := cmp.Diff([]string{Expired}, w.results); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		end()
	})
}

// TestRetryAfter: seconds and dates, up to an hour.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]time.Duration{
			"": 0, "7": 7 * time.Second, "-1": 0, "99999999999": time.Hour, "999999": time.Hour, "soon": 0,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):  0,
		} {
			if got := retryAfter(text); got != want {
				t.Errorf("%q: %s, want %s", text, got, want)
			}
		}
	})
}

// TestQueueIsBounded: the oldest events are dropped, and sending never blocks.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{answers: []string{"slow"}}
		s, end := run(t, w, config.Notification{})
		for i := range maxWaiting + 5 {
			s.Send(events(fmt.Sprint(i)))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		dropped, sent := 0, 0
		for _, result := range w.results {
			switch result {
			case Dropped:
				dropped++
			case Sent:
				sent++
			}
		}
		if dropped != 5 || sent != maxWaiting {
			t.Errorf("%d dropped, %d sent", dropped, sent)
		}
		end()
	})
}

// TestEnd: what waits at the end is sent once, for a short time.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{answers: []string{"down"}}
		s, end := run(t, w, config.Notification{})
		s.Send(events("a", "b"))
		synctest.Wait()
		began := time.Now()
		end()
		if diff := cmp.Diff([]string{"a down", "a 200", "b 200"}, w.got); diff != "" || time.Since(began) > flushTime {
			t.Errorf("after %s (-want +got):\n%s", time.Since(began), diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world{answers: []string{"slow", "slow", "slow"}}
		s, end := run(t, w, config.Notification{})
		s.Send(events("a", "b"))
		synctest.Wait()
		began := time.Now()
		end()
		if took := time.Since(began); took > flushTime {
			t.Errorf("a slow receiver delays the end by %s", took)
		}
		if diff := cmp.Diff([]string{Dropped, Dropped}, w.results); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// TestStatesAndSource: a receiver gets the states that it asks for, with its source.
func TestStatesAndSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w := &world{}
		s, end := run(t, w, config.Notification{States: []string{config.HeldState}, Source: "https://hub/", TokenFile: file})
		s.Send([]Event{{ID: "a", state: config.HeldState, Source: "/apis"}, {ID: "b", state: config.UnsatisfiedState}})
		synctest.Wait()
		if diff := cmp.Diff([]any{[]string{"a 200"}, []string{"Bearer secret"}}, []any{w.got, w.tokens}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		end()
	})
}

// TestFilesOfReceivers: mistakes are found before anything starts; errors do not have the contents.
func TestFilesOfReceivers(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{
		"":                          "notifications[0] (oncall): tokenFile has no token",
		"two words":                 "notifications[0] (oncall): tokenFile has no token",
		"a\nb":                      "notifications[0] (oncall): tokenFile has no token",
		strings.Repeat("x", 70<<10): "notifications[0] (oncall): tokenFile cannot be read",
	} {
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c := &config.PlacementSchedulerConfiguration{Notifications: []config.Notification{{Name: "oncall", URL: "https://x", TokenFile: file}}}
		if _, err := New(c, Options{}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if s, err := New(nil, Options{}); s != nil || err != nil {
		t.Error(s, err)
	}
	(*Sender)(nil).Send(events("a"))
}
