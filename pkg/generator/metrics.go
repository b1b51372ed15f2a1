package generator

import "github.com/prometheus/client_golang/prometheus"

// docs/metrics.md has the same list, and a test compares both.
var (
	requestSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_generator_request_duration_seconds",
		Help:    "Time that berth generator took for a request, by format (argocd, flux) and HTTP status code.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 8), // to 16 s
	}, []string{"format", "code"})
	viewComplete = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_generator_view_complete",
		Help: "1 if berth generator follows the hub; 0 if it answers 503, because it has not listed all objects yet or has lost the connection.",
	})
)

// Metrics are the metrics of berth generator. A program has one Server.
func Metrics() []prometheus.Collector { return []prometheus.Collector{requestSeconds, viewComplete} }
