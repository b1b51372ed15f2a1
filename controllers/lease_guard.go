package controllers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// leaseName is the default of Options.LeaseName.
const leaseName = "berth.berth.dev"

var (
	errLeaseEnded = errors.New("the lease of this replica has ended, so another one may decide")
	errLeaseKept  = errors.New("the lease is not given back while loops of this replica run: it ends by itself")
)

// leaseGuard refuses the writes of a leader that has not renewed its lease for its duration. Leader
// election alone does not: a process that was paused for longer tries to renew for up to
// LeaseTimes.RenewDeadline, and until then overwrites the decisions of the next leader. A replica
// that never had the lease may write.
//
// The guard also refuses to give the lease back while a loop of the leader runs, because two
// replicas would decide then: leader election does not wait for loops if it cannot renew the
// lease, and for no longer than stopTime when the manager stops. And it refuses that if the lease
// has ended, because it may be that of another replica.
type leaseGuard struct {
	now   func() time.Time
	lease string // its name
	lasts time.Duration

	mu sync.Mutex
	// renewed is when the last successful renewal was sent.
	renewed time.Time
	// loops is how many loops of the leader run.
	loops int
}

// wrap returns a transport with the guard.
func (g *leaseGuard) wrap(next http.RoundTripper) http.RoundTripper {
	return &guardedTransport{next, g}
}

type guardedTransport struct {
	next  http.RoundTripper
	guard *leaseGuard
}

// RoundTrip implements http.RoundTripper.
func (t *guardedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := t.guard.now()
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return t.next.RoundTrip(r)
	case !t.guard.isOwnLease(r.URL.Path):
		if t.guard.ended(sent) {
			return refuse(r, errLeaseEnded)
		}
		return t.next.RoundTrip(r)
	case givesBack(r) && !t.guard.mayGiveBack(sent):
		return refuse(r, errLeaseKept)
	}
	response, err := t.next.RoundTrip(r)
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		t.guard.renew(sent)
	}
	return response, err
}

// isOwnLease reports whether a path is that of the lease, or of its creation.
func (g *leaseGuard) isOwnLease(path string) bool {
	// The URL of the API server may have a path. No name of an object has a slash.
	return strings.Contains(path, "/apis/coordination.k8s.io/") && (strings.HasSuffix(path, "/leases") || strings.HasSuffix(path, "/leases/"+g.lease))
}

// refuse closes the body, as RoundTripper requires.
func refuse(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, err
}

// givesBack reports whether a request writes a lease that nobody holds.
func givesBack(r *http.Request) bool {
	if r.Method != http.MethodPut || r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return false
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	lease, ok := object.(*coordinationv1.Lease)
	return err == nil && ok && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "")
}

func (g *leaseGuard) renew(sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewed = sent
}

// changeLoops adds to the number of loops that run.
func (g *leaseGuard) changeLoops(by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loops += by
}

// mayGiveBack reports whether no loop of the leader runs, and the lease has not ended.
func (g *leaseGuard) mayGiveBack(now time.Time) bool {
	ended := g.ended(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loops == 0 && !ended
}

// ended reports whether the lease has ended by one of the two clocks: the monotonic one stops while
// the machine sleeps, the other one may be set.
func (g *leaseGuard) ended(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.renewed.IsZero() && max(now.Sub(g.renewed), now.Round(0).Sub(g.renewed.Round(0))) > g.lasts
}

// guardedManager counts the loops of the leader for the guard.
type guardedManager struct {
	ctrl.Manager
	guard *leaseGuard
}

// Add implements manager.Manager.
func (m guardedManager) Add(r manager.Runnable) error {
	_, isCluster := r.(cluster.Cluster)
	if elected, ok := r.(manager.LeaderElectionRunnable); isCluster || ok && !elected.NeedLeaderElection() {
		return m.Manager.Add(r)
	}
	return m.Manager.Add(guardedLoop{r, m.guard})
}

// guardedLoop is a loop that only the leader runs.
type guardedLoop struct {
	manager.Runnable
	guard *leaseGuard
}

// Start implements manager.Runnable.
func (l guardedLoop) Start(ctx context.Context) error {
	l.guard.changeLoops(1)
	defer l.guard.changeLoops(-1)
	return l.Runnable.Start(ctx)
}
