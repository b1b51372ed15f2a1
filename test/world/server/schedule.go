package server

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// Schedule decides the order in which a simulated world goes on. Requests that reach the server,
// responses that reach their clients and events of watches are turns. One turn happens at a time,
// when all goroutines of the bubble wait for something, so a seed decides the order whatever the
// order in which the goroutines ran.
type Schedule struct {
	// Faults says what happens to a request; nil for nothing special. It is called once for each
	// request, in the order of the schedule.
	Faults func(client string, r *http.Request) Fault
	// Seed is called with a random number before a client gets something; nil for nothing.
	Seed func(random int64)
	// AtRest is called before each turn, when no goroutine of the bubble runs; nil for nothing.
	AtRest func()
	// Log is called after each turn; nil for no log. The line is made only if it is used.
	Log func(line func() string)

	// slow is a latency that is added to each request; 0 for none.
	slow time.Duration

	// frozen has, by client, until when nothing reaches it or leaves it; toFreeze those that freeze
	// at their next write.
	frozen   map[string]time.Time
	toFreeze map[string]freeze

	random  *rand.Rand
	mu      sync.Mutex
	pending []*turn
	arrived chan struct{}
	ended   chan struct{}
}

// Fault is what happens to a request.
type Fault struct {
	// LostBefore and LostAfter fail a request before, or after, the server did it.
	LostBefore, LostAfter bool
	// Delay is the time until the response is back.
	Delay time.Duration
	// Late fails a request at once; the server does it after that time.
	Late time.Duration
}

// freeze is a future freeze of a client.
type freeze struct {
	lasts  time.Duration
	begins func()
}

// turn is something that can happen at a time.
type turn struct {
	// label says what happens, without anything random.
	label  string
	client string
	// write is true for a request that writes; late if its client was frozen after it.
	write, late bool
	// at is zero until the schedule gave the turn a time.
	at time.Time
	// after must happen before.
	after *turn
	done  bool
	run   func() (outcome string)
	delay time.Duration
}

// NewSchedule returns a schedule that a seed decides.
func NewSchedule(seed uint64) *Schedule {
	return &Schedule{random: rand.New(rand.NewPCG(seed, seed)), frozen: map[string]time.Time{}, toFreeze: map[string]freeze{}, arrived: make(chan struct{}, 1), ended: make(chan struct{})}
}

// ErrLost is the error of a lost request or response.
var ErrLost = errors.New("connection reset by the world")

// add adds a turn.
func (s *Schedule) add(t *turn) {
	s.mu.Lock()
	s.pending = append(s.pending, t)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// settle is how long the schedule waits until nothing else can run.
const settle = time.Microsecond

// Run makes turns until the context ends; requests are lost then. The caller runs it in a goroutine
// of the bubble, in which nothing else calls synctest.Wait.
func (s *Schedule) Run(ctx context.Context) {
	defer close(s.ended)
	for {
		time.Sleep(settle)
		synctest.Wait() // Timers of others may end at this instant, too.
		if s.AtRest != nil {
			s.AtRest()
		}
		next, wait := s.next()
		if next != nil {
			outcome := next.run()
			s.mu.Lock()
			next.done = true
			s.mu.Unlock()
			if s.Log != nil {
				s.Log(func() string { return time.Now().UTC().Format("15:04:05.000000 ") + next.label + outcome })
			}
		} else if !s.wait(ctx, wait) {
			return
		}
	}
}

func (s *Schedule) seed() {
	if s.Seed != nil {
		s.Seed(s.random.Int64())
	}
}

// wait returns after a time, or when a turn arrives; false if the context ended.
func (s *Schedule) wait(ctx context.Context, wait time.Duration) bool {
	var timer <-chan time.Time
	if wait > 0 {
		timer = time.After(wait)
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.arrived:
	case <-timer:
	}
	return true
}

// next removes and returns the next turn that is due; without one, the time until the first is.
func (s *Schedule) next() (next *turn, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.arrived:
	default:
	}
	now := time.Now()
	slices.SortStableFunc(s.pending, func(a, b *turn) int { return strings.Compare(a.label, b.label) })
	var due []int
	for i, t := range s.pending {
		if t.at.IsZero() {
			t.at = now.Add(t.delay + time.Duration(s.random.Int64N(int64(maxDelay))))
		}
		if until := s.frozen[t.client]; t.at.Before(until) {
			t.at = until.Add(time.Duration(s.random.Int64N(int64(maxDelay))))
		}
		if t.after != nil && t.after.done {
			t.after = nil
		}
		switch left := t.at.Sub(now); {
		case t.after != nil:
		case left <= 0:
			due = append(due, i)
		case wait == 0 || left < wait:
			wait = left
		}
	}
	if len(due) == 0 {
		return nil, wait
	}
	i := due[s.random.IntN(len(due))]
	next = s.pending[i]
	if s.freeze(next) {
		return nil, settle
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	return next, 0
}

// Slow returns the latency that is added to each request.
func (s *Schedule) Slow() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow
}

// SetSlow sets a latency that is added to each request.
func (s *Schedule) SetSlow(slow time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = slow
}

// FreezeAtWrite freezes a client for a time when it has sent its next write, other than of its
// lease or an event. It calls begins then. Requests that were sent before reach the server when the
// client wakes, also if it does not wait for the answers any more.
func (s *Schedule) FreezeAtWrite(client string, lasts time.Duration, begins func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toFreeze[client] = freeze{lasts, begins}
}

// Thaw ends all freezes, and those to come.
func (s *Schedule) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.pending {
		if until := s.frozen[t.client]; !t.at.Before(until) && !until.IsZero() {
			t.at = time.Now()
		}
	}
	clear(s.frozen)
	clear(s.toFreeze)
}

// freeze freezes the client of a turn, if it is to be frozen then. The lock is held.
func (s *Schedule) freeze(at *turn) bool {
	f, ok := s.toFreeze[at.client]
	if !ok || !at.write {
		return false
	}
	delete(s.toFreeze, at.client)
	s.frozen[at.client] = time.Now().Add(f.lasts)
	for _, t := range s.pending {
		t.late = t.late || t.client == at.client
	}
	f.begins()
	return true
}

func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/events")
}

// maxDelay is the longest delay of a turn without a fault.
const maxDelay = 20 * time.Millisecond

// Transport returns the connection of one client to the server.
func (s *Schedule) Transport(of *Server, client string) *Transport {
	return &Transport{server: of, schedule: s, client: client}
}

// Transport is the connection of one client to a server. It implements http.RoundTripper.
type Transport struct {
	server   *Server
	schedule *Schedule
	client   string
	mu       sync.Mutex
	cut      bool
}

// Cut ends the connection forever, as a crash of the client does.
func (t *Transport) Cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut = true
}

func (t *Transport) isCut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cut
}

// pathOf returns the path and the query of a request, without what is random or always the same.
func pathOf(r *http.Request) string {
	query := r.URL.Query()
	for _, name := range []string{"timeout", "timeoutSeconds", "allowWatchBookmarks", "resourceVersionMatch"} {
		query.Del(name)
	}
	return strings.TrimSuffix(r.URL.Path+"?"+query.Encode(), "?")
}

// answer is the result of a request.
type answer struct {
	response *http.Response
	err      error
}

func isDiscovery(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return parts[0] == "api" && len(parts) < 3 || parts[0] == "apis" && len(parts) < 4
}

// label says what a request is.
func (t *Transport) label(r *http.Request, body []byte) string {
	label := t.client + " " + r.Method + " " + pathOf(r)
	if len(body) > 0 && !strings.Contains(r.URL.Path, "/leases") && !strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/berth/events") {
		// The others have names of the process.
		h := fnv.New32a()
		_, _ = h.Write(body)
		label += fmt.Sprintf(" #%08x", h.Sum32())
	}
	return label
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if t.isCut() {
		return nil, ErrLost
	}
	if isDiscovery(r.URL.Path) {
		// Clients hold a mutex meanwhile, for which others wait. A bubble's time stands still then.
		return t.server.serve(t, r, body)
	}
	label := t.label(r, body)
	answers := make(chan answer, 1)
	var fault Fault
	request := &turn{label: label, client: t.client, write: isWrite(r), delay: t.schedule.Slow()}
	request.run = func() string {
		fault = t.schedule.faultOf(t.client, r)
		switch {
		case t.isCut() || fault.LostBefore || r.Context().Err() != nil && !request.late:
			t.schedule.seed()
			answers <- answer{nil, ErrLost}
			return " lost"
		case fault.Late > 0:
			t.deliverLate(r, body, label, fault.Late)
			t.schedule.seed()
			answers <- answer{nil, ErrLost}
			return " lost, late"
		}
		got := answer{}
		got.response, got.err = t.server.serve(t, withLate(r, request.late), body)
		outcome := ""
		if got.response != nil {
			outcome = fmt.Sprintf(" %d @%d", got.response.StatusCode, t.server.Revision())
		}
		response := &turn{label: label + " response", client: t.client, delay: fault.Delay, run: func() string {
			if fault.LostAfter || t.isCut() {
				got = answer{nil, ErrLost}
			}
			t.schedule.seed()
			answers <- got
			return ""
		}}
		t.schedule.add(response)
		return outcome
	}
	t.schedule.add(request)
	select {
	case a := <-answers:
		return a.response, a.err
	case <-t.schedule.ended:
		return nil, ErrLost
	case <-r.Context().Done():
		time.Sleep(settle) // Other contexts that end in this instant end before the caller goes on.
		return nil, r.Context().Err()
	}
}

// faultOf returns what happens to a request.
func (s *Schedule) faultOf(client string, r *http.Request) Fault {
	if s.Faults == nil {
		return Fault{}
	}
	return s.Faults(client, r)
}

// lateKey is true in the context of a request whose client does not wait for the answer any more.
type lateKey struct{}

func withLate(r *http.Request, late bool) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), lateKey{}, late))
}

// deliverLate schedules a request whose client does not wait for the answer any more.
func (t *Transport) deliverLate(r *http.Request, body []byte, label string, after time.Duration) {
	t.schedule.add(&turn{label: label + " late", delay: after, run: func() string {
		t.schedule.seed()
		response, err := t.server.serve(t, withLate(r.WithContext(context.Background()), true), body)
		if err != nil {
			return " refused"
		}
		return fmt.Sprintf(" %d @%d", response.StatusCode, t.server.Revision())
	}})
}

// end schedules the end of a watch. Events that arrive after it are lost.
func (t *Transport) end(w *watch) {
	t.schedule.add(&turn{label: fmt.Sprintf("%s watch %s ends", t.client, pathOf(w.request.http)), client: t.client, run: func() string {
		t.schedule.seed()
		_ = w.out.Close()
		return ""
	}})
}

// deliver schedules an event of a watch, after the one before it.
func (t *Transport) deliver(w *watch, what string, text []byte) *turn {
	event := &turn{label: fmt.Sprintf("%s watch %s %s", t.client, pathOf(w.request.http), what), client: t.client, after: w.last}
	event.run = func() string {
		if !t.isCut() {
			t.schedule.seed()
			w.out.write(text)
		}
		return ""
	}
	t.schedule.add(event)
	return event
}
