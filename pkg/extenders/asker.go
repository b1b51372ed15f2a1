package extenders

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// workers is how many requests to one extender may run at once.
const workers = 4

// Options are the settings of an Asker.
type Options struct {
	// Store stores an answer about a Placement.
	Store func(q *framework.ExtenderQuestion, answer *framework.ExtenderAnswer)
	// Now is the clock of answers.
	Now func() time.Time
	// Observe is called after each question that was sent, with its failure, and whether requests
	// are paused now. May be nil.
	Observe func(extender framework.ExtenderKey, took time.Duration, failure error, paused bool)
	Log     logr.Logger
}

// Asker asks the extenders of all profiles. A slow extender delays only its own questions.
type Asker struct {
	options Options
	servers map[framework.ExtenderKey]*server
}

// New returns an Asker for the extenders of a configuration; nil if there are none. An error names
// the extender.
func New(c *config.PlacementSchedulerConfiguration, o Options) (*Asker, error) {
	a := &Asker{options: o, servers: map[framework.ExtenderKey]*server{}}
	if c == nil {
		return nil, nil
	}
	for i := range c.Profiles {
		for j := range c.Profiles[i].Extenders {
			e := &c.Profiles[i].Extenders[j]
			key := framework.ExtenderKey{Profile: c.Profiles[i].Name, Name: e.Name}
			client, err := newClient(e)
			if err != nil {
				return nil, fmt.Errorf("profiles[%d].extenders[%d] (%s): %w", i, j, e.Name, err)
			}
			a.servers[key] = &server{
				key: key, config: e, client: client, options: &a.options, breaker: breaker{now: o.Now},
				waiting: map[subject]*framework.ExtenderQuestion{}, asking: map[subject]*framework.ExtenderQuestion{},
				wake: make(chan struct{}, workers),
			}
		}
	}
	if len(a.servers) == 0 {
		return nil, nil
	}
	return a, nil
}

// Ask asks a question in the background. It never blocks, and may be called on nil.
func (a *Asker) Ask(q *framework.ExtenderQuestion) {
	if a == nil {
		return
	}
	if s := a.servers[q.Extender]; s != nil {
		s.add(q)
	}
}

// Start asks until ctx ends.
func (a *Asker) Start(ctx context.Context) error {
	var all sync.WaitGroup
	for _, s := range a.servers {
		for range workers {
			all.Go(func() { s.run(ctx) })
		}
	}
	all.Wait()
	return nil
}

// subject is the Placement of a question. One that is created again has another UID.
type subject struct {
	types.NamespacedName
	uid types.UID
}

// server is one extender with the questions for it.
type server struct {
	key     framework.ExtenderKey
	config  *config.Extender
	client  poster
	options *Options
	breaker breaker
	wake    chan struct{}

	mu sync.Mutex
	// waiting has one question for each Placement, order their order. asking are being asked.
	waiting map[subject]*framework.ExtenderQuestion
	order   []subject
	asking  map[subject]*framework.ExtenderQuestion
}

// poster sends one request.
type poster interface {
	post(ctx context.Context, verb string, request *Request) (*Answer, error)
}

// add queues a question. A question that was made before the last answer was stored is dropped: the
// answer triggers another attempt.
func (s *server) add(q *framework.ExtenderQuestion) {
	key := subject{q.Key(), q.Placement.UID}
	s.mu.Lock()
	defer s.mu.Unlock()
	if asking := s.asking[key]; asking != nil && asking.Before == q.Before {
		return
	}
	if s.waiting[key] == nil {
		s.order = append(s.order, key)
	}
	s.waiting[key] = q
	s.wakeOne()
}

func (s *server) wakeOne() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *server) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for ctx.Err() == nil {
			q := s.next()
			if q == nil {
				break
			}
			s.answer(ctx, q)
		}
	}
}

// next takes the first question about a Placement for which no request runs.
func (s *server) next() *framework.ExtenderQuestion {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range s.order {
		if s.asking[key] != nil {
			continue
		}
		q := s.waiting[key]
		delete(s.waiting, key)
		s.order = append(s.order[:i], s.order[i+1:]...)
		s.asking[key] = q
		if len(s.order) > 0 {
			s.wakeOne()
		}
		return q
	}
	return nil
}

// answer asks one question and stores the answer or the failure.
func (s *server) answer(ctx context.Context, q *framework.ExtenderQuestion) {
	var result *framework.ExtenderAnswer
	began, clock := s.options.Now(), time.Now()
	retryAt, why := s.breaker.begin()
	if why == nil {
		result, why = s.ask(ctx, q)
		if ctx.Err() != nil {
			return
		}
		var changed bool
		if retryAt, changed = s.breaker.end(why); changed {
			s.log(why)
		}
		if s.options.Observe != nil {
			s.options.Observe(s.key, time.Since(clock), why, s.breaker.paused())
		}
	}
	if why != nil {
		result = failed(q, began, spread(retryAt, q), why)
	}
	s.options.Store(q, result)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, subject{q.Key(), q.Placement.UID})
	s.wakeOne()
}

func (s *server) log(why error) {
	log := s.options.Log.WithValues("profile", s.key.Profile, "extender", s.key.Name)
	if why != nil {
		log.Info("The extender does not answer", "reason", why.Error())
		return
	}
	log.Info("The extender answers again")
}

// failed returns the answer before with a failure.
func failed(q *framework.ExtenderQuestion, began, retryAt time.Time, why error) *framework.ExtenderAnswer {
	result := &framework.ExtenderAnswer{}
	failure := &framework.ExtenderFailure{Generation: q.Placement.Generation, Message: why.Error(), Since: began, RetryAt: retryAt}
	if q.Before != nil {
		*result = *q.Before
		if before := q.Before.Failure; before != nil {
			failure.Since = before.Since
		}
	}
	result.Failure = failure
	return result
}

// spread adds up to a quarter of a minute to a time, the same for each question about a Placement,
// so that not all Placements are decided at once.
func spread(t time.Time, q *framework.ExtenderQuestion) time.Time {
	var sum uint32 = 2166136261
	for _, b := range []byte(q.Placement.UID) {
		sum = (sum ^ uint32(b)) * 16777619
	}
	return t.Add(time.Duration(sum%15000) * time.Millisecond)
}
