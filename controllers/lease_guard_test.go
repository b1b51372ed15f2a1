package controllers

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

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
		"below a path of the hub":       {http.MethodPut, "/hub" + lease, 200, defaultLease.Duration + 1, http.MethodPost, "/hub" + page, errLeaseEnded},
		"a deletion after that":         {http.MethodPut, lease, 200, time.Hour, http.MethodDelete, page, errLeaseEnded},
		"a read after that":             {http.MethodPut, lease, 200, time.Hour, http.MethodGet, page, nil},
		"the next renewal":              {http.MethodPut, lease, 200, time.Hour, http.MethodPut, lease, nil},
		"a lease that others renew":     {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/n/leases/other", 200, time.Hour, http.MethodPut, page, nil},
		"another object named leases":   {http.MethodDelete, "/apis/x/v1/namespaces/n/placementexplanations/leases", 200, time.Hour, http.MethodPut, page, nil},
		"it is written after the lease": {http.MethodPut, lease, 200, time.Hour, http.MethodPut, "/apis/x/v1/namespaces/n/placements/leases", errLeaseEnded},
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

// TestLeaseGuardGivesBack: a replica gives its lease back only if none of its loops runs and the
// lease has not ended, and writes what waits after that.
func TestLeaseGuardGivesBack(t *testing.T) {
	for name, tc := range map[string]struct {
		loops int
		// renewed is the time since the last renewal.
		renewed time.Duration
		want    error
	}{
		"all loops have ended":             {0, defaultLease.Duration, nil},
		"a loop runs":                      {1, defaultLease.RetryPeriod, errLeaseKept},
		"the lease ended before the loops": {0, defaultLease.Duration + 1, errLeaseKept},
	} {
		for format, encoder := range map[string]runtime.Encoder{
			"JSON":     scheme.Codecs.LegacyCodec(coordinationv1.SchemeGroupVersion),
			"protobuf": scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), coordinationv1.SchemeGroupVersion),
		} {
			t.Run(name+", "+format, func(t *testing.T) {
				now := fixture.Now
				guard := &leaseGuard{now: func() time.Time { return now }, lease: leaseName, lasts: defaultLease.Duration}
				send := func(path string, body []byte) error {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://hub"+path, bytes.NewReader(body))
					if err != nil {
						return err
					}
					response, err := guard.wrap(answering(http.StatusOK)).RoundTrip(r)
					if err == nil {
						_ = response.Body.Close()
					}
					return err
				}
				write := func(holder *string) error {
					body, err := runtime.Encode(encoder, &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}})
					if err != nil {
						t.Fatal(err)
					}
					return send("/apis/coordination.k8s.io/v1/namespaces/n/leases/"+leaseName, body)
				}
				now = fixture.Now.Add(-tc.renewed)
				if err := write(new("me")); err != nil {
					t.Fatal(err)
				}
				guard.changeLoops(tc.loops)
				now = fixture.Now
				for _, nobody := range []*string{nil, new("")} {
					if err := write(nobody); !errors.Is(err, tc.want) {
						t.Errorf("got error %v, want %v", err, tc.want)
					}
				}
				if err := send("/apis/x/v1/namespaces/n/placementchanges/p", nil); tc.want == nil && err != nil {
					t.Errorf("what waits after that: %v", err)
				}
			})
		}
	}
}
