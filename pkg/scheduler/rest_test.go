package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// fleetAtRest runs attempts for the Placements of a namespace as long as an event, a change of
// another Placement or a timer asks for one.
type fleetAtRest struct {
	t         *testing.T
	withQueue bool
	pages     *memoryPages
	// objects are on the hub beside the fleet, pages and records.
	objects   []client.Object
	inv       *inventory.Inventory
	queues    *admission.Queues
	scheduler *scheduler.Scheduler
	clock     *clocktesting.FakeClock
	gate      *gate
	records   map[string]*berthv1alpha1.PlacementChange
	version   int
	// due are the times of the next attempts.
	due      map[inventory.Key]time.Time
	attempts int
	outcomes map[inventory.Key]plan.Outcome
}

// queuesOfTwo limits the namespace to two clusters.
const queuesOfTwo = `
partitions:
- name: default
  queues: [{name: team, resources: {max: {clusters: 2}}}]
  placementrules: [{name: fixed, value: root.team}]
`

// newFleetAtRest has four clusters of 8 CPUs; answer is that of a Permit plugin, and refuse may
// fail writes of pages.
func newFleetAtRest(t *testing.T, withQueue bool, answer *framework.Status, refuse func(string) error) *fleetAtRest {
	t.Helper()
	f := &fleetAtRest{
		t: t, withQueue: withQueue, clock: clocktesting.NewFakeClock(fixture.Now), gate: &gate{name: "x", answer: answer, timeout: time.Hour},
		pages: &memoryPages{pages: map[inventory.Key]*v1alpha1.PlacementDecision{}, refuse: refuse}, records: map[string]*berthv1alpha1.PlacementChange{},
	}
	f.start()
	return f
}

// start starts a controller with the hub's objects, which knows nothing else.
func (f *fleetAtRest) start() {
	f.t.Helper()
	f.due, f.outcomes, f.queues = map[inventory.Key]time.Time{}, map[inventory.Key]plan.Outcome{}, nil
	f.inv = inventory.New(inventory.Options{OnAffected: f.enqueue, Reads: func(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }})
	held := scheduler.NewMemory()
	held.OnChange(func(key types.NamespacedName) { f.enqueue([]inventory.Key{key}) })
	handle := &framework.Handle{
		Pages: f.pages, Assume: f.inv.AssumePage, Announce: f.inv.Announce,
		HeldChanges: held,
	}
	if f.withQueue {
		f.queues = admission.NewQueues(admission.QueuesOptions{Published: f.inv.Published, Recorded: f.inv.RecordedQueue, Now: f.clock.Now, OnAffected: f.enqueue})
		if _, err := f.queues.Configure(&corev1.ConfigMap{Data: map[string]string{admission.QueuesKey: queuesOfTwo}}); err != nil {
			f.t.Fatal(err)
		}
	}
	registry, defaults := builtin.Registry(), builtin.DefaultProfile()
	registry["x"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return f.gate, nil
	}
	defaults.Plugins.MultiPoint.Enabled = append(defaults.Plugins.MultiPoint.Enabled, config.Plugin{Name: "x"})
	profiles, err := plugins.NewProfiles(context.Background(), nil, defaults, registry, handle)
	if err != nil {
		f.t.Fatal(err)
	}
	f.scheduler = scheduler.New(profiles, held)
	f.scheduler.Clock, f.scheduler.CycleTimeout = f.clock, time.Second
	f.scheduler.StoreClaim = f.inv.StoreClaim
	if f.queues != nil {
		f.scheduler.StoreQuota = func(subject *framework.Subject, clusters int) { f.queues.SetClusters(subject.Key(), clusters) }
	}
	f.scheduler.StorePublished, f.scheduler.WriteRecordsBefore = f.inv.SetPublished, f.writeRecords
	f.inv.Update(fixture.Set("s1"))
	f.inv.Update(fixture.Binding("ns", "s1"))
	for i := range 4 {
		f.inv.Update(fixture.Cluster(fmt.Sprint("c", i)).Set("s1").Label("name", fmt.Sprint("c", i)).Allocatable("cpu", "8").Capacity("cpu", "8").Obj())
	}
	for _, o := range f.objects {
		f.update(o)
	}
	for _, page := range f.pages.pages {
		f.inv.Update(page.DeepCopy())
	}
	for _, record := range f.records {
		f.inv.Update(record.DeepCopy())
	}
	f.inv.Started()
	f.scheduler.ReserveOpenChanges(context.Background(), f.inv.OpenChanges(), f.snapshot)
}

// update creates or changes an object.
func (f *fleetAtRest) update(o client.Object) {
	if pl, ok := o.(*v1alpha1.Placement); ok && f.queues != nil {
		f.queues.Update(pl)
	}
	f.enqueue(f.inv.Update(o.DeepCopyObject().(client.Object)))
}

// store is update, and a controller that starts later knows the object.
func (f *fleetAtRest) store(o client.Object) {
	f.objects = append(slices.DeleteFunc(f.objects, func(old client.Object) bool {
		return reflect.TypeOf(old) == reflect.TypeOf(o) && old.GetName() == o.GetName()
	}), o)
	f.update(o)
}

func (f *fleetAtRest) snapshot(key inventory.Key) *framework.Snapshot {
	var queue *framework.QueueAdmission
	if f.queues != nil {
		queue = f.queues.Admission(f.inv.Placement(key), f.clock.Now())
	}
	return f.inv.Snapshot(key, f.clock.Now(), queue)
}

func (f *fleetAtRest) enqueue(keys []inventory.Key) {
	for _, key := range keys {
		f.due[key] = f.clock.Now()
	}
}

func (f *fleetAtRest) writeRecords(_ context.Context, a *scheduler.Attempt) error {
	for _, record := range a.Records.Before {
		f.version++
		record.ResourceVersion, record.UID = fmt.Sprint(f.version), types.UID(record.Name)
		f.records[record.Name] = record
		f.inv.AssumeRecord(record.DeepCopy())
	}
	return nil
}

// run runs the due attempts until the fleet rests or ran n, and returns how many ran.
func (f *fleetAtRest) run(n int) int {
	for ran := range n {
		var next *inventory.Key
		for key, at := range f.due {
			if !at.After(f.clock.Now()) && (next == nil || at.Before(f.due[*next]) || at.Equal(f.due[*next]) && key.Name < next.Name) {
				next = &key
			}
		}
		if next == nil {
			return ran
		}
		f.attempt(*next)
	}
	return n
}

func (f *fleetAtRest) attempt(key inventory.Key) {
	delete(f.due, key)
	pl := f.inv.Placement(key)
	if pl == nil {
		return
	}
	if wait := f.scheduler.AttemptDelay(pl); wait > 0 {
		f.due[key] = f.clock.Now().Add(wait)
		return
	}
	a := f.scheduler.Attempt(context.Background(), key.Namespace, func() *framework.Snapshot { return f.snapshot(key) })
	f.attempts++
	if a == nil {
		return // The Placement is not decided.
	}
	f.outcomes[key] = a.Outcome
	if !a.Err.IsSuccess() {
		f.due[key] = f.clock.Now().Add(time.Minute)
		return
	}
	for _, record := range a.RecordsAfter() {
		f.version++
		record.ResourceVersion = fmt.Sprint(f.version)
		f.records[record.Name] = record
		f.inv.AssumeRecord(record.DeepCopy())
	}
	f.inv.ClearCause(a.Snapshot)
	if at := a.State.NextAttempt(); !at.IsZero() {
		if old, known := f.due[key]; !known || at.Before(old) {
			f.due[key] = at
		}
	}
}

// timersCauseFewAttempts, not a chain of them.
func (f *fleetAtRest) timersCauseFewAttempts(placements int) {
	f.t.Helper()
	for range 3 {
		f.clock.Step(time.Minute)
		if n := f.run(60); n > 6*placements {
			f.t.Fatalf("%d attempts after a timer: %v", n, f.outcomes)
		}
	}
}

// policies give a Placement what makes decisions depend on each other.
var dependencies = map[string]func(name, other string) *berthv1alpha1.SelectionPolicy{
	"alone": nil,
	"requests": func(name, _ string) *berthv1alpha1.SelectionPolicy {
		return policyOf(name, berthv1alpha1.SelectionPolicySpec{Requests: v1alpha1.ResourceList{"cpu": resource.MustParse("6")}})
	},
	"with": func(name, other string) *berthv1alpha1.SelectionPolicy {
		return policyOf(name, berthv1alpha1.SelectionPolicySpec{Affinity: berthv1alpha1.PlacementAffinity{With: []berthv1alpha1.PlacementReference{{Placement: other}}}})
	},
	"apartFrom": func(name, other string) *berthv1alpha1.SelectionPolicy {
		return policyOf(name, berthv1alpha1.SelectionPolicySpec{Affinity: berthv1alpha1.PlacementAffinity{ApartFrom: []berthv1alpha1.PlacementReference{{Placement: other}}}})
	},
}

func policyOf(placement string, spec berthv1alpha1.SelectionPolicySpec) *berthv1alpha1.SelectionPolicy {
	spec.Placement = placement
	return &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: placement}, Spec: spec}
}

// TestFleetAtRest: while no input changes and no timer is due, no attempt runs, whatever the state
// of each Placement, and whatever makes their decisions depend on each other.
func TestFleetAtRest(t *testing.T) {
	verdicts := map[string]struct {
		answer *framework.Status
		refuse func(string) error
		reject bool
	}{
		"permitted": {},
		"held":      {answer: framework.NewStatus(framework.Wait, "not yet")},
		"waiting":   {answer: framework.NewStatus(framework.Pending, "a fact is missing")},
		"denied":    {answer: framework.NewStatus(framework.Unschedulable, "no")},
		"rejected":  {answer: framework.NewStatus(framework.Wait, "not yet"), reject: true},
		"failing":   {answer: framework.AsStatus(errors.New("broken"))},
		"not bound": {refuse: func(string) error { return errors.New("hub is down") }},
	}
	for verdict, v := range verdicts {
		for dependency, policy := range dependencies {
			for _, placements := range []int{1, 2, 3} {
				for _, queue := range []bool{false, true} {
					t.Run(fmt.Sprint(verdict, "/", dependency, "/", placements, "/queue=", queue), func(t *testing.T) {
						f := newFleetAtRest(t, queue, v.answer, v.refuse)
						for i := range placements {
							name, other := fmt.Sprint("p", i), fmt.Sprint("p", (i+1)%placements)
							if policy != nil {
								f.store(policy(name, other))
							}
							b := fixture.Placement("ns", name)
							if i > 0 {
								b = b.Number(1)
							}
							f.store(b.Obj())
						}
						const most = 60
						if n := f.run(most); n == most {
							t.Fatalf("%d attempts, and no end: %v", n, f.outcomes)
						}
						if v.reject {
							f.end()
							if n := f.run(most); n == most {
								t.Fatalf("after the rejection %d attempts, and no end: %v", n, f.outcomes)
							}
						}
						f.timersCauseFewAttempts(placements)
						f.start()
						if n := f.run(most); n == most {
							t.Fatalf("after a restart %d attempts, and no end: %v", n, f.outcomes)
						}
						f.timersCauseFewAttempts(placements)
					})
				}
			}
		}
	}
}
