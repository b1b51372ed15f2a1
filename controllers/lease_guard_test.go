package controllers

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/test/fixture"
)

type answering int

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

// TestLeaseGuard: a replica that had the lease writes only while the lease is not older than it may
// be.
func TestLeaseGuard(t *testing.T) {
	const lease, page = "/apis/coordination.k8s.io/v1/namespaces/n/leases/" + leaseName, "/apis/x/v1/namespaces/n/placementdecisions/p"
	for name, tc := range map[string]struct {
		// renewal is the request that asked for the lease, code its answer.
		method, renewal string
		code            int
		after           time.Duration
		request, path   string
		want            error
	}{
		"it never had the lease":        {http.MethodPut, lease, 409, time.Hour, http.MethodPut, page, nil},
		"the lease is new":              {http.MethodPost, strings.TrimSuffix(lease, "/"+leaseName), 201, defaultLease.Duration, http.MethodPut, page, nil},
		"the created lease has ended":   {http.MethodPost, strings.TrimSuffix(lease, "/"+leaseName), 201, defaultLease.Duration + 1, http.MethodPut, page, errLeaseEnded},
		"the renewed lease has ended":   {http.MethodPut, lease, 200, defaultLease.Duration + 1, http.MethodPost, page, errLeaseEnded},
		"a deletion after that":         {http.MethodPut, lease, 200, time.Hour, http.MethodDelete, page, errLeaseEnded},
		"a read after that":             {http.MethodPut, lease, 200, time.Hour, http.MethodGet, page, nil},
		"the next renewal":              {http.MethodPut, lease, 200, time.Hour, http.MethodPut, lease, nil},
		"a lease that others renew":     {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/n/leases/other", 200, time.Hour, http.MethodPut, page, nil},
		"reading the lease is no claim": {http.MethodGet, lease, 200, time.Hour, http.MethodPut, page, nil},
	} {
		t.Run(name, func(t *testing.T) {
			now := fixture.Now
			guard := &leaseGuard{now: func() time.Time { return now }, lease: leaseName, lasts: defaultLease.Duration}
			send := func(code int, method, path string) error {
				response, err := guard.wrap(answering(code)).RoundTrip(httptest.NewRequest(method, path, strings.NewReader("{}")))
				if err == nil {
					_ = response.Body.Close()
				}
				return err
			}
			if err := send(tc.code, tc.method, tc.renewal); err != nil {
				t.Fatal(err)
			}
			now = now.Add(tc.after)
			if err := send(http.StatusOK, tc.request, tc.path); !errors.Is(err, tc.want) {
				t.Errorf("got error %v, want %v", err, tc.want)
			}
		})
	}
}
