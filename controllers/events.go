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
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// reporter is the reportingController of all events. Open Cluster Management uses the same name,
// and consumers look for it.
const reporter = "placementController"

// Limits of the sender.
const (
	eventWorkers   = 4
	eventTries     = 5
	eventFlushTime = 5 * time.Second
	// maxEventDelay is how long an event waits for decisions at most. It is longer than a usual
	// burst of decisions.
	maxEventDelay = 5 * time.Second
	// maxEventsWaiting bounds the memory for events that the hub does not accept yet. Beyond it the
	// oldest are lost.
	maxEventsWaiting = 100_000
)

// eventSender sends each event separately, in the background. client-go's recorder merges events
// that differ only in their note, and drops events beyond its queue of 1,000. It would lose scores
// when many Placements are decided at once.
type eventSender struct {
	client   eventsclient.EventsV1Interface
	log      logr.Logger
	instance string

	mu      sync.Mutex
	waiting []*queuedEvent
	last    time.Time

	// gate makes events yield to decisions, but no longer than maxEventDelay. So they are sent also
	// while decisions never pause.
	gate
}

// newEventsClient returns a client that sends protobuf, which costs both sides less than JSON.
func newEventsClient(cfg *rest.Config) (eventsclient.EventsV1Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return eventsclient.NewForConfig(cfg)
}

// queuedEvent is a queued event. reconcileID names its reconciliation, if any. since has a
// monotonic reading, so that setting the clock does not affect it.
type queuedEvent struct {
	*eventsv1.Event
	reconcileID types.UID
	since       time.Time
}

func newEventSender(client eventsclient.EventsV1Interface, log logr.Logger) *eventSender {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &eventSender{client: client, log: log, instance: reporter + "-" + host, gate: newGate(0)}
}

// Send queues events about a Placement. Their times, and so their names, keep their order.
func (s *eventSender) Send(ctx context.Context, pl *v1alpha1.Placement, events []report.Event) {
	s.queue(controller.ReconcileIDFromContext(ctx), corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersionV1Beta1.String(), Kind: "Placement",
		Namespace: pl.Namespace, Name: pl.Name, UID: pl.UID, ResourceVersion: pl.ResourceVersion,
	}, events...)
}

// SendAbout queues an event about a ConfigMap.
func (s *eventSender) SendAbout(config *corev1.ConfigMap, event report.Event) {
	s.queue("", corev1.ObjectReference{
		APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap",
		Namespace: config.Namespace, Name: config.Name, UID: config.UID, ResourceVersion: config.ResourceVersion,
	}, event)
}

func (s *eventSender) queue(reconcileID types.UID, regarding corev1.ObjectReference, events ...report.Event) {
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
		s.waiting = append(s.waiting, &queuedEvent{s.event(regarding, e, now), reconcileID, since})
	}
	if over := len(s.waiting) - maxEventsWaiting; over > 0 {
		s.waiting = s.waiting[over:]
		eventsLost.Add(float64(over))
	}
	s.mu.Unlock()
	s.signal()
}

// Limits of the API server for parts of an event, in bytes. report.CutNote limits the note.
const (
	maxEventName   = 253
	maxEventReason = 128
)

// event builds the API object of an event and cuts its parts to the limits.
func (s *eventSender) event(regarding corev1.ObjectReference, e report.Event, now time.Time) *eventsv1.Event {
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(regarding.Name, now), Namespace: regarding.Namespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reporter,
		ReportingInstance:   cut(s.instance, maxEventReason),
		Type:                e.Type,
		Reason:              cut(e.Reason, maxEventReason),
		Action:              cut(e.Action, maxEventReason),
		Note:                report.CutNote(e.Note),
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

// eventName is unique, because no two events of a sender have the same time.
func eventName(regarding string, now time.Time) string {
	suffix := fmt.Sprintf(".%x", now.UnixNano())
	return strings.TrimRight(cut(regarding, maxEventName-len(suffix)), "-.") + suffix
}

// cut shortens a text to at most limit bytes, and never splits a character.
func cut(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Run sends events. When ctx ends, it sends the waiting ones at once, for at most eventFlushTime.
func (s *eventSender) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(eventFlushTime, cancel) })()
	due := make(chan *queuedEvent)
	var workers sync.WaitGroup
	for range eventWorkers {
		workers.Go(func() {
			for event := range due {
				s.send(sending, event)
			}
		})
	}
	for event := s.next(ctx); event != nil; event = s.next(ctx) {
		due <- event
	}
	close(due)
	workers.Wait()
}

// next waits until the oldest event may be sent, and returns it. It returns nil once ctx has ended
// and no event waits.
func (s *eventSender) next(ctx context.Context) *queuedEvent {
	for {
		ended := ctx.Err() != nil
		event, delayEnds := s.pop(ended)
		if event != nil || ended {
			return event
		}
		select {
		case <-s.changed:
		case <-delayEnds:
		case <-ctx.Done():
		}
	}
}

// pop removes and returns the oldest event if it may be sent now. Otherwise the channel fires when
// its delay ends; it is nil if no event waits.
func (s *eventSender) pop(ended bool) (*queuedEvent, <-chan time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return nil, nil
	}
	oldest := s.waiting[0]
	if delay := maxEventDelay - time.Since(oldest.since); delay > 0 && s.wait() > 0 && !ended {
		return nil, time.After(delay)
	}
	// The slice must not keep the sent event in memory.
	s.waiting[0] = nil
	s.waiting = s.waiting[1:]
	return oldest, nil
}

// send tries up to eventTries times. A lost event leaves a decision unexplained, but no event may
// block the others for long.
func (s *eventSender) send(ctx context.Context, event *queuedEvent) {
	wait := 100 * time.Millisecond
	for try := 1; ; try++ {
		_, err := s.client.Events(event.Namespace).Create(ctx, event.Event, metav1.CreateOptions{})
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
			// The namespace is terminating or gone, so the event would have no reader.
			return
		case errors.Is(err, context.Canceled), try == eventTries, apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			eventsLost.Inc()
			s.log.Error(err, "An event could not be sent and is lost", "namespace", event.Namespace, "name", event.Regarding.Name, "reconcileID", event.reconcileID,
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

// managerWithBackground sends events, writes records and the recording while the
// manager runs and after it stops. Reconcilers stop last and report until then.
type managerWithBackground struct {
	ctrl.Manager
	events    *eventSender
	records   *Recorder
	recording *recording.Recorder
}

// Start implements manager.Manager.
func (m *managerWithBackground) Start(ctx context.Context) error {
	running, stopped := context.WithCancel(context.WithoutCancel(ctx))
	defer stopped()
	var background sync.WaitGroup
	background.Go(func() { m.events.Run(running) })
	background.Go(func() { m.records.Run(running) })
	background.Go(func() { m.recording.Run(running) })
	if err := m.Manager.Start(ctx); err != nil {
		// Loops may still run. Without the lease they must end at once, with the process.
		return err
	}
	stopped()
	background.Wait()
	return nil
}
