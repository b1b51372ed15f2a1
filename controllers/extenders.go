package controllers

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/pkg/extenders"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

var (
	extenderRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_extender_requests_total",
		Help: "Requests to extenders, by result (Answered, Failed).",
	}, []string{"profile", "extender", "result"})
	extenderSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_extender_request_duration_seconds",
		Help:    "Time until an extender answered, or until its request failed.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // to 65 s
	}, []string{"profile", "extender"})
	extenderPaused = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_extender_paused",
		Help: "1 while requests to an extender are paused after repeated failures, else 0.",
	}, []string{"profile", "extender"})
)

// addExtenders adds what asks the extenders of the profiles.
func addExtenders(mgr ctrl.Manager, placements *feed, o Options) error {
	asker, err := extenders.New(o.Config, extenders.Options{
		Store: func(q *framework.ExtenderQuestion, answer *framework.ExtenderAnswer) {
			affected := placements.inventory.SetExtenderAnswer(q.Key(), q.Placement.UID, q.Extender, answer)
			placements.times.affected(affected, time.Now())
			placements.enqueueIfStarted(affected)
		},
		Now: o.Now,
		Observe: func(e framework.ExtenderKey, took time.Duration, failure error, paused bool) {
			result, open := "Answered", 0.0
			if failure != nil {
				result = "Failed"
			}
			if paused {
				open = 1
			}
			extenderRequests.WithLabelValues(e.Profile, e.Name, result).Inc()
			extenderSeconds.WithLabelValues(e.Profile, e.Name).Observe(took.Seconds())
			extenderPaused.WithLabelValues(e.Profile, e.Name).Set(open)
		},
		Log: o.Log.WithName("extenders"),
	})
	if err != nil {
		return fmt.Errorf("setting up extenders: %w", err)
	}
	if asker == nil {
		return nil
	}
	placements.asker = asker
	if err := mgr.Add(asker); err != nil {
		return fmt.Errorf("setting up extenders: %w", err)
	}
	return nil
}
