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
)

// leaseName is the default of Options.LeaseName.
const leaseName = "berth.berth.dev"

var (
	errLeaseEnded = errors.New("the lease of this replica has ended, so another one may decide")
	errLeaseKept  = errors.New("the lease is not given back while this replica may decide: it ends by itself")
)

// leaseGuard refuses the writes of a leader that has not renewed its lease for its duration. Leader
// election alone does not: a process that was paused for longer tries to renew for up to
// LeaseTimes.RenewDeadline, and until then overwrites the decisions of the next leader. It also
// refuses to give the lease back before the manager's context ends, because leader election does
// that before it stops the controllers, so that two replicas would decide until the answer arrives;
// and later if the lease has ended, because it may be that of another replica. A replica that never
// had the lease may write.
type leaseGuard struct {
	now   func() time.Time
	lease string // its name
	lasts time.Duration

	mu sync.Mutex
	// renewed is when the last successful renewal was sent.
	renewed time.Time
	// running is the context of the manager; nil before it starts.
	running context.Context
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
	case givesBack(r) && (!t.guard.stops() || t.guard.ended(sent)):
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

// starts stores the context with which the manager starts.
func (g *leaseGuard) starts(ctx context.Context) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running = ctx
	}
}

// stops reports whether the manager was told to stop.
func (g *leaseGuard) stops() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running != nil && g.running.Err() != nil
}

// ended reports whether the lease has ended by one of the two clocks: the monotonic one stops while
// the machine sleeps, the other one may be set.
func (g *leaseGuard) ended(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.renewed.IsZero() && max(now.Sub(g.renewed), now.Round(0).Sub(g.renewed.Round(0))) > g.lasts
}
