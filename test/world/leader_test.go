package world

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/world/server"
)

// leaseName is the default of controllers.Options.LeaseName.
const leaseName = "berth.berth.dev"

// inFlight is how long a request takes to the server, if that is not slow.
const inFlight = 100 * time.Millisecond

// leader is the replica that has the lease, as the server knows it; empty if none has it.
type leader struct {
	name  string
	since time.Time
}

// onLease stores who has the lease.
func (l *leader) onLease(w *server.Write) {
	lease, name := decode[coordinationv1.Lease](w.Object), w.Writer
	if lease.Name != leaseName {
		return
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder == "" {
		name = ""
	}
	if name != l.name {
		*l = leader{name, time.Now()}
	}
}

// checkLeader: a replica decides only as long as no other one has the lease. What it sent before
// may arrive later.
func (l *laws) checkLeader(w *server.Write) {
	decided := w.Kind == "PlacementDecision" || w.Kind == "Placement"
	if decided && w.Writer != "person" && w.Writer != "" && !w.Late && l.leader.name != "" && w.Writer != l.leader.name && time.Since(l.leader.since) > inFlight+l.w.schedule.Slow() {
		l.breaks("replica %s writes a %s, but replica %s has the lease", w.Writer, w.Kind, l.leader.name)
	}
}

// leaderLoop is a loop of the leader that fails after some time, or takes time to end.
type leaderLoop struct {
	fails, takes time.Duration
	ends         func()
}

// Start implements manager.Runnable.
func (l *leaderLoop) Start(ctx context.Context) error {
	defer l.ends()
	var failed <-chan time.Time
	if l.fails > 0 {
		failed = time.After(l.fails)
	}
	select {
	case <-failed:
		return errors.New("a loop failed")
	case <-ctx.Done():
		time.Sleep(l.takes)
		return nil
	}
}

// busyCluster is no loop of the leader, and ends after all loops. It takes longer than a manager
// waits.
type busyCluster struct{ cluster.Cluster }

// Start implements manager.Runnable.
func (busyCluster) Start(ctx context.Context) error {
	<-ctx.Done()
	time.Sleep(20 * time.Second)
	return nil
}

// noRenewals loses the writes of leases from a time on, until the last try of a renewal. What gives
// the lease back then arrives.
type noRenewals struct {
	http.RoundTripper
	from time.Time
	// until is zero before the first try.
	until time.Time
}

func (t *noRenewals) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now()
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/leases") || t.from.IsZero() || now.Before(t.from) {
		return t.RoundTripper.RoundTrip(r)
	}
	if t.until.IsZero() {
		t.until = now.Add(unsteady.RenewDeadline - time.Second/2)
	}
	if now.Before(t.until) {
		return nil, server.ErrLost
	}
	return t.RoundTripper.RoundTrip(r)
}

// unsteady are the times of a lease whose last renewal is tried a second before its deadline.
var unsteady = controllers.LeaseTimes{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 3 * time.Second}

// TestLeaseGivenBack: a replica gives its lease back when all its loops have ended, not before.
func TestLeaseGivenBack(t *testing.T) {
	for name, tc := range map[string]struct {
		loop leaderLoop
		// stops is when the replica is told to stop, unrenewed since when its renewals are lost.
		stops, unrenewed time.Duration
		busy, given      bool
	}{
		"it stops":                       {leaderLoop{takes: time.Second}, time.Minute, 0, false, true},
		"it stops slowly":                {leaderLoop{takes: 8 * time.Second}, time.Minute, 0, false, true},
		"something else does not end":    {leaderLoop{takes: time.Second}, time.Minute, 0, true, true},
		"it fails":                       {leaderLoop{fails: time.Minute}, 0, 0, false, true},
		"a loop does not end":            {leaderLoop{takes: 20 * time.Second}, time.Minute, 0, false, false},
		"it cannot renew":                {leaderLoop{takes: time.Second}, 0, time.Minute, false, false},
		"it cannot renew while it stops": {leaderLoop{takes: 9 * time.Second}, time.Minute, 55 * time.Second, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := server.New()
				if err != nil {
					t.Fatal(err)
				}
				types := scheme()
				if err := coordinationv1.AddToScheme(types); err != nil {
					t.Fatal(err)
				}
				people, err := client.New(s.Config(), client.Options{Scheme: types})
				if err != nil {
					t.Fatal(err)
				}
				if err := people.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "berth"}}); err != nil {
					t.Fatal(err)
				}
				held := func() bool {
					lease := &coordinationv1.Lease{}
					if err := people.Get(t.Context(), client.ObjectKey{Namespace: "berth", Name: leaseName}, lease); err != nil {
						t.Error(err)
					}
					return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
				}
				transport := &noRenewals{RoundTripper: s}
				if tc.unrenewed > 0 {
					transport.from = time.Now().Add(tc.unrenewed)
				}
				ctx, stop := context.WithCancel(t.Context())
				mgr, err := controllers.NewManager(ctx, &rest.Config{Host: host, Transport: transport, QPS: -1}, controllers.Options{
					MetricsAddress: "0", HealthAddress: "0", PprofAddress: "0", Log: logr.Discard(),
					LeaderElection: true, LeaderElectionNamespace: "berth", Lease: unsteady,
				})
				if err != nil {
					t.Fatal(err)
				}
				loop := tc.loop
				loop.ends = func() {
					if !held() {
						t.Error("the lease was given back before a loop of the leader ended")
					}
				}
				if err := mgr.Add(&loop); err != nil {
					t.Fatal(err)
				}
				if tc.busy {
					if err := mgr.Add(busyCluster{mgr}); err != nil {
						t.Fatal(err)
					}
				}
				if tc.stops > 0 {
					time.AfterFunc(tc.stops, stop)
				}
				err = mgr.Start(ctx)
				if given := !held(); given != tc.given {
					t.Errorf("the lease was given back: %v, the replica ended with: %v", given, err)
				}
				stop()
				time.Sleep(time.Minute) // What still runs ends.
			})
		})
	}
}
