package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

var (
	decisionWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_decision_writes_total",
		Help: "PlacementDecision pages written, by operation (create, update, delete).",
	}, []string{"operation"})
	publishFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_publish_failures_total",
		Help: "Attempts to publish a decision that failed and are retried, by the plugin that failed.",
	}, []string{"plugin"})
	eventsLost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_events_lost_total",
		Help: "Events that the API server would not take.",
	})
)

func init() {
	metrics.Registry.MustRegister(decisionWrites, publishFailures, eventsLost)
}

func count(published *framework.Proposal, failure *framework.Status) {
	var writes []framework.PageWrite
	if published != nil {
		writes = published.Writes
	}
	for _, w := range writes {
		operation := "update"
		switch {
		case w.Created:
			operation = "create"
		case w.Deleted:
			operation = "delete"
		}
		decisionWrites.WithLabelValues(operation).Inc()
	}
	if !failure.IsSuccess() {
		publishFailures.WithLabelValues(failure.Plugin()).Inc()
	}
}
