package controllers

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// leaseName is the default of Options.LeaseName.
const leaseName = "berth.berth.dev"

var errLeaseEnded = errors.New("the lease of this replica has ended, so another one may decide")

// leaseGuard refuses the writes of a leader that has not renewed its lease for its duration. Leader
// election alone does not: a process that was paused for longer tries to renew for up to
// LeaseTimes.RenewDeadline, and until then overwrites the decisions of the next leader. A replica
// that never had the lease may write.
type leaseGuard struct {
	now   func() time.Time
	lease string // its name
	lasts time.Duration

	mu sync.Mutex
	// renewed is when the last successful renewal was sent.
	renewed time.Time
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
	case !strings.HasSuffix(r.URL.Path, "/leases") && !strings.HasSuffix(r.URL.Path, "/leases/"+t.guard.lease):
		if t.guard.ended(sent) {
			if r.Body != nil {
				_ = r.Body.Close() // as RoundTripper requires
			}
			return nil, errLeaseEnded
		}
		return t.next.RoundTrip(r)
	}
	response, err := t.next.RoundTrip(r)
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		t.guard.renew(sent)
	}
	return response, err
}

func (g *leaseGuard) renew(sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewed = sent
}

// ended reports whether the lease has ended by one of the two clocks: the monotonic one stops while
// the machine sleeps, the other one may be set.
func (g *leaseGuard) ended(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.renewed.IsZero() && max(now.Sub(g.renewed), now.Round(0).Sub(g.renewed.Round(0))) > g.lasts
}
