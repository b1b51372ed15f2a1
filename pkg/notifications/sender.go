package notifications

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/berth-dev/berth/pkg/outbound"
	"github.com/berth-dev/berth/pkg/scheduler/config"
)

// Bounds of the sender.
const (
	// maxWaiting is how many events wait for one receiver. With more, the oldest is dropped.
	maxWaiting = 1000
	// minPause doubles after each failure, up to maxPause.
	minPause = time.Second
	maxPause = 5 * time.Minute
	// maxAge is for how long an event is sent again.
	maxAge = time.Hour
	// flushTime is how long the remaining events are sent when the sender ends, once each.
	flushTime = 3 * time.Second
	// maxToken is the size of a file with a token, in bytes.
	maxToken = 64 << 10
)

// The results of an event.
const (
	Sent    = "Sent"
	Refused = "Refused"
	Expired = "Expired"
	Dropped = "Dropped"
)

// Options are the settings of a Sender.
type Options struct {
	// Observe is called when an event was sent or is given up, with the result. May be nil.
	Observe func(receiver, result string)
	// Waiting is called when the number of events that wait changes. May be nil.
	Waiting func(receiver string, n int)
	Log     logr.Logger
}

// Sender sends events to the receivers of a configuration.
type Sender struct {
	receivers []*receiver
}

// New returns a Sender; nil if the configuration has no receivers. An error names the receiver.
func New(c *config.PlacementSchedulerConfiguration, o Options) (*Sender, error) {
	if c == nil || len(c.Notifications) == 0 {
		return nil, nil
	}
	s := &Sender{}
	for i := range c.Notifications {
		n := &c.Notifications[i]
		var files outbound.Files
		if n.TLSConfig != nil {
			files = outbound.Files(*n.TLSConfig)
		}
		client, err := outbound.New(files, n.RequestTimeout())
		if err == nil && n.TokenFile != "" {
			_, err = readToken(n.TokenFile)
		}
		if err != nil {
			return nil, fmt.Errorf("notifications[%d] (%s): %w", i, n.Name, err)
		}
		s.receivers = append(s.receivers, &receiver{config: n, client: client, options: &o, wake: make(chan struct{}, 1)})
	}
	return s, nil
}

// Send queues events. It never blocks, and may be called on nil.
func (s *Sender) Send(events []Event) {
	if s == nil {
		return
	}
	for _, r := range s.receivers {
		for i := range events {
			if r.config.Sends(events[i].state) {
				r.add(events[i])
			}
		}
	}
}

// Run sends until ctx ends, and then what is left, for a short time. It may be called on nil.
func (s *Sender) Run(ctx context.Context) {
	if s == nil {
		return
	}
	var all sync.WaitGroup
	for _, r := range s.receivers {
		all.Go(func() { r.run(ctx) })
	}
	all.Wait()
}

// receiver is one receiver with the events that wait for it, in their order.
type receiver struct {
	config  *config.Notification
	client  client
	options *Options
	wake    chan struct{}

	mu      sync.Mutex
	waiting []queued
	failing bool
}

// client sends a request and reads the answer.
type client interface {
	Do(r *http.Request, maxSize int64) (*http.Response, []byte, error)
}

type queued struct {
	Event
	since time.Time
}

func (r *receiver) add(e Event) {
	e.Source = strings.TrimRight(r.config.Source, "/") + e.Source
	r.mu.Lock()
	r.waiting = append(r.waiting, queued{e, time.Now()})
	dropped := len(r.waiting) > maxWaiting
	if dropped {
		r.waiting = r.waiting[1:]
	}
	r.observeWaiting()
	r.mu.Unlock()
	if dropped {
		r.observe(Dropped)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *receiver) observe(result string) {
	if r.options.Observe != nil {
		r.options.Observe(r.config.Name, result)
	}
}

// observeWaiting is called with mu locked.
func (r *receiver) observeWaiting() {
	if r.options.Waiting != nil {
		r.options.Waiting(r.config.Name, len(r.waiting))
	}
}

// first returns the event that has waited longest.
func (r *receiver) first() (queued, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return queued{}, false
	}
	return r.waiting[0], true
}

// done removes an event, unless it was dropped meanwhile.
func (r *receiver) done(e queued, result string) {
	r.mu.Lock()
	if len(r.waiting) > 0 && r.waiting[0].ID == e.ID {
		r.waiting = r.waiting[1:]
	}
	r.observeWaiting()
	r.mu.Unlock()
	r.observe(result)
}

func (r *receiver) run(ctx context.Context) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		e, ok := r.first()
		if !ok {
			select {
			case <-r.wake:
			case <-ctx.Done():
			}
			continue
		}
		if time.Since(e.since) > maxAge {
			r.done(e, Expired)
			continue
		}
		after, err := r.send(ctx, e)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			pause = 0
			r.log(nil)
			r.done(e, Sent)
		case errors.Is(err, errRefused):
			pause = 0
			r.log(err)
			r.done(e, Refused)
		default:
			r.log(err)
			pause = min(max(2*pause, minPause), maxPause)
			wait(ctx, max(after, pause/2+rand.N(pause/2)))
		}
	}
	r.flush(ctx)
}

// wait waits until ctx ends, at most for d.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// flush sends the remaining events once each.
func (r *receiver) flush(ended context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), flushTime)
	defer cancel()
	for ctx.Err() == nil {
		e, ok := r.first()
		if !ok {
			return
		}
		switch _, err := r.send(ctx, e); {
		case err == nil:
			r.done(e, Sent)
		case errors.Is(err, errRefused):
			r.done(e, Refused)
		default:
			r.done(e, Dropped)
		}
	}
	for {
		e, ok := r.first()
		if !ok {
			return
		}
		r.done(e, Dropped)
	}
}

// log logs when the receiver begins to fail, and when it accepts events again.
func (r *receiver) log(err error) {
	failing := err != nil
	if failing == r.failing {
		return
	}
	r.failing = failing
	log := r.options.Log.WithValues("receiver", r.config.Name)
	if failing {
		log.Info("Notifications cannot be sent", "reason", err.Error())
	} else {
		log.Info("Notifications are sent again")
	}
}

// errRefused is the error of an event that the receiver will not accept later either.
var errRefused = errors.New("it refuses the event")

// send sends one event. after is how long the receiver asks to wait.
func (r *receiver) send(ctx context.Context, e queued) (after time.Duration, err error) {
	body, err := json.Marshal(e.Event)
	if err != nil {
		return 0, errRefused
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.config.URL, bytes.NewReader(body))
	if err != nil {
		return 0, errRefused
	}
	request.Header.Set("Content-Type", "application/cloudevents+json; charset=UTF-8")
	if r.config.TokenFile != "" {
		token, err := readToken(r.config.TokenFile)
		if err != nil {
			return 0, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, _, err := r.client.Do(request, 0)
	if errors.Is(err, outbound.ErrRedirect) {
		return 0, fmt.Errorf("%w: %w", errRefused, err)
	}
	if err != nil {
		return 0, err
	}
	switch status := response.StatusCode; {
	case status >= 200 && status < 300:
		return 0, nil
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500:
		return retryAfter(response.Header.Get("Retry-After")), fmt.Errorf("it answered with status %d", status)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		// A new token may be on its way.
		return 0, fmt.Errorf("it answered with status %d", status)
	default:
		return 0, fmt.Errorf("%w with status %d", errRefused, status)
	}
}

// retryAfter reads a number of seconds or a date, up to maxAge.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxAge/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), maxAge)
	}
	return 0
}

// readToken reads a file with a token.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil || len(text) > maxToken {
		return "", errors.New("tokenFile cannot be read")
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c < 33 || c > 126 }) {
		return "", errors.New("tokenFile has no token")
	}
	return token, nil
}
