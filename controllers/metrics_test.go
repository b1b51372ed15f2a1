package controllers

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// ordinary fills every metric with a value, so that the linter sees it.
func ordinary() {
	stageSeconds.WithLabelValues("publish").Observe(0.001)
	pointSeconds.WithLabelValues("Filter", v1alpha1.DefaultProfile).Observe(0.001)
	lockSeconds.WithLabelValues(v1alpha1.DefaultProfile, "Published").Observe(0.001)
	attemptsTotal.WithLabelValues("Published").Add(0)
	recordFailures.WithLabelValues("Conflict").Add(0)
	cycleTimeouts.WithLabelValues("Filter", "Predicate").Add(0)
	permitSeconds.WithLabelValues("Published").Observe(1)
	decideFailures.WithLabelValues("Predicate", "Error").Add(0)
	publishFailures.WithLabelValues("DecisionPublisher", "Conflict").Add(0)
	statusFailures.WithLabelValues("Conflict").Add(0)
	placementsNow.WithLabelValues("True", v1alpha1.ReasonAllDecisionsScheduled).Add(0)
	fleetEvents.WithLabelValues("Placement", "acted").Add(0)
}

func TestMetricsFollowTheConventions(t *testing.T) {
	ordinary()
	registry := prometheus.NewRegistry()
	registry.MustRegister(ownMetrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(ownMetrics()) {
		t.Errorf("%d metrics have values to be linted, of %d", len(families), len(ownMetrics()))
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

var describing = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{([^}]*)\}`)

func TestMetricsAreDocumented(t *testing.T) {
	ordinary()
	var want []string
	for _, c := range ownMetrics() {
		descriptions := make(chan *prometheus.Desc, 1)
		c.Describe(descriptions)
		parts := describing.FindStringSubmatch((<-descriptions).String())
		if parts == nil {
			t.Fatalf("the description of %v is not as expected", c)
		}
		if !strings.HasPrefix(parts[1], "berth_") {
			t.Errorf("%s does not begin with berth_", parts[1])
		}
		labels := "–"
		if parts[3] != "" {
			labels = "`" + strings.Join(strings.Split(parts[3], ","), "`, `") + "`"
		}
		want = append(want, "| `"+parts[1]+"` | "+kind(c)+" | "+labels+" | "+parts[2]+" |")
	}
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `berth_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md (-code +page):\n%s", diff)
	}
}

func kind(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.CounterVec, prometheus.Counter:
		// A Gauge has what a Counter has, and can be set.
		if _, ok := c.(prometheus.Gauge); !ok {
			return "counter"
		}
	case *prometheus.HistogramVec:
		return "histogram"
	}
	return "gauge"
}

func TestCensus(t *testing.T) {
	said := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.PlacementConditionSatisfied, Status: status, Reason: reason}}
	}
	a, b := types.NamespacedName{Namespace: "ns", Name: "a"}, types.NamespacedName{Namespace: "ns", Name: "b"}
	tests := map[string]struct {
		does         func(c *census)
		wantTrue     float64
		wantFalse    float64
		wantCensused int
	}{
		"nothing": {does: func(*census) {}},
		"two of a kind, said twice": {
			does: func(c *census) {
				for range 2 {
					c.put(a, said(metav1.ConditionFalse, "CensusTest"))
					c.put(b, said(metav1.ConditionFalse, "CensusTest"))
				}
			},
			wantFalse: 2, wantCensused: 2,
		},
		"changes its mind": {
			does: func(c *census) {
				c.put(a, said(metav1.ConditionFalse, "CensusTest"))
				c.put(a, said(metav1.ConditionTrue, "CensusTest"))
			},
			wantTrue: 1, wantCensused: 1,
		},
		"is gone, twice": {
			does: func(c *census) {
				c.put(a, said(metav1.ConditionTrue, "CensusTest"))
				c.drop(a)
				c.drop(a)
			},
		},
		"has nothing to say": {does: func(c *census) { c.put(a, []metav1.Condition{}) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &census{}
			tc.does(c)
			if got := censused(t, "True"); got != tc.wantTrue {
				t.Errorf("%v satisfied, want %v", got, tc.wantTrue)
			}
			if got := censused(t, "False"); got != tc.wantFalse {
				t.Errorf("%v not satisfied, want %v", got, tc.wantFalse)
			}
			if len(c.placed) != tc.wantCensused {
				t.Errorf("%d remembered, want %d", len(c.placed), tc.wantCensused)
			}
			c.drop(a)
			c.drop(b)
		})
	}
}

// censused is the gauge for the reason that only this test has.
func censused(t *testing.T, satisfied string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(placementsNow)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["reason"] == "CensusTest" && labels["satisfied"] == satisfied {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// measured is what the collectors say, by name and label values: a value, or how often one was observed.
func measured(t *testing.T, collectors ...prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := []string{strings.TrimPrefix(family.GetName(), "berth_")}
			for _, l := range m.GetLabel() {
				name = append(name, l.GetValue())
			}
			all[strings.Join(name, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// changed is what a function adds to what the collectors say.
func changed(t *testing.T, does func(), collectors ...prometheus.Collector) map[string]float64 {
	t.Helper()
	before := measured(t, collectors...)
	does()
	after := measured(t, collectors...)
	for name, value := range before {
		after[name] -= value
	}
	maps.DeleteFunc(after, func(_ string, value float64) bool { return value == 0 })
	return after
}
