package controllers

import (
	"errors"
	"fmt"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// addProbes adds the checks of /healthz and /readyz. The leader is ready when it has read the
// fleet; other replicas wait only for the lease and are ready. Every replica answers
// admission requests: it must serve the webhooks and, with queues, have read their configuration.
func addProbes(mgr ctrl.Manager, placements *feed, o Options) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	ready := map[string]healthz.Checker{"fleet": func(*http.Request) error {
		if isClosed(mgr.Elected()) && !isClosed(placements.synced) {
			return errors.New("the fleet has not been read yet")
		}
		return nil
	}}
	if placements.queues != nil {
		ready["queues"] = func(*http.Request) error {
			if !isClosed(placements.queuesRead) {
				return errors.New("the queue configuration has not been read yet")
			}
			return nil
		}
	}
	if o.Webhooks != nil {
		ready["webhooks"] = mgr.GetWebhookServer().StartedChecker()
	}
	for name, check := range ready {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("adding the readiness check: %w", err)
		}
	}
	if !probesWithMetrics(o) {
		return nil
	}
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": ready} {
		if err := mgr.AddMetricsServerExtraHandler(path, openHandler{http.StripPrefix(path, &healthz.Handler{Checks: checks})}); err != nil {
			return fmt.Errorf("serving %s: %w", path, err)
		}
	}
	return nil
}

// openHandler is what guardMetrics serves to every client.
type openHandler struct{ http.Handler }

// probesWithMetrics reports whether the server of metrics has the probes, too.
func probesWithMetrics(o Options) bool {
	return o.HealthAddress == o.MetricsAddress && o.HealthAddress != "" && o.HealthAddress != "0"
}

// probeAddress is the address of the server that has only probes; "0" for none.
func probeAddress(o Options) string {
	if probesWithMetrics(o) {
		return "0"
	}
	return o.HealthAddress
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
