package property

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestWorkers decides and publishes with several workers while clusters change. Afterwards the
// inventory equals one built from scratch. Run it with the race detector.
func TestWorkers(t *testing.T) {
	for _, workers := range []int{1, 4, 16} {
		t.Run(strconv.Itoa(workers), func(t *testing.T) {
			w := &workload{inv: inventory.New(inventory.Options{}), engine: newScheduler(t, true)}
			w.run(workers)
			scratch := inventory.New(inventory.Options{})
			w.objects.Range(func(_, o any) bool {
				scratch.Update(o.(client.Object))
				return true
			})
			for _, key := range w.inv.Placements() {
				want, got := scratch.Snapshot(key, fixture.Now, nil), w.inv.Snapshot(key, fixture.Now, nil)
				if diff := cmp.Diff(viewOf(want), viewOf(got)); diff != "" {
					t.Fatalf("snapshot of %s (-scratch +incremental):\n%s", key, diff)
				}
				fresh := newScheduler(t, true)
				if diff := cmp.Diff(ask(fresh, scratch, key), ask(w.engine, w.inv, key)); diff != "" {
					t.Fatalf("answer to %s (-scratch +incremental):\n%s", key, diff)
				}
			}
		})
	}
}

// workload is a hub whose objects a feeder and workers write.
type workload struct {
	inv     *inventory.Inventory
	engine  *scheduler.Scheduler
	version atomic.Int64
	// objects are the last states by kind and name.
	objects sync.Map
}

func (w *workload) store(o client.Object) {
	o.SetResourceVersion(strconv.FormatInt(w.version.Add(1), 10))
	w.objects.Store(idOf(o), o)
}

// run starts the feeder, which queues the Placements that its events affect, and the workers, which
// publish what they decide. Each worker has its own Placements, because the controller's queue
// never gives a key to two workers.
func (w *workload) run(workers int) {
	feed := func(o client.Object) []inventory.Key {
		w.store(o)
		return w.inv.Update(o)
	}
	feed(fixture.Set("s1"))
	feed(fixture.Binding("n1", "s1"))
	queues := make([]chan inventory.Key, workers)
	var done sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan inventory.Key, 10_000)
		done.Go(func() {
			for key := range queues[i] {
				w.publish(key)
			}
		})
	}
	queue := func(keys []inventory.Key) {
		for _, key := range keys {
			n, _ := strconv.Atoi(key.Name[1:])
			queues[n%workers] <- key
		}
	}
	for n := range 20 {
		queue(feed(fixture.Placement("n1", fmt.Sprintf("p%d", n)).Number(3).Predicate(fixture.MatchLabel("a", "x")).
			Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1).Obj()))
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		queue(feed(fixture.Cluster(fmt.Sprintf("c%d", random.IntN(12))).Set("s1").Label("a", values[random.IntN(2)]).
			Allocatable("memory", fmt.Sprintf("%dMi", 1+random.IntN(100))).Obj()))
	}
	for i := range queues {
		close(queues[i])
	}
	done.Wait()
}

// publish decides, reserves, writes, and receives its own writes from the watch.
func (w *workload) publish(key inventory.Key) {
	r := decideOne(w.engine, w.inv, key)
	defer w.engine.Release(r.Decision)
	w.inv.Claim(key, r.Target.Added)
	defer w.inv.Claim(key, nil)
	plan, err := lifecycle.Plan(r.State, r.Target)
	if err != nil {
		panic(err)
	}
	for _, write := range plan.Writes {
		page := lifecycle.PageWriteOf(r.Snapshot.Subject.Placement, write).Page
		page.UID = types.UID(page.Name)
		w.store(page)
		w.inv.AssumePage(page, false)
		w.inv.Update(page)
	}
	w.inv.SetPublished(r.Snapshot.Subject, &framework.Published{Names: r.Target.Clusters, Digest: r.Target.Digest})
}
