package controllers

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/test/memoryhub"
)

func TestProbes(t *testing.T) {
	const fleet, queues = "the fleet has not been read yet", "the queue configuration has not been read yet"
	tests := map[string]struct {
		elected, synced, queues, read, webhooks bool
		// want are the answers by check; empty is ready. Of webhooks only the name counts.
		want map[string]string
	}{
		"not elected":                  {want: map[string]string{"fleet": ""}},
		"elected":                      {elected: true, want: map[string]string{"fleet": fleet}},
		"elected, fleet loaded":        {elected: true, synced: true, want: map[string]string{"fleet": ""}},
		"webhooks without queues":      {webhooks: true, want: map[string]string{"fleet": "", "webhooks": "webhook server has not been started yet"}},
		"queues, configuration unread": {queues: true, want: map[string]string{"fleet": "", "queues": queues}},
		"queues, configuration read":   {queues: true, read: true, want: map[string]string{"fleet": "", "queues": ""}},
		"queues and webhooks": {
			queues: true, read: true, webhooks: true,
			want: map[string]string{"fleet": "", "queues": "", "webhooks": "webhook server has not been started yet"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			mgr := &memoryManager{
				Manager: memoryhub.Manager{Webhooks: webhook.NewServer(webhook.Options{})}, elected: make(chan struct{}),
				health: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{},
			}
			f, read, o := &feed{synced: make(chan struct{})}, make(chan struct{}), Options{}
			if tc.queues {
				f.queues, f.queuesRead = admission.NewQueues(admission.QueuesOptions{}), read
				o.QueueConfig = types.NamespacedName{Namespace: "berth-system", Name: "queues"}
			}
			if tc.webhooks {
				o.Webhooks = &webhook.Options{}
			}
			if err := addProbes(mgr, f, o); err != nil {
				t.Fatal(err)
			}
			if tc.elected {
				close(mgr.elected)
			}
			if tc.read {
				close(read)
			}
			if tc.synced {
				close(f.synced)
			}
			got := map[string]string{}
			for name, check := range mgr.ready {
				got[name] = errorText(check(nil))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ready (-want +got):\n%s", diff)
			}
			if names := slices.Collect(maps.Keys(mgr.health)); !slices.Equal(names, []string{"ping"}) || mgr.health["ping"](nil) != nil {
				t.Errorf("health: %v", names)
			}
		})
	}
}

// TestProbesWithMetrics: with one address, the server of metrics has the probes, for every client.
func TestProbesWithMetrics(t *testing.T) {
	for name, tc := range map[string]struct {
		o    Options
		want string // the address of the server that has only probes
	}{
		"one address":   {Options{HealthAddress: ":1", MetricsAddress: ":1"}, "0"},
		"two addresses": {Options{HealthAddress: ":1", MetricsAddress: ":2"}, ":1"},
		"neither":       {Options{HealthAddress: "0", MetricsAddress: "0"}, "0"},
		"none given":    {Options{}, ""},
	} {
		mgr := &memoryManager{elected: make(chan struct{}), health: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}, served: map[string]http.Handler{}}
		close(mgr.elected)
		if err := addProbes(mgr, &feed{}, tc.o); err != nil {
			t.Fatal(err)
		}
		if got := probeAddress(tc.o); got != tc.want {
			t.Errorf("%s: probes have the address %q, want %q", name, got, tc.want)
		}
		if name != "one address" {
			if len(mgr.served) > 0 {
				t.Errorf("%s: the server of metrics has %v", name, mgr.served)
			}
			continue
		}
		filter, err := guardMetrics(&rest.Config{Host: "localhost"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusInternalServerError} {
			handler, err := filter(logr.Discard(), mgr.served[path])
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
			if w.Code != want {
				t.Errorf("%s answers %d, want %d", path, w.Code, want)
			}
		}
	}
}

func TestProbesThatAreNotAdded(t *testing.T) {
	for call, want := range map[string]string{
		"health ping": "adding the health check: the manager has started", "ready fleet": "adding the readiness check: the manager has started",
		"serve /healthz": "serving /healthz: the manager has started", "serve /readyz": "serving /readyz: the manager has started",
	} {
		mgr := &memoryManager{
			elected: make(chan struct{}), health: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}, served: map[string]http.Handler{},
			refuse: func(asked string) error {
				if asked == call {
					return errors.New("the manager has started")
				}
				return nil
			},
		}
		if got := errorText(addProbes(mgr, &feed{}, Options{HealthAddress: ":1", MetricsAddress: ":1"})); got != want {
			t.Errorf("%s: got %q, want %q", call, got, want)
		}
	}
}
