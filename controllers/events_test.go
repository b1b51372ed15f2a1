package controllers

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// testSender is a sender with a hub in memory that records each event and its time. The clock is
// that of synctest.
type testSender struct {
	*eventSender
	began time.Time
	stop  context.CancelFunc
	// ended is closed when the sender has ended.
	ended chan struct{}

	mu       sync.Mutex
	received []string
}

// newTestSender starts a sender. The hub returns the error of refuse.
func newTestSender(t *testing.T, refuse func(note string) error) *testSender {
	hub := &clienttesting.Fake{}
	o := &testSender{
		eventSender: newEventSender(&eventsclient.FakeEventsV1{Fake: hub}, logr.Discard()),
		began:       time.Now(), ended: make(chan struct{}),
	}
	hub.AddReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.received = append(o.received, event.Note+" after "+time.Since(o.began).String())
		return true, event, refuse(event.Note)
	})
	ctx, stop := context.WithCancel(t.Context())
	o.stop = stop
	go func() {
		defer close(o.ended)
		o.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-o.ended
	})
	return o
}

// countLost is what the metric says.
func countLost(t *testing.T) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(eventsLost)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

func welcome(string) error { return nil }

func (o *testSender) send(notes ...string) {
	var events []report.Event
	for _, note := range notes {
		events = append(events, report.Event{Note: note})
	}
	o.Send(context.Background(), &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}, events)
}

// expect waits until nothing moves, and then wants exactly these to have come; workers may overtake
// each other.
func (o *testSender) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.received)
	if diff := cmp.Diff(want, o.received); diff != "" {
		t.Errorf("events that came (-want +got):\n%s", diff)
	}
}

func TestEventsGoAtOnceWhileNothingIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestSender(t, welcome)
		o.send("1", "2", "3", "4", "5", "6")
		o.expect(t, "1 after 0s", "2 after 0s", "3 after 0s", "4 after 0s", "5 after 0s", "6 after 0s")
	})
}

func TestEventsYieldUntilTheLastDecisionIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestSender(t, welcome)
		first, second := o.Yield(), o.Yield()
		o.send("1", "2")
		o.expect(t)
		first()
		o.expect(t)
		time.Sleep(time.Second)
		second()
		o.expect(t, "1 after 1s", "2 after 1s")
	})
}

func TestEventsYieldForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestSender(t, welcome)
		defer o.Yield()()
		o.send("1")
		time.Sleep(time.Second)
		o.send("2")
		time.Sleep(maxEventDelay - time.Second - time.Nanosecond)
		o.expect(t)
		time.Sleep(time.Nanosecond)
		o.expect(t, "1 after 5s")
		time.Sleep(maxEventDelay)
		o.expect(t, "1 after 5s", "2 after 6s")
	})
}

func TestAnEndSendsEventsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestSender(t, welcome)
		defer o.Yield()()
		o.send("1", "2", "3", "4", "5")
		o.expect(t)
		o.stop()
		<-o.ended
		o.expect(t, "1 after 0s", "2 after 0s", "3 after 0s", "4 after 0s", "5 after 0s")
	})
}

func TestAnEndDoesNotWaitForAHubThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestSender(t, func(string) error { return apierrors.NewInternalError(context.DeadlineExceeded) })
		lost := countLost(t)
		o.send("1")
		synctest.Wait()
		o.stop()
		<-o.ended
		if took := time.Since(o.began); took > eventFlushTime {
			t.Errorf("it ended after %s", took)
		}
		if got := countLost(t) - lost; got != 1 {
			t.Errorf("%v events counted as lost, want 1", got)
		}
	})
}

// terminating is the answer to a creation in a namespace that is being deleted.
func terminating(resource schema.GroupResource) error {
	err := apierrors.NewForbidden(resource, "1", errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	return err
}

func TestEventsAreTriedAgain(t *testing.T) {
	resource := schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"}
	tests := map[string]struct {
		answers  []error
		want     []string
		wantLost float64
	}{
		"taken at last": {
			answers: []error{apierrors.NewTooManyRequestsError("busy"), apierrors.NewInternalError(context.DeadlineExceeded), nil},
			want:    []string{"1 after 0s", "1 after 100ms", "1 after 500ms"},
		},
		"taken, though the answer was lost": {
			answers: []error{apierrors.NewInternalError(context.DeadlineExceeded), apierrors.NewAlreadyExists(resource, "1")},
			want:    []string{"1 after 0s", "1 after 100ms"},
		},
		"lost in the end": {
			answers:  slices.Repeat([]error{apierrors.NewTooManyRequestsError("busy")}, eventTries),
			want:     []string{"1 after 0s", "1 after 100ms", "1 after 2.1s", "1 after 500ms", "1 after 8.5s"},
			wantLost: 1,
		},
		"the namespace is being deleted": {answers: []error{terminating(resource)}, want: []string{"1 after 0s"}},
		"the namespace is gone":          {answers: []error{apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns")}, want: []string{"1 after 0s"}},
		"nobody may":                     {answers: []error{apierrors.NewForbidden(resource, "1", nil)}, want: []string{"1 after 0s"}, wantLost: 1},
		"the event is invalid":           {answers: []error{apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "1", nil)}, want: []string{"1 after 0s"}, wantLost: 1},
		"the request was canceled":       {answers: []error{context.Canceled}, want: []string{"1 after 0s"}, wantLost: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := countLost(t)
				o := newTestSender(t, func(string) error {
					answer := tc.answers[0]
					tc.answers = tc.answers[1:]
					return answer
				})
				o.send("1")
				time.Sleep(time.Minute)
				o.expect(t, tc.want...)
				if got := countLost(t) - lost; got != tc.wantLost {
					t.Errorf("%v events counted as lost, want %v", got, tc.wantLost)
				}
			})
		})
	}
}

func TestTheOldestEventsAreLostWhenTooManyWait(t *testing.T) {
	s := newEventSender(&eventsclient.FakeEventsV1{Fake: &clienttesting.Fake{}}, logr.Discard())
	defer s.Yield()()
	lost := countLost(t)
	s.Send(t.Context(), &v1alpha1.Placement{}, append([]report.Event{{Note: "1"}, {Note: "2"}}, make([]report.Event, maxEventsWaiting)...))
	s.Send(t.Context(), &v1alpha1.Placement{}, []report.Event{{Note: "last"}})
	if got := countLost(t) - lost; got != 3 || len(s.waiting) != maxEventsWaiting {
		t.Errorf("%v events counted as lost, want 3; %d wait", got, len(s.waiting))
	}
	if first, last := s.waiting[0].Note, s.waiting[maxEventsWaiting-1].Note; first != "" || last != "last" {
		t.Errorf("the first that waits is %q, the last %q", first, last)
	}
}

func TestEventsKeepTheirOrder(t *testing.T) {
	s := newEventSender(&eventsclient.FakeEventsV1{Fake: &clienttesting.Fake{}}, logr.Discard())
	s.Send(t.Context(), &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, make([]report.Event, 100))
	if !slices.IsSortedFunc(s.waiting, func(a, b *queuedEvent) int {
		if !a.EventTime.Before(&b.EventTime) {
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	}) {
		t.Error("times or names do not follow the order of events")
	}
}

func TestEventsAreSentAsProtobuf(t *testing.T) {
	var content, accept string
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, accept = r.Header.Get("Content-Type"), r.Header.Get("Accept")
		// A hub that answers in JSON is understood.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "taken"}}`))
	}))
	defer hub.Close()
	config := &rest.Config{Host: hub.URL}
	client, err := newEventsClient(config)
	if err != nil {
		t.Fatal(err)
	}
	if config.ContentType != "" || config.AcceptContentTypes != "" {
		t.Error("other clients of the configuration send protobuf, too")
	}
	event, err := client.Events("ns").Create(t.Context(), &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "sent"}}, metav1.CreateOptions{})
	if err != nil || event.Name != "taken" {
		t.Errorf("got event %v, error %v", event, err)
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	if content != protobuf || accept != protobuf+",application/json" {
		t.Errorf("sent %s and asked for %s", content, accept)
	}
}
