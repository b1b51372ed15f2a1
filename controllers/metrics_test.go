package controllers

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/generator"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// ordinary fills every metric with a value, so that the linter sees it.
func ordinary() {
	stageSeconds.WithLabelValues("publish").Observe(0.001)
	pointSeconds.WithLabelValues("Filter", v1alpha1.DefaultProfile).Observe(0.001)
	lockSeconds.WithLabelValues(v1alpha1.DefaultProfile, "Published").Observe(0.001)
	attemptsTotal.WithLabelValues("Published").Add(0)
	attemptsSkipped.WithLabelValues("Same").Add(0)
	recordFailures.WithLabelValues("Conflict").Add(0)
	cycleTimeouts.WithLabelValues("Filter", "Predicate").Add(0)
	permitSeconds.WithLabelValues("Published").Observe(1)
	editsReverted.WithLabelValues("placement").Add(0)
	decideFailures.WithLabelValues("Predicate", "Error").Add(0)
	publishFailures.WithLabelValues("DecisionPublisher", "Conflict").Add(0)
	statusFailures.WithLabelValues("Conflict").Add(0)
	placementsNow.WithLabelValues("satisfied", "True", v1alpha1.ReasonAllDecisionsScheduled).Add(0)
	placementsResilient.WithLabelValues("True", v1alpha1.ReasonDomainsCanBeLost).Add(0)
	profileFailures.WithLabelValues("Forbidden").Add(0)
	fleetEvents.WithLabelValues("Placement", "acted").Add(0)
	explanationSeconds.WithLabelValues("Debugger", "Decided").Observe(0.001)
	clustersNow.WithLabelValues("True", "ManagedClusterAvailable").Add(0)
	buildInfo.WithLabelValues("v1.2.3", "0123456789ab", "go1.2").Set(1)
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
	for _, c := range append(ownMetrics(), generator.Metrics()...) {
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
	switch c := c.(type) {
	case *prometheus.CounterVec, prometheus.Counter:
		// A Gauge has what a Counter has, and can be set.
		if _, ok := c.(prometheus.Gauge); !ok {
			return "counter"
		}
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	if m, ok := c.(prometheus.Metric); ok {
		// A CounterFunc has the type of a GaugeFunc.
		var value dto.Metric
		if err := m.Write(&value); err == nil && value.Counter != nil {
			return "counter"
		}
	}
	return "gauge"
}

func TestOldestAge(t *testing.T) {
	now := time.Unix(1000, 0)
	since := func(seconds int64) framework.HeldChange { return framework.HeldChange{Since: time.Unix(seconds, 0)} }
	for name, tc := range map[string]struct {
		held []framework.HeldChange
		want float64
	}{
		"nothing is held":      {nil, 0},
		"one":                  {[]framework.HeldChange{since(940)}, 60},
		"the oldest of three":  {[]framework.HeldChange{since(990), since(900), since(950)}, 100},
		"held in this attempt": {[]framework.HeldChange{since(1000)}, 0},
	} {
		if got := oldestAge(tc.held, now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestEventTimes: an attempt that publishes measures the time since the first event before it.
func TestEventTimes(t *testing.T) {
	key := types.NamespacedName{Namespace: "n", Name: "p"}
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	attempt := func(outcome plan.Outcome, err error) *scheduler.Attempt {
		pl := fixture.Placement("n", "p").Obj()
		p := &plan.Plan{Decision: &decide.Decision{Snapshot: &framework.Snapshot{Subject: &framework.Subject{Placement: pl}}}, Outcome: outcome}
		return &scheduler.Attempt{Plan: p, Done: scheduler.Done{Err: framework.AsStatus(err)}}
	}
	tests := map[string]struct {
		events []int64
		failed []*scheduler.Attempt
		last   *scheduler.Attempt
		want   []float64
		next   int64
	}{
		"no event":             {last: attempt(plan.Published, nil)},
		"one event":            {events: []int64{7}, last: attempt(plan.Published, nil), want: []float64{3}},
		"the first of several": {events: []int64{4, 7, 9}, last: attempt(plan.Published, nil), want: []float64{6}},
		"unchanged":            {events: []int64{4}, last: attempt(plan.Unchanged, nil)},
		"held":                 {events: []int64{4}, last: attempt(plan.Held, nil)},
		"misconfigured":        {events: []int64{4}, last: attempt(plan.Undecided, nil)},
		"a write fails":        {events: []int64{4}, last: attempt(plan.Published, errors.New("conflict")), next: 4},
		"the decision fails":   {events: []int64{4}, last: attempt(plan.Failed, nil), next: 4},
		"published at the second attempt": {
			events: []int64{4}, failed: []*scheduler.Attempt{attempt(plan.Published, errors.New("conflict"))},
			last: attempt(plan.Published, nil), want: []float64{6},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var times eventTimes
			for _, second := range tc.events {
				times.affected([]inventory.Key{key}, at(second))
			}
			before := histogramOf(t, changeToPageSeconds)
			for _, a := range append(tc.failed, tc.last) {
				times.attempted(a, times.pop(key), at(10))
			}
			after := histogramOf(t, changeToPageSeconds)
			want := 0.0
			for _, v := range tc.want {
				want += v
			}
			if count := after.GetSampleCount() - before.GetSampleCount(); count != uint64(len(tc.want)) || after.GetSampleSum()-before.GetSampleSum() != want {
				t.Errorf("%d measured, %v s in all, expected %v", count, after.GetSampleSum()-before.GetSampleSum(), tc.want)
			}
			next := times.pop(key)
			if tc.next == 0 != next.IsZero() || tc.next != 0 && !next.Equal(at(tc.next)) {
				t.Errorf("the next attempt begins at %v", next)
			}
		})
	}
}

func histogramOf(t *testing.T, h prometheus.Histogram) *dto.Histogram {
	t.Helper()
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetHistogram()
}

func TestCensus(t *testing.T) {
	said := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.PlacementConditionSatisfied, Status: status, Reason: reason}}
	}
	a, b := types.NamespacedName{Namespace: "ns", Name: "a"}, types.NamespacedName{Namespace: "ns", Name: "b"}
	tests := map[string]struct {
		does         func(c *satisfiedGauge)
		wantTrue     float64
		wantFalse    float64
		wantCensused int
	}{
		"nothing": {does: func(*satisfiedGauge) {}},
		"two of a kind, said twice": {
			does: func(c *satisfiedGauge) {
				for range 2 {
					c.set(a, changes.StateShort, said(metav1.ConditionFalse, "CensusTest"))
					c.set(b, changes.StateShort, said(metav1.ConditionFalse, "CensusTest"))
				}
			},
			wantFalse: 2, wantCensused: 2,
		},
		"changes its mind": {
			does: func(c *satisfiedGauge) {
				c.set(a, changes.StateShort, said(metav1.ConditionFalse, "CensusTest"))
				c.set(a, changes.StateSatisfied, said(metav1.ConditionTrue, "CensusTest"))
			},
			wantTrue: 1, wantCensused: 1,
		},
		"is gone, twice": {
			does: func(c *satisfiedGauge) {
				c.set(a, changes.StateSatisfied, said(metav1.ConditionTrue, "CensusTest"))
				c.remove(a)
				c.remove(a)
			},
		},
		"has nothing to say": {does: func(c *satisfiedGauge) { c.set(a, changes.StateUndecided, []metav1.Condition{}) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &satisfiedGauge{}
			tc.does(c)
			if got := censused(t, "True"); got != tc.wantTrue {
				t.Errorf("%v satisfied, want %v", got, tc.wantTrue)
			}
			if got := censused(t, "False"); got != tc.wantFalse {
				t.Errorf("%v not satisfied, want %v", got, tc.wantFalse)
			}
			if len(c.last) != tc.wantCensused {
				t.Errorf("%d remembered, want %d", len(c.last), tc.wantCensused)
			}
			c.remove(a)
			c.remove(b)
		})
	}
}

// TestResilientGauge counts a Placement while it has the condition.
func TestResilientGauge(t *testing.T) {
	c, key := &resilientGauge{}, types.NamespacedName{Namespace: "ns", Name: "a"}
	gauge := placementsResilient.WithLabelValues("False", "ResilientTest")
	value := func() float64 {
		var got dto.Metric
		if err := gauge.Write(&got); err != nil {
			t.Fatal(err)
		}
		return got.GetGauge().GetValue()
	}
	c.set(key, []metav1.Condition{{Type: v1alpha1.PlacementConditionResilient, Status: metav1.ConditionFalse, Reason: "ResilientTest"}})
	if value() != 1 {
		t.Errorf("%v with the condition, want 1", value())
	}
	c.set(key, nil)
	if value() != 0 {
		t.Errorf("%v without the condition, want 0", value())
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

// measured is what the collectors say, by name and label values: a value, or how often one was
// observed.
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

// writesAtStart is what the metric says before anything is written.
var writesAtStart []string

func init() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(decisionWrites)
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		return
	}
	for _, m := range families[0].GetMetric() {
		writesAtStart = append(writesAtStart, m.GetLabel()[0].GetValue())
	}
}

// TestMetricsAtStart: a counter begins at 0 for every operation, and the process serves every
// metric.
func TestMetricsAtStart(t *testing.T) {
	if diff := cmp.Diff([]string{"create", "delete", "update"}, writesAtStart); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	for _, c := range ownMetrics() {
		if err := metrics.Registry.Register(c); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			t.Errorf("%v is not registered: %v", c, err)
		}
	}
}

// observed is the sum of what a histogram has observed for a label value.
func observed(t *testing.T, c prometheus.Collector, label string) time.Duration {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == label {
					return time.Duration(m.GetHistogram().GetSampleSum() * float64(time.Second)).Round(time.Millisecond)
				}
			}
		}
	}
	return 0
}

// TestDurations: each stage begins when the one before it ends.
func TestDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := newStopwatch()
		time.Sleep(3 * time.Second)
		watch.endStage("test-first")
		time.Sleep(5 * time.Second)
		watch.endStage("test-second")
		end := timePoint("test-profile", "Filter")
		time.Sleep(7 * time.Second)
		end()
		timeLock("test-lock", "Decided", 9*time.Second)
	})
	got := []time.Duration{
		observed(t, stageSeconds, "test-first"), observed(t, stageSeconds, "test-second"), observed(t, pointSeconds, "test-profile"), observed(t, lockSeconds, "test-lock"),
	}
	if diff := cmp.Diff([]time.Duration{3 * time.Second, 5 * time.Second, 7 * time.Second, 9 * time.Second}, got); diff != "" {
		t.Errorf("durations (-want +got):\n%s", diff)
	}
	// Values that only this test has.
	stageSeconds.DeleteLabelValues("test-first")
	stageSeconds.DeleteLabelValues("test-second")
	pointSeconds.DeleteLabelValues("Filter", "test-profile")
	lockSeconds.DeleteLabelValues("test-lock", "Decided")
}

func TestHeldChangesAreCounted(t *testing.T) {
	before := held.Load()
	defer held.Store(before)
	held.Store(nil)
	if got := measured(t, heldNow)["held_changes"]; got != 0 {
		t.Errorf("got %v without a manager", got)
	}
	held.Store(scheduler.NewMemory())
	if got := measured(t, heldNow)["held_changes"]; got != 0 {
		t.Errorf("got %v while none is held", got)
	}
}

func TestCount(t *testing.T) {
	pages := schema.GroupResource{Resource: "placementdecisions"}
	tests := map[string]struct {
		outcome plan.Outcome
		failure *framework.Status
		done    scheduler.Done
		want    map[string]float64
	}{
		"published, nothing written": {
			outcome: plan.Published, done: scheduler.Done{Step: &framework.Proposal{}},
			want: map[string]float64{"attempts_total Published": 1},
		},
		"every operation": {
			outcome: plan.Published, done: scheduler.Done{Step: &framework.Proposal{Writes: []framework.PageWrite{
				{Created: true}, {Created: true}, {Deleted: true}, {}, {DecisionsChanged: true}, {},
			}}},
			want: map[string]float64{
				"attempts_total Published": 1, "decision_writes_total create": 2, "decision_writes_total delete": 1, "decision_writes_total update": 3,
			},
		},
		"a failure after a write": {
			outcome: plan.Published, done: scheduler.Done{
				Step: &framework.Proposal{Writes: []framework.PageWrite{{Created: true}}},
				Err:  framework.AsStatus(apierrors.NewConflict(pages, "p", nil)).WithPlugin("Binder"),
			},
			want: map[string]float64{"attempts_total Failed": 1, "decision_writes_total create": 1, "publish_failures_total Binder Conflict": 1},
		},
		"nothing decided": {
			outcome: plan.Undecided, failure: framework.NewStatus(framework.Unschedulable, "parked").WithPlugin("Queue"),
			want: map[string]float64{"attempts_total Undecided": 1, "decide_failures_total Unschedulable Queue": 1},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := &plan.Plan{Decision: &decide.Decision{Failure: tc.failure}, Outcome: tc.outcome}
			got := changed(t, func() { countAttempt(&scheduler.Attempt{Plan: p, Done: tc.done}) }, attemptsTotal, decideFailures, cycleTimeouts, decisionWrites, publishFailures)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasonOf(t *testing.T) {
	own := []metav1.StatusReason{
		metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists,
		metav1.StatusReasonConflict, metav1.StatusReasonInvalid, metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonBadRequest, metav1.StatusReasonInternalError,
		metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonServiceUnavailable,
	}
	tests := map[string]error{"Other": errors.New("no connection")}
	for _, reason := range own {
		tests[string(reason)] = fmt.Errorf("writing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: reason}})
	}
	for want, err := range tests {
		if got := reasonOf(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
	// An admission webhook may give any reason.
	if got := reasonOf(&apierrors.StatusError{ErrStatus: metav1.Status{Reason: "Unknown"}}); got != "Other" {
		t.Errorf("got %q", got)
	}
}

func TestCountEvent(t *testing.T) {
	pl := fixture.Placement("n", "p").Obj()
	for _, tc := range []struct {
		object   client.Object
		affected []inventory.Key
		want     string
	}{
		{pl, []inventory.Key{placementKey}, "inventory_events_total Placement acted"},
		{pl, []inventory.Key{}, "inventory_events_total Placement ignored"},
		{fixture.Cluster("a").Obj(), nil, "inventory_events_total ManagedCluster ignored"},
		{namespaceMetadata(), nil, "inventory_events_total Namespace ignored"},
	} {
		got := changed(t, func() { countEvent(tc.object, tc.affected) }, fleetEvents)
		if diff := cmp.Diff(map[string]float64{tc.want: 1}, got); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	}
}
