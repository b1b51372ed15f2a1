//go:debug randseednop=0

package world

import (
	"context"
	"fmt"
	"math/rand"
	randv2 "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
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
	story     []string
	faults    map[string]int
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
	w := &world{server: s, schedule: server.NewSchedule(seed), replicas: map[string]*replica{}, faults: map[string]int{}}
	w.laws = newLaws(w)
	s.OnWrite = w.laws.onWrite
	w.hub, err = client.New(&rest.Config{Host: host, Transport: w.schedule.Transport(s, "person"), QPS: -1}, client.Options{Scheme: scheme()})
	if err != nil {
		panic(err)
	}
	random := randv2.New(randv2.NewPCG(seed, 1))
	w.schedule.Faults = func(of string, r *http.Request) (f server.Fault) {
		if of == "person" || time.Now().After(w.lossesEnd) || random.IntN(100) >= w.losses {
			return f
		}
		switch random.IntN(3) {
		case 0:
			f.LostBefore = true
			w.faults["request lost"]++
		case 1:
			f.LostAfter = true
			w.faults["response lost"]++
		case 2:
			f.Delay = time.Duration(random.Int64N(int64(20 * time.Second)))
			w.faults["response late"]++
		}
		return f
	}
	return w
}

const host = "http://world.invalid"

// replica is a process of the controller, which is started again when it ends.
type replica struct {
	cancel    context.CancelFunc
	transport *server.Transport
}

// start starts a replica, which runs until stop or crash.
func (w *world) start(ctx context.Context, name string) {
	ctx, cancel := context.WithCancel(ctx)
	r := &replica{cancel: cancel, transport: w.schedule.Transport(w.server, name)}
	w.replicas[name] = r
	w.running.Go(func() {
		for ctx.Err() == nil {
			process, end := context.WithCancel(ctx)
			mgr, err := controllers.NewManager(process, &rest.Config{Host: host, Transport: r.transport, QPS: -1}, controllers.Options{
				MetricsAddress: "0", HealthAddress: "0", PprofAddress: "0", Housekeeping: []string{"*"}, Log: logr.Discard(),
				LeaderElection: true, LeaderElectionNamespace: "berth", Workers: 64, LoopWorkers: 64,
			})
			if err == nil {
				_ = mgr.Start(process)
			}
			end()
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	})
}

// stop ends a replica; crash does so without a last request.
func (w *world) stop(name string) { w.replicas[name].cancel() }

func (w *world) crash(name string) {
	w.replicas[name].transport.Cut()
	w.stop(name)
}

// history is what happened in a world.
type history struct {
	story, broken []string
	turns         int
	faults        map[string]int
	writes        int64
}

// run runs the steps of a script in a world, and then waits for rest.
func run(t *testing.T, seed uint64, script []step) (h history) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		always, stop := context.WithCancel(context.WithoutCancel(ctx))
		w := newWorld(seed)
		// Clients draw from one source for the process, in any order.
		w.schedule.Before = rand.Seed //nolint:staticcheck // Clients use it for jitter.
		w.schedule.Log = func(line string) {
			h.turns++
			if trace != nil {
				trace(line)
			}
		}
		go w.schedule.Run(always)
		for _, name := range []string{"team", "berth"} {
			w.create(ctx, &corev1.Namespace{ObjectMeta: fixture.Placement("", name).Obj().ObjectMeta})
		}
		w.createFleet(ctx)
		w.start(ctx, "one")
		w.start(ctx, "two")
		for _, s := range script {
			time.Sleep(s.after)
			s.run(ctx, w)
		}
		w.rest(ctx)
		cancel()
		w.running.Wait()
		time.Sleep(time.Minute) // What the replicas have begun ends.
		stop()
		time.Sleep(time.Minute)
		h.story, h.broken, h.faults, h.writes = w.story, w.laws.broken, w.faults, w.server.Revision()
	})
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
