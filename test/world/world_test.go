//go:debug randseednop=0

package world

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/testhub"
	"github.com/berth-dev/berth/test/world/server"
)

// world is a hub with two replicas of the controller, and the people who use it.
type world struct {
	server   *server.Server
	schedule *server.Schedule
	// hub is the connection of people. It has no faults.
	hub      client.Client
	replicas map[string]*replica
	running  sync.WaitGroup
	// losses is the share of requests of replicas that are lost until lossesEnd, in percent.
	losses    int
	lossesEnd time.Time
	laws      *laws
	// queues is true in a world with queues.
	queues bool
	// limited is true in a world with a limit on removals.
	limited bool
	config  *config.PlacementSchedulerConfiguration
	// diskFull is true while the disk of the recordings is.
	diskFull bool
	// off is by how much the clocks of replicas are wrong.
	clocks sync.Mutex
	off    map[string]time.Duration
	// reads is how often they were read in the minute that began at readAt.
	reads  int
	readAt time.Time
	seed   uint64
	// frozen is until when each replica was frozen last.
	frozen map[string]time.Time
	// ended is the last time at which a replica ended, or may have.
	ended time.Time
	// attempts is their number, and at when it was read last.
	attempts float64
	at       time.Time
	// rivalsEnd is until when another client writes pages while replicas do, with direct.
	rivalsEnd time.Time
	direct    client.Client
	// refusedUntil is until when the server refuses records, latePagesEnd until when many writes of
	// pages are late.
	refusedUntil, latePagesEnd time.Time
	// rested is true if nothing happened at rest.
	rested bool
	story  []string
	faults map[string]int
}

// say adds a line to the story.
func (w *world) say(format string, args ...any) {
	w.story = append(w.story, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, corev1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

func newWorld(seed uint64) *world {
	s, err := server.New()
	if err != nil {
		panic(err)
	}
	w := &world{seed: seed, server: s, schedule: server.NewSchedule(seed), replicas: map[string]*replica{}, frozen: map[string]time.Time{}, faults: map[string]int{}, off: map[string]time.Duration{}, queues: seed/2%2 == 0}
	w.limited = seed%5 == 0 || hasSituations(seed) && seed%8 == 7
	w.config = configOf(w.limited, hasSituations(seed))
	w.laws = newLaws(w)
	s.OnWrite = w.laws.onWrite
	w.hub, err = client.New(&rest.Config{Host: host, Transport: w.schedule.Transport(s, "person"), QPS: -1}, client.Options{Scheme: scheme()})
	if err != nil {
		panic(err)
	}
	if w.direct, err = client.New(s.Config(), client.Options{Scheme: scheme()}); err != nil {
		panic(err)
	}
	random := randv2.New(randv2.NewPCG(seed, 1))
	w.schedule.Faults = func(of string, r *http.Request) (f server.Fault) {
		w.rival(of, r, random)
		defer func() { w.laws.onRequest(of, r, f) }()
		if of != "person" && r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/placementchanges") && time.Now().Before(w.refusedUntil) {
			return server.Fault{LostBefore: true}
		}
		if of != "person" && r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/placementdecisions") && time.Now().Before(w.latePagesEnd) && random.IntN(3) > 0 {
			w.faults["request late"]++
			return server.Fault{Late: time.Duration(1 + random.Int64N(int64(longestLate)))}
		}
		if of == "person" || strings.Contains(r.URL.Path, "/configmaps") || time.Now().After(w.lossesEnd) || random.IntN(100) >= w.losses {
			return f
		}
		switch random.IntN(4) {
		case 0:
			f.LostBefore = true
			w.faults["request lost"]++
		case 1:
			f.LostAfter = true
			w.faults["response lost"]++
		case 2:
			f.Delay = time.Duration(random.Int64N(int64(20 * time.Second)))
			w.faults["response late"]++
		case 3:
			if r.Method == http.MethodGet {
				f.LostBefore = true
				break
			}
			f.Late = time.Duration(1 + random.Int64N(int64(longestLate)))
			w.faults["request late"]++
		}
		return f
	}
	return w
}

// longestLate is how long after it was given up a request reaches the server at most.
const longestLate = 20 * time.Second

const host = "http://world.invalid"

// lease makes renewals rare: they would be most of what happens. No time is a multiple of another,
// because timers of the same instant fire in any order.
func lease() controllers.LeaseTimes {
	times := controllers.LeaseTimes{Duration: time.Minute, RenewDeadline: 23 * time.Second, RetryPeriod: 7 * time.Second}
	if *calm > 1 {
		times.RetryPeriod = 13 * time.Second
	}
	return times
}

// replica is a process of the controller, which is started again when it ends.
type replica struct {
	cancel    context.CancelFunc
	transport *server.Transport
	crash     bool
	queues    types.NamespacedName
	now       func() time.Time
	config    *config.PlacementSchedulerConfiguration
	// number is that of the replica.
	number int64
}

// started closes ready when the caches of a manager have started, with those that queues read. It
// implements manager.Runnable.
type started struct {
	cache  cache.Cache
	ready  chan struct{}
	queues bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (started) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s started) Start(ctx context.Context) error {
	if s.queues {
		// A cache of one namespace has goroutines that never end if it ends before it is complete.
		for _, kind := range []client.Object{&v1alpha1.PlacementDecision{}, &corev1.ConfigMap{}} {
			if _, err := s.cache.GetInformer(ctx, kind); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond) // The handler of the queues is added.
	}
	close(s.ready)
	return nil
}

// start starts a replica, which runs until restart.
func (w *world) start(ctx context.Context, name string) {
	ctx, cancel := context.WithCancel(ctx)
	r := &replica{cancel: cancel, transport: w.schedule.Transport(w.server, name), now: w.clock(name), config: w.config}
	if name == "two" {
		r.number = 1
	}
	if w.queues {
		r.queues = client.ObjectKeyFromObject(queueConfig(0, 0, 0))
	}
	w.replicas[name] = r
	w.running.Go(func() {
		for ctx.Err() == nil {
			r.run(ctx)
			w.end(time.Now()) // Also one that lost its lease.
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	})
}

// run runs one process. It ends only after its caches have started: until then, a manager whose
// context has ended spins in controller-runtime, and a bubble's time stands still.
func (r *replica) run(ctx context.Context) {
	process, end := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-ready:
			time.Sleep(time.Millisecond) // What does not wait for anything starts.
		case <-ended:
		}
		select {
		case <-ctx.Done():
			if r.crash {
				r.transport.Cut()
			}
		case <-ended:
		}
		end()
	}()
	defer close(ended)
	mgr, err := controllers.NewManager(process, &rest.Config{Host: host, Transport: r.transport, QPS: -1}, controllers.Options{
		MetricsAddress: "0", HealthAddress: "0", PprofAddress: "0", Housekeeping: []string{"*"}, Log: logr.Discard(),
		LeaderElection: true, LeaderElectionNamespace: "berth", Lease: lease(), Workers: 64, LoopWorkers: 64, QueueConfig: r.queues, Now: r.now, Config: r.config, Plugins: gates,
		Informers: (&turnsOfHandlers{first: r.number}).informer,
		Recording: recording.Options{Dir: recordingDir},
	})
	if err == nil && mgr.Add(started{mgr.GetCache(), ready, r.queues.Name != ""}) == nil {
		_ = mgr.Start(process)
	}
}

// end records that a replica ends, or may.
func (w *world) end(at time.Time) {
	if at.After(w.ended) {
		w.ended = at
	}
}

// restart ends a replica, after a crash without a last request, and starts another one.
func (w *world) restart(ctx context.Context, name string, crash bool) {
	r := w.replicas[name]
	w.end(time.Now())
	r.crash = crash
	maps.DeleteFunc(w.laws.givenUp, func(of pageOf, _ time.Time) bool { return of.replica == name })
	r.cancel()
	time.Sleep(time.Millisecond) // What ends draws no random numbers in between.
	w.start(ctx, name)
}

// history is what happened in a world.
type history struct {
	story, broken []string
	faults        map[string]int
	turns         int
	writes        int64
	attempts      int
	rested        bool
	lasted        time.Duration
	verified      *replay.Verification
	// recorded is what the recording has, if there is a trace.
	recorded []string
}

// recordingDir is the folder to which all replicas record. Its name is in recordings, whose size
// decides when a disk is full.
const recordingDir = "recording"

// run runs the steps of a script in a world, and then waits for rest.
func run(t *testing.T, seed uint64, script []step) (h history) {
	defer func() { _ = os.RemoveAll(recordingDir) }()
	gomega.RegisterTestingT(t)
	attempts, decides := int(testhub.Metric(testhub.AttemptsMetric)), false
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		always, stop := context.WithCancel(context.WithoutCancel(ctx))
		began, w := time.Now(), newWorld(seed)
		w.schedule.AtRest = collectBetweenTurns()
		utilrand.Seed(int64(seed)) // Names in a recording take bytes of a disk that is full soon.
		// Clients draw from one source for the process, in any order.
		w.schedule.Seed = rand.Seed //nolint:staticcheck // Clients use it for jitter.
		w.schedule.Log = func(line func() string) {
			h.turns++
			if trace != nil {
				trace(line())
			}
		}
		go w.schedule.Run(always)
		w.createFleet(ctx)
		w.start(ctx, "one")
		time.Sleep(time.Millisecond) // Timers of the same instant fire in any order.
		w.start(ctx, "two")
		for _, s := range script {
			time.Sleep(s.after * time.Duration(*calm))
			if w.overruns() {
				break
			}
			s.run(ctx, w)
		}
		w.rest(ctx)
		decides = w.rested && len(w.decided(ctx)) > 0
		cancel()
		w.running.Wait()
		time.Sleep(time.Minute) // What the replicas have begun ends.
		stop()
		time.Sleep(time.Minute)
		h.story, h.broken, h.faults, h.writes, h.rested, h.lasted = w.story, w.laws.broken, w.faults, w.server.Revision(), w.rested, time.Since(began)
	})
	if trace != nil {
		h.recorded = entriesOf(t, recordingDir)
	}
	verified, broken := verifyRecording(t.Context(), recordingDir)
	h.broken = append(h.broken, broken...)
	h.attempts = int(testhub.Metric(testhub.AttemptsMetric)) - attempts
	// A world that does not rest, or decides nothing then, may decide only while the disk is full.
	if h.verified = verified; verified != nil && verified.Same == 0 && (decides || h.faults["full disk"] == 0) {
		h.broken = append(h.broken, "BROKEN no decision of the recording was made again")
	}
	return h
}

func (h *history) String() string {
	return strings.Join(append(h.story, h.broken...), "\n")
}

// trace gets each turn; nil for no trace.
var trace func(line string)

func (w *world) create(ctx context.Context, objects ...client.Object) {
	for _, o := range objects {
		if err := w.hub.Create(ctx, o); err != nil {
			w.say("cannot create %T %s: %v", o, o.GetName(), err)
		}
	}
}
