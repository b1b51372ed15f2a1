package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	realclient "k8s.io/client-go/kubernetes/typed/events/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1/fake"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// newQuietSender is a sender that does not run.
func newQuietSender() *eventSender {
	return newEventSender(&eventsclient.FakeEventsV1{Fake: &clienttesting.Fake{}}, logr.Discard())
}

func TestNewEventSender(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if s := newQuietSender(); s.instance != "placementController-"+host || s.changed == nil {
		t.Errorf("the sender is %+v", s)
	}
}

// TestTimesOfEvents: two events never have the same time, in microseconds, which the API keeps; how
// long an event waits is counted from the time at which it was queued.
func TestTimesOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQuietSender()
		time.Sleep(1500 * time.Nanosecond)
		queued := time.Now()
		began := queued.Truncate(time.Microsecond)
		s.Send(t.Context(), &v1alpha1.Placement{}, make([]report.Event, 3))
		time.Sleep(time.Second)
		s.Send(t.Context(), &v1alpha1.Placement{}, make([]report.Event, 1))
		want := []time.Duration{0, time.Microsecond, 2 * time.Microsecond, queued.Add(time.Second).Truncate(time.Microsecond).Sub(began)}
		for i, e := range s.waiting {
			if got := e.EventTime.Sub(began); got != want[i] {
				t.Errorf("event %d is at %s, want %s", i, got, want[i])
			}
		}
		for i, want := range []time.Duration{0, 0, 0, time.Second} {
			if got := s.waiting[i].since.Sub(queued); got != want {
				t.Errorf("event %d waits since %s, want %s", i, got, want)
			}
		}
		if !s.last.Equal(s.waiting[3].EventTime.Time) {
			t.Errorf("the last time is %s", s.last)
		}
	})
}

func TestNoEventsAreNoNews(t *testing.T) {
	s := newQuietSender()
	s.Send(t.Context(), &v1alpha1.Placement{}, nil)
	if len(s.waiting) > 0 || len(s.changed) > 0 || !s.last.IsZero() {
		t.Errorf("%d events wait, %d signals", len(s.waiting), len(s.changed))
	}
	s.Send(t.Context(), &v1alpha1.Placement{}, make([]report.Event, 2))
	if len(s.waiting) != 2 || len(s.changed) != 1 {
		t.Errorf("%d events wait, want 2; %d signals, want 1", len(s.waiting), len(s.changed))
	}
}

func TestEventOf(t *testing.T) {
	page := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-decision-1", UID: "u2", ResourceVersion: "8"}}
	placement := corev1.ObjectReference{
		APIVersion: "cluster.open-cluster-management.io/v1beta1", Kind: "Placement", Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7",
	}
	sent := report.Event{Type: "Normal", Reason: "R", Action: "A", Note: "note"}
	related := sent
	related.Related = page
	long := report.Event{Type: "Warning", Reason: strings.Repeat("r", 129), Action: strings.Repeat("a", 129), Note: strings.Repeat("n", 2000)}
	send := func(e report.Event) func(*eventSender) {
		return func(s *eventSender) {
			s.Send(t.Context(), &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7"}}, []report.Event{e})
		}
	}
	tests := map[string]struct {
		send func(*eventSender)
		want eventsv1.Event
	}{
		"of a Placement": {send: send(sent), want: eventsv1.Event{Type: "Normal", Reason: "R", Action: "A", Note: "note", Regarding: placement}},
		"of a page": {send: send(related), want: eventsv1.Event{
			Type: "Normal", Reason: "R", Action: "A", Note: "note", Regarding: placement,
			Related: &corev1.ObjectReference{
				APIVersion: "cluster.open-cluster-management.io/v1beta1", Kind: "PlacementDecision", Namespace: "ns", Name: "p-decision-1", UID: "u2", ResourceVersion: "8",
			},
		}},
		"too long": {send: send(long), want: eventsv1.Event{
			Type: "Warning", Reason: long.Reason[:128], Action: long.Action[:128], Note: report.CutNote(long.Note), Regarding: placement,
		}},
		"of a ConfigMap": {
			send: func(s *eventSender) {
				s.SendAbout(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u3", ResourceVersion: "9"}}, sent)
			},
			want: eventsv1.Event{
				Type: "Normal", Reason: "R", Action: "A", Note: "note",
				Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "p", UID: "u3", ResourceVersion: "9"},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newQuietSender()
				s.instance = strings.Repeat("i", 129)
				tc.send(s)
				tc.want.Namespace, tc.want.Name = "ns", fmt.Sprintf("p.%x", time.Now().UnixNano())
				tc.want.EventTime = metav1.NewMicroTime(time.Now())
				tc.want.ReportingController, tc.want.ReportingInstance = "placementController", s.instance[:128]
				if len(s.waiting) != 1 {
					t.Fatalf("%d events wait", len(s.waiting))
				}
				if diff := cmp.Diff(&tc.want, s.waiting[0].Event); diff != "" {
					t.Errorf("event (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestEventName(t *testing.T) {
	now := time.Unix(0, 0xabc)
	tests := map[string]struct{ regarding, want string }{
		"short":                    {regarding: "p", want: "p.abc"},
		"as long as can be":        {regarding: strings.Repeat("p", 249), want: strings.Repeat("p", 249) + ".abc"},
		"longer":                   {regarding: strings.Repeat("p", 250), want: strings.Repeat("p", 249) + ".abc"},
		"cut where a label begins": {regarding: strings.Repeat("p", 247) + "-.p", want: strings.Repeat("p", 247) + ".abc"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := eventName(tc.regarding, now); got != tc.want {
				t.Errorf("the name is %s, want %s", got, tc.want)
			}
		})
	}
	if got := cut("aé", 2); got != "a" {
		t.Errorf("a cut character leaves %q", got)
	}
}

// TestSentEventsAreNotKept: the slice of waiting events holds no event that was taken.
func TestSentEventsAreNotKept(t *testing.T) {
	s := newQuietSender()
	s.Send(t.Context(), &v1alpha1.Placement{}, []report.Event{{Note: "1"}, {Note: "2"}})
	all := s.waiting
	if first, _ := s.pop(false); first.Note != "1" || all[0] != nil || all[1] == nil || len(s.waiting) != 1 {
		t.Errorf("took %v of %v, %d wait", first, all, len(s.waiting))
	}
}

func TestLostEventsAreLogged(t *testing.T) {
	var lines []string
	hub := &clienttesting.Fake{}
	hub.AddReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, context.Canceled })
	s := newEventSender(&eventsclient.FakeEventsV1{Fake: hub}, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	event := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Regarding: corev1.ObjectReference{Name: "p"}, Reason: "R", Note: "why"}
	s.send(t.Context(), &queuedEvent{Event: event, reconcileID: "id"})
	if len(lines) != 1 || !strings.Contains(lines[0], `"namespace"="ns" "name"="p" "reconcileID"="id" "reason"="R" "note"="why"`) {
		t.Errorf("the log is %q", lines)
	}
}

// TestAnEndBoundsTheTimeOfRequests: a request that is still running some time after the end is
// canceled.
func TestAnEndBoundsTheTimeOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventSender(slowEvents{}, logr.Discard())
		s.Send(t.Context(), &v1alpha1.Placement{}, make([]report.Event, 1))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		time.Sleep(time.Hour)
		stop()
		began := time.Now()
		<-ended
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it ended after %s, want 5s", took)
		}
	})
}

// slowEvents is a hub that answers nothing.
type slowEvents struct{ realclient.EventsV1Interface }

func (slowEvents) Events(string) realclient.EventInterface { return slowNamespace{} }

type slowNamespace struct{ realclient.EventInterface }

func (slowNamespace) Create(ctx context.Context, _ *eventsv1.Event, _ metav1.CreateOptions) (*eventsv1.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// scriptedManager is a manager whose Start is a function.
type scriptedManager struct {
	ctrl.Manager
	start func(context.Context) error
}

func (m scriptedManager) Start(ctx context.Context) error { return m.start(ctx) }

// TestManagerWithBackground: events and records are written while the manager runs. Those of
// attempts that end last are written before Start returns, unless the manager failed.
func TestManagerWithBackground(t *testing.T) {
	failure := errors.New("the lease is lost")
	tests := map[string]struct {
		err      error
		wantTook time.Duration
	}{
		"stopped": {wantTook: time.Second},
		"failed":  {err: failure},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var notes []string
				hub := &clienttesting.Fake{}
				hub.AddReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
					event := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
					if event.Note == "late" {
						time.Sleep(time.Second)
					}
					mu.Lock()
					defer mu.Unlock()
					notes = append(notes, event.Note)
					return true, event, nil
				})
				l := newTestRecorder(t)
				expect := func(when string, wantNotes, wantRecords []string) {
					t.Helper()
					mu.Lock()
					defer mu.Unlock()
					if diff := cmp.Diff(wantNotes, notes); diff != "" {
						t.Errorf("events %s (-want +got):\n%s", when, diff)
					}
					if diff := cmp.Diff(wantRecords, l.records(t)); diff != "" {
						t.Errorf("records %s (-want +got):\n%s", when, diff)
					}
				}
				m := &managerWithBackground{events: newEventSender(&eventsclient.FakeEventsV1{Fake: hub}, logr.Discard()), records: l.Recorder}
				ctx, stop := context.WithCancel(t.Context())
				m.Manager = scriptedManager{start: func(ctx context.Context) error {
					m.events.Send(ctx, l.pl, []report.Event{{Note: "early"}})
					synctest.Wait()
					expect("while it runs", []string{"early"}, nil)
					stop()
					// The background goes on, and yields to the attempts that end last.
					m.events.Yield()
					l.Yield()
					m.events.Send(ctx, l.pl, []report.Event{{Note: "late"}})
					l.publish(1, "a", "b")
					synctest.Wait()
					expect("while it stops", []string{"early"}, nil)
					return tc.err
				}}
				began := time.Now()
				err := m.Start(ctx)
				if took := time.Since(began); !errors.Is(err, tc.err) || took != tc.wantTook {
					t.Errorf("got error %v after %s, want it after %s", err, took, tc.wantTook)
				}
				time.Sleep(time.Minute)
				expect("in the end", []string{"early", "late"}, []string{"1 Published +b -a"})
			})
		})
	}
}
