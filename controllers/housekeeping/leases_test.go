package housekeeping

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

// clusterLease is a lease whose agent's clock is off by skew.
func clusterLease(cluster string, skew time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: v1alpha1.ManagedClusterLeaseName},
		Spec:       coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(time.Now().Add(skew)))},
	}
}

// leaseHub is a running ClusterLeaseReconciler with the cluster a, whose agent renews every minute.
type leaseHub struct {
	t    *testing.T
	hub  *memoryhub.Hub
	m    *memoryhub.Manager
	skew time.Duration
}

func newLeaseHub(t *testing.T, objects ...client.Object) *leaseHub {
	t.Helper()
	h := &leaseHub{t: t, hub: newMemoryHub(t, objects...)}
	h.m = memoryhub.NewManager(t, h.hub)
	h.m.Run(t, (&ClusterLeaseReconciler{Client: h.hub, Hub: h.hub}).SetUp)
	return h
}

// appear sends the events of a start: the cluster, and its lease if there is one.
func (h *leaseHub) appear() {
	h.t.Helper()
	h.m.Send(h.t, memoryhub.Event{After: h.cluster()})
	var l coordinationv1.Lease
	if err := h.hub.Get(h.t.Context(), client.ObjectKey{Namespace: "a", Name: v1alpha1.ManagedClusterLeaseName}, &l); err == nil {
		h.m.Send(h.t, memoryhub.Event{After: &l})
	}
}

func (h *leaseHub) cluster() *v1alpha1.ManagedCluster {
	h.t.Helper()
	var c v1alpha1.ManagedCluster
	h.hub.MustGet(h.t, client.ObjectKey{Name: "a"}, &c)
	return &c
}

// renew renews the lease now. With lost the event does not arrive.
func (h *leaseHub) renew(lost bool) {
	h.t.Helper()
	var l coordinationv1.Lease
	h.hub.MustGet(h.t, client.ObjectKey{Namespace: "a", Name: v1alpha1.ManagedClusterLeaseName}, &l)
	before := l.DeepCopy()
	l.Spec.RenewTime = clusterLease("a", h.skew).Spec.RenewTime
	if err := h.hub.Update(h.t.Context(), &l); err != nil {
		h.t.Fatal(err)
	}
	if !lost {
		h.m.Send(h.t, memoryhub.Event{Before: before, After: &l})
	}
}

// set writes the cluster's Available condition.
func (h *leaseHub) set(status metav1.ConditionStatus) {
	h.t.Helper()
	c := h.cluster()
	before := c.DeepCopy()
	v1alpha1.SetCondition(&c.Status.Conditions, metav1.Condition{Type: v1alpha1.ManagedClusterConditionAvailable, Status: status, Reason: "Test"})
	if err := h.hub.Status().Update(h.t.Context(), c); err != nil {
		h.t.Fatal(err)
	}
	h.m.Send(h.t, memoryhub.Event{Before: before, After: c})
}

// available is the condition's status and reason.
func (h *leaseHub) available() string {
	condition := meta.FindStatusCondition(h.cluster().Status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
	if condition == nil {
		return "absent"
	}
	return string(condition.Status) + " " + condition.Reason
}

// TestClusterLease: each case starts with the cluster a, available, whose lease was just renewed.
func TestClusterLease(t *testing.T) {
	const up, stopped = "True Test", "Unknown ManagedClusterLeaseUpdateStopped"
	pass := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
	}
	tests := map[string]struct {
		noLease bool
		skew    time.Duration
		// age is how long ago the lease was renewed when the controller starts.
		age    time.Duration
		status metav1.ConditionStatus
		does   func(h *leaseHub)
		want   string
	}{
		"just before its end": {does: func(*leaseHub) { pass(5*time.Minute - time.Second) }, want: up},
		"at its end":          {does: func(*leaseHub) { pass(5 * time.Minute) }, want: stopped},
		"a cluster that is False turns Unknown": {
			status: metav1.ConditionFalse, does: func(*leaseHub) { pass(5 * time.Minute) }, want: stopped,
		},
		"a lease that never existed": {noLease: true, does: func(*leaseHub) { pass(time.Hour) }, want: up},
		"renewed for an hour": {does: func(h *leaseHub) {
			for range 60 {
				pass(time.Minute)
				h.renew(false)
			}
		}, want: up},
		"renewed once, then no more": {does: func(h *leaseHub) {
			pass(4 * time.Minute)
			h.renew(false)
			pass(5*time.Minute - time.Second)
			if got := h.available(); got != up {
				h.t.Errorf("before the end: %s", got)
			}
			pass(time.Second)
		}, want: stopped},
		"renewed, but the event is late": {does: func(h *leaseHub) {
			pass(4 * time.Minute)
			h.renew(true)
			pass(4 * time.Minute)
		}, want: up},
		"the agent's clock is an hour late": {skew: -time.Hour, does: func(h *leaseHub) {
			for range 10 {
				h.renew(false)
				pass(time.Minute)
			}
		}, want: up},
		"the agent's clock is an hour early": {skew: time.Hour, does: func(*leaseHub) { pass(5 * time.Minute) }, want: stopped},
		"a restart waits for two renewals":   {age: time.Hour, does: func(*leaseHub) { pass(2*time.Minute - time.Second) }, want: up},
		"then a lease that ended is seen":    {age: time.Hour, does: func(*leaseHub) { pass(2 * time.Minute) }, want: stopped},
		"a restart continues the time":       {age: 2 * time.Minute, does: func(*leaseHub) { pass(3 * time.Minute) }, want: stopped},
		"another agent sets it True again, and does not renew": {does: func(h *leaseHub) {
			pass(5 * time.Minute)
			h.set(metav1.ConditionTrue)
		}, want: stopped},
		"it recovers": {does: func(h *leaseHub) {
			pass(10 * time.Minute)
			h.renew(false)
			h.set(metav1.ConditionTrue)
			pass(time.Minute)
		}, want: up},
		"the hub does not answer: agents could not renew, either": {does: func(h *leaseHub) {
			h.hub.Reads["Lease"] = errors.New("down")
			pass(10 * time.Minute)
			delete(h.hub.Reads, "Lease")
			pass(time.Minute)
			h.renew(false)
			pass(4 * time.Minute)
		}, want: up},
		"the hub answers again, and the agent is still away": {does: func(h *leaseHub) {
			h.hub.Reads["Lease"] = errors.New("down")
			pass(10 * time.Minute)
			delete(h.hub.Reads, "Lease")
			pass(2*time.Minute - 10*time.Second)
			if got := h.available(); got != up {
				h.t.Errorf("before two periods: %s", got)
			}
			pass(10 * time.Second)
		}, want: stopped},
		"the lease was deleted": {does: func(h *leaseHub) {
			l := clusterLease("a", 0)
			if err := h.hub.Delete(h.t.Context(), l); err != nil {
				h.t.Fatal(err)
			}
			h.m.Send(h.t, memoryhub.Event{Before: l})
			pass(time.Hour)
		}, want: up},
		"the lease was deleted, but the event is late": {does: func(h *leaseHub) {
			if err := h.hub.Delete(h.t.Context(), clusterLease("a", 0)); err != nil {
				h.t.Fatal(err)
			}
			pass(time.Hour)
		}, want: up},
		"another Lease of the namespace": {noLease: true, does: func(h *leaseHub) {
			l := clusterLease("a", -time.Hour)
			l.Name = "addon"
			h.m.Send(h.t, memoryhub.Event{After: l})
			pass(time.Hour)
		}, want: up},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status := tc.status
				if status == "" {
					status = metav1.ConditionTrue
				}
				c := fixture.Cluster("a").Condition(v1alpha1.ManagedClusterConditionAvailable, status, metav1.Now()).Obj()
				c.Status.Conditions[0].Reason = "Test"
				objects := []client.Object{c}
				if !tc.noLease {
					objects = append(objects, clusterLease("a", tc.skew-tc.age))
				}
				h := newLeaseHub(t, objects...)
				h.skew = tc.skew
				h.appear()
				tc.does(h)
				if got := h.available(); got != tc.want {
					t.Errorf("Available is %s, want %s", got, tc.want)
				}
			})
		})
	}
}

// TestClusterLeaseWaitsForTheClustersOwnPeriod, also when the period changes.
func TestClusterLeaseWaitsForTheClustersOwnPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fixture.Cluster("a").Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionTrue, metav1.Now()).Obj()
		c.Spec.LeaseDurationSeconds = 600
		h := newLeaseHub(t, c, clusterLease("a", 0))
		h.appear()
		time.Sleep(10 * time.Minute)
		before := h.cluster()
		after := before.DeepCopy()
		after.Spec.LeaseDurationSeconds = 60
		if err := h.hub.Update(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		if condition := h.cluster().Status.Conditions[0]; condition.Status != metav1.ConditionTrue {
			t.Errorf("after one period: %s", condition.Status)
		}
		h.m.Send(t, memoryhub.Event{Before: before, After: after})
		want := metav1.Condition{
			Type: v1alpha1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown, Reason: "ManagedClusterLeaseUpdateStopped",
			Message: "Registration agent stopped updating its lease.",
		}
		got := h.cluster().Status.Conditions[0]
		got.LastTransitionTime = metav1.Time{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the condition (-want +got):\n%s", diff)
		}
	})
}

// TestLongestLease: no period that a cluster can have ends a lease that was renewed.
func TestLongestLease(t *testing.T) {
	now := time.Now()
	for _, seconds := range []int32{1, 1844674408, math.MaxInt32} {
		c := fixture.Cluster("a").Obj()
		c.Spec.LeaseDurationSeconds = seconds
		for _, seen := range []renewals{{renewed: now, first: now}, {renewed: now, first: now, changed: now}} {
			if end := seen.expires(c.LeaseDuration()); !end.After(now) {
				t.Errorf("a lease of %d seconds, renewed at %s, ends at %s", seconds, now, end)
			}
		}
	}
}

// TestRenewalsCostNothing: 5000 clusters renew for an hour. No renewal is queued, and nothing is
// written or read on the hub.
func TestRenewalsCostNothing(t *testing.T) {
	const clusters = 5000
	synctest.Test(t, func(t *testing.T) {
		h := newLeaseHub(t, fixture.Cluster("a").Obj())
		r := &ClusterLeaseReconciler{leases: map[string]renewals{}}
		events := r.leaseEvents()
		for i := range clusters {
			r.observe(clusterLease(fmt.Sprintf("c%d", i), 0))
		}
		for range 60 {
			time.Sleep(time.Minute)
			for i := range clusters {
				l := clusterLease(fmt.Sprintf("c%d", i), 0)
				// A nil queue: adding to it would panic.
				events.Update(t.Context(), event.UpdateEvent{ObjectNew: l}, nil)
			}
		}
		if len(r.leases) != clusters {
			t.Errorf("%d leases", len(r.leases))
		}
		h.hub.CheckWritten(t)
		h.hub.CheckRead(t, "Lease")
	})
}

// TestOtherLeases: a cluster's namespace may have leases of other programs.
func TestOtherLeases(t *testing.T) {
	r := &ClusterLeaseReconciler{leases: map[string]renewals{}}
	other := clusterLease("c", 0)
	other.Name = "other"
	if r.observe(other) || len(r.leases) > 0 {
		t.Errorf("remembered: %v", r.leases)
	}
	if !r.observe(clusterLease("c", 0)) || len(r.leases) != 1 {
		t.Errorf("remembered: %v", r.leases)
	}
}

func TestClusterLeaseSetUp(t *testing.T) {
	memoryhub.CheckSetUp(t, (&ClusterLeaseReconciler{}).SetUp)
}

func TestClusterLeasePatch(t *testing.T) {
	memoryhub.CheckPatchAnswers(t, newMemoryHub, client.ObjectKey{Name: "a"}, fixture.Cluster("a").Obj(), func(c client.Client) reconcile.Reconciler {
		old := clusterLease("a", -time.Hour)
		return &ClusterLeaseReconciler{Client: c, Hub: newMemoryHub(t, old), leases: map[string]renewals{
			"a": {renewed: old.Spec.RenewTime.Truncate(time.Microsecond), first: time.Now().Add(-time.Hour)},
		}}
	})
}
