package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// reporter is the name events are sent under; consumers of the reference look for it.
const reporter = "placementController"

// Limits of the sender.
const (
	eventWorkers   = 4
	eventTries     = 5
	eventFlushTime = 5 * time.Second
	// eventPatience is how long an event yields to decisions: longer than a usual burst takes.
	eventPatience = 5 * time.Second
	// maxEventsWaiting bounds the memory that events take while the hub does not; the oldest are
	// lost.
	maxEventsWaiting = 100_000
)

// eventSender sends events in the background, each on its own: client-go's recorder folds events
// that differ in their note only and drops what its queue of 1,000 does not hold, so that scores
// would be lost when many Placements are decided at once.
type eventSender struct {
	client   eventsclient.EventsV1Interface
	log      logr.Logger
	instance string

	mu      sync.Mutex
	waiting []*letter
	last    time.Time

	// gate has events yield to decisions, but no longer than eventPatience: in a storm without end
	// they are sent all the same.
	gate
}

// newEventsClient sends protobuf, which costs less than JSON on both sides.
func newEventsClient(cfg *rest.Config) (eventsclient.EventsV1Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return eventsclient.NewForConfig(cfg)
}

// letter is a queued event. reconcileID names its reconciliation, if any. since has a monotonic
// reading, so that setting the clock does not affect it.
type letter struct {
	*eventsv1.Event
	reconcileID types.UID
	since       time.Time
}

func newEventSender(client eventsclient.EventsV1Interface, log logr.Logger) *eventSender {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &eventSender{client: client, log: log, instance: reporter + "-" + host, gate: newGate()}
}

// Send queues events regarding a Placement. Their times, and so their names, keep their order.
func (s *eventSender) Send(ctx context.Context, pl *v1alpha1.Placement, events []scheduler.Event) {
	s.queue(controller.ReconcileIDFromContext(ctx), corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersionV1Beta1.String(), Kind: "Placement",
		Namespace: pl.Namespace, Name: pl.Name, UID: pl.UID, ResourceVersion: pl.ResourceVersion,
	}, events...)
}

// SendAbout queues an event regarding a ConfigMap.
func (s *eventSender) SendAbout(config *corev1.ConfigMap, event scheduler.Event) {
	s.queue("", corev1.ObjectReference{
		APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap",
		Namespace: config.Namespace, Name: config.Name, UID: config.UID, ResourceVersion: config.ResourceVersion,
	}, event)
}

func (s *eventSender) queue(reconcileID types.UID, regarding corev1.ObjectReference, events ...scheduler.Event) {
	if len(events) == 0 {
		return
	}
	s.mu.Lock()
	for _, e := range events {
		since := time.Now()
		now := since.Truncate(time.Microsecond)
		if !now.After(s.last) {
			now = s.last.Add(time.Microsecond)
		}
		s.last = now
		s.waiting = append(s.waiting, &letter{s.event(regarding, e, now), reconcileID, since})
	}
	if over := len(s.waiting) - maxEventsWaiting; over > 0 {
		s.waiting = s.waiting[over:]
		eventsLost.Add(float64(over))
	}
	s.mu.Unlock()
	s.signal()
}

// Bounds of an event's parts in bytes, beside its note: the API server refuses what is longer.
const (
	maxEventName   = 253
	maxEventReason = 128
)

// event builds every event that Berth sends, with its parts cut to what the API server takes.
func (s *eventSender) event(regarding corev1.ObjectReference, e scheduler.Event, now time.Time) *eventsv1.Event {
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(regarding.Name, now), Namespace: regarding.Namespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reporter,
		ReportingInstance:   cut(s.instance, maxEventReason),
		Type:                e.Type,
		Reason:              cut(e.Reason, maxEventReason),
		Action:              cut(e.Action, maxEventReason),
		Note:                scheduler.CutNote(e.Note),
		Regarding:           regarding,
	}
	if page := e.Related; page != nil {
		event.Related = &corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersionV1Beta1.String(), Kind: "PlacementDecision",
			Namespace: page.Namespace, Name: page.Name, UID: page.UID, ResourceVersion: page.ResourceVersion,
		}
	}
	return event
}

// eventName is unique: no two events have the same time.
func eventName(regarding string, now time.Time) string {
	suffix := fmt.Sprintf(".%x", now.UnixNano())
	return strings.TrimRight(cut(regarding, maxEventName-len(suffix)), "-.") + suffix
}

// cut shortens a text at a whole character.
func cut(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Run sends events. When ctx ends, what waits is sent at once, for a few seconds.
func (s *eventSender) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(eventFlushTime, cancel) })()
	turn := make(chan *letter)
	var workers sync.WaitGroup
	for range eventWorkers {
		workers.Go(func() {
			for event := range turn {
				s.send(sending, event)
			}
		})
	}
	for event := s.next(ctx); event != nil; event = s.next(ctx) {
		turn <- event
	}
	close(turn)
	workers.Wait()
}

// next waits for the oldest event's turn; there is none once ctx has ended and nothing waits.
func (s *eventSender) next(ctx context.Context) *letter {
	for {
		ended := ctx.Err() != nil
		event, patience := s.take(ended)
		if event != nil || ended {
			return event
		}
		select {
		case <-s.changed:
		case <-patience:
		case <-ctx.Done():
		}
	}
}

// take returns the oldest event, or what says that its patience has ended.
func (s *eventSender) take(ended bool) (*letter, <-chan time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return nil, nil
	}
	oldest := s.waiting[0]
	if patience := eventPatience - time.Since(oldest.since); patience > 0 && s.busy() && !ended {
		return nil, time.After(patience)
	}
	// What was sent is not kept with the slice.
	s.waiting[0] = nil
	s.waiting = s.waiting[1:]
	return oldest, nil
}

// send tries a few times: an event lost is a decision unexplained, but none is worth blocking the
// others for long.
func (s *eventSender) send(ctx context.Context, event *letter) {
	wait := 100 * time.Millisecond
	for try := 1; ; try++ {
		_, err := s.client.Events(event.Namespace).Create(ctx, event.Event, metav1.CreateOptions{})
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
			// The namespace goes, or is gone: nobody could read the event.
			return
		case errors.Is(err, context.Canceled), try == eventTries, apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			eventsLost.Inc()
			s.log.Error(err, "An event was lost", "namespace", event.Namespace, "name", event.Regarding.Name, "reconcileID", event.reconcileID,
				"reason", event.Reason, "note", event.Note)
			return
		}
		select {
		case <-time.After(wait):
			wait *= 4
		case <-ctx.Done():
		}
	}
}

// managerWithBackground sends events and writes records while the manager runs, and once it has
// stopped: its reconcilers, which stop last, have something to report until then.
type managerWithBackground struct {
	ctrl.Manager
	events  *eventSender
	records *Recorder
}

// Start implements manager.Manager.
func (m *managerWithBackground) Start(ctx context.Context) error {
	running, stopped := context.WithCancel(context.WithoutCancel(ctx))
	defer stopped()
	var background sync.WaitGroup
	background.Go(func() { m.events.Run(running) })
	background.Go(func() { m.records.Run(running) })
	if err := m.Manager.Start(ctx); err != nil {
		// Reconcilers may not have stopped: without the lease they must end with the process, at
		// once.
		return err
	}
	stopped()
	background.Wait()
	return nil
}
