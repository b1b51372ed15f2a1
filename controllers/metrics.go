package controllers

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// Labels have few values on every hub: names of Placements, clusters and namespaces are not used.
// docs/metrics.md has the same list, and a test compares both.
var (
	stageSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_scheduling_duration_seconds",
		Help:    "Time that an attempt for one Placement took, by stage (prepare, wait, snapshot, publish, status).",
		Buckets: []float64{0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10},
	}, []string{"stage"})
	pointSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_framework_extension_point_duration_seconds",
		Help:    "Time that all plugins of an extension point took together in an attempt for one Placement, by profile.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 11), // to 10 s
	}, []string{"extension_point", "profile"})
	lockSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_cycle_lock_duration_seconds",
		Help:    "Time for which an attempt held the cycle lock, so that no other could decide, by profile and outcome (Decided, Continues, TimedOut, Failed, Skipped).",
		Buckets: []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 5},
	}, []string{"profile", "outcome"})
	cycleTimeouts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_cycle_timeouts_total",
		Help: "Attempts that were stopped at cycleTimeout, by the extension point and plugin that ran.",
	}, []string{"extension_point", "plugin"})
	attemptsDeferred = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_attempts_deferred_total",
		Help: "Attempts that were delayed because earlier ones for the Placement, or for slow Placements of its namespace, took too long.",
	})
	attemptsSkipped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_attempts_skipped_total",
		Help: "Attempts that a change of a cluster did not start because they could not change the answer, by result (Skipped; with --check-skips: Same, Different).",
	}, []string{"result"})
	permitSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_permit_wait_duration_seconds",
		Help:    "Time for which a change was held, by the phase in which it ended (Published, Superseded, Rejected, Expired).",
		Buckets: []float64{1, 10, 60, 600, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600},
	}, []string{"result"})
	explanationSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "berth_explanation_duration_seconds",
		Help:    "Time from the first cycle of an explanation until its answer, by source (PlacementExplanation, Debugger) and result (Decided, LeftAlone, PlacementNotFound, TimedOut, DecisionFailed).",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // to 65 s
	}, []string{"source", "result"})
	attemptsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_attempts_total",
		Help: "Attempts for one Placement, by outcome (Unchanged, Undecided, Published, Progressing, Held, Waiting, Denied, Rejected, Expired, Failed).",
	}, []string{"outcome"})
	recordFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_record_failures_total",
		Help: "Writes of PlacementChanges after publication that failed and are tried again, by the API server's reason.",
	}, []string{"reason"})
	decisionWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_decision_writes_total",
		Help: "PlacementDecision pages written, by operation (create, update, delete).",
	}, []string{"operation"})
	editsReverted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_decision_edits_reverted_total",
		Help: "Edits of PlacementDecision pages by other clients that Berth reverted, by the client's field manager (Other after the first 20 names).",
	}, []string{"manager"})
	decideFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_decide_failures_total",
		Help: "Attempts that made no decision, so that the last published one stays, by the plugin that failed and the code that it returned.",
	}, []string{"plugin", "code"})
	publishFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_publish_failures_total",
		Help: "Attempts that failed to publish a decision and are retried, by the plugin that failed and the API server's reason.",
	}, []string{"plugin", "reason"})
	statusFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_status_failures_total",
		Help: "Writes of a Placement's status that failed and are retried, by the API server's reason.",
	}, []string{"reason"})
	placementsNow = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_placements",
		Help: "Placements by their most urgent state, and by the status and the reason of their condition PlacementSatisfied. A disabled Placement has the reason SchedulingDisabled, and the status Unknown if it was never decided.",
	}, []string{"state", "satisfied", "reason"})
	placementsResilient = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_placements_resilient",
		Help: "Placements by the status and the reason of their condition Resilient, which exists while the plugin Resilience has arguments.",
	}, []string{"resilient", "reason"})
	clustersNow = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_clusters",
		Help: "ManagedClusters by their Available condition (True, False, Unknown; Absent without one) and its reason (Other if Berth does not know it).",
	}, []string{"available", "reason"})
	profileFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_cluster_profile_failures_total",
		Help: "Lists and watches of ClusterProfiles that failed and are retried, by the API server's reason. Until then their ManagedClusters stay as they are.",
	}, []string{"reason"})
	heldNow = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "berth_held_changes",
		Help: "Changes of decisions that a Permit plugin holds, for example until they are approved.",
	}, func() float64 { return float64(len(held.Load().List())) })
	recordedEntries = prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "berth_recording_entries_total",
		Help: "Entries that were written to the recording.",
	}, func() float64 { return float64(recordingStats().Entries) })
	lostEntries = prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "berth_recording_lost_entries_total",
		Help: "Entries that were not recorded, because the disk was too slow or failed. The recording has a gap there; no decision is affected.",
	}, func() float64 { return float64(recordingStats().Lost) })
	recordingFailures = prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "berth_recording_failures_total",
		Help: "Errors of the disk that the recording is on.",
	}, func() float64 { return float64(recordingStats().Failures) })
	recordingCPU = prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "berth_recording_cpu_seconds_total",
		Help: "Processor time of encoding, compressing and writing the recording; on systems other than Linux, elapsed time.",
	}, func() float64 { return recordingStats().CPU.Seconds() })
	recordingBytes = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "berth_recording_size_bytes",
		Help: "Size of the recording on disk when its last file began.",
	}, func() float64 { return float64(recordingStats().Bytes) })
	stuckChanges = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_progress_deadlines_exceeded_total",
		Help: "Changes in progress that made no step until their progress deadline.",
	})
	oldestHeld = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "berth_oldest_held_change_age_seconds",
		Help: "Time since the change that is held longest was first held; 0 if none is held.",
	}, func() float64 { return oldestAge(held.Load().List(), time.Now()) })
	changeToPageSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "berth_change_to_page_duration_seconds",
		Help:    "Time from the first watch event that affected a Placement until its pages were written. Changes that a plugin held or delayed are not counted.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // to 65 s
	})
	fleetEvents = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_inventory_events_total",
		Help: "Watch events that were processed, by kind, and by whether they queued a Placement (acted) or not (ignored).",
	}, []string{"kind", "result"})
	buildInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_build_info",
		Help: "Always 1, with the version and commit of Berth and the version of Go that built it.",
	}, []string{"version", "commit", "go_version"})
	eventsLost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_events_lost_total",
		Help: "Kubernetes events that could not be sent to the API server.",
	})
)

// held are the held changes of the manager that was built last. Only tests build more than one.
var held atomic.Pointer[scheduler.Memory]

// recorded is the recorder of the manager that was built last; nil if nothing is recorded.
var recorded atomic.Pointer[recording.Recorder]

// recordingStats are those of the recorder.
func recordingStats() recording.Stats {
	if r := recorded.Load(); r != nil {
		return r.Stats()
	}
	return recording.Stats{}
}

func ownMetrics() []prometheus.Collector {
	return []prometheus.Collector{
		stageSeconds, pointSeconds, lockSeconds, cycleTimeouts, attemptsDeferred, attemptsSkipped, attemptsTotal, recordFailures, permitSeconds, decisionWrites, editsReverted, decideFailures, publishFailures, statusFailures, placementsNow, placementsResilient, clustersNow, profileFailures, heldNow, oldestHeld, recordedEntries, lostEntries, recordingFailures, recordingCPU, recordingBytes, stuckChanges, changeToPageSeconds, fleetEvents, eventsLost, buildInfo, explanationSeconds,
		lifecycle.ArgoCDRefreshes,
	}
}

func init() {
	metrics.Registry.MustRegister(ownMetrics()...)
	// Without a first sample of 0, rate() does not see the first increase.
	for _, operation := range []string{"create", "update", "delete"} {
		decisionWrites.WithLabelValues(operation)
	}
	attemptsSkipped.WithLabelValues("Skipped")
	for _, result := range []string{"Refreshed", "Failed", "Dropped"} {
		lifecycle.ArgoCDRefreshes.WithLabelValues(result)
	}
}

// oldestAge returns how long the oldest held change has been held, in seconds.
func oldestAge(held []framework.HeldChange, now time.Time) float64 {
	oldest := now
	for _, change := range held {
		if change.Since.Before(oldest) {
			oldest = change.Since
		}
	}
	return now.Sub(oldest).Seconds()
}

// eventTimes has the time of the first watch event that affected each Placement since its last
// attempt. A nil *eventTimes measures nothing.
type eventTimes struct {
	mu    sync.Mutex
	first map[types.NamespacedName]time.Time
}

// affected stores the time of an event.
func (t *eventTimes) affected(keys []inventory.Key, now time.Time) {
	if len(keys) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil {
		t.first = map[types.NamespacedName]time.Time{}
	}
	for _, key := range keys {
		if first, ok := t.first[key]; !ok || now.Before(first) {
			t.first[key] = now
		}
	}
}

// pop returns the time of the first event before an attempt, and removes it. It is called with the
// Snapshot: later events belong to the next attempt.
func (t *eventTimes) pop(key types.NamespacedName) time.Time {
	if t == nil {
		return time.Time{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.first[key]
	delete(t.first, key)
	return first
}

// attempted measures an attempt that published. The next attempt after a failure has the time of
// the same event.
func (t *eventTimes) attempted(attempt *scheduler.Attempt, first, now time.Time) {
	switch {
	case first.IsZero():
	case !attempt.Err.IsSuccess() || attempt.Outcome == plan.Failed:
		t.affected([]inventory.Key{attempt.Snapshot.Subject.Key()}, first)
	case attempt.Outcome == plan.Published:
		changeToPageSeconds.Observe(now.Sub(first).Seconds())
	}
}

// stopwatch measures the stages of an attempt.
type stopwatch struct{ last time.Time }

func newStopwatch() *stopwatch { return &stopwatch{last: time.Now()} }

// endStage ends a stage and begins the next.
func (s *stopwatch) endStage(stage string) {
	now := time.Now()
	stageSeconds.WithLabelValues(stage).Observe(now.Sub(s.last).Seconds())
	s.last = now
}

// timePoint is the Timer of the scheduler.
func timePoint(profile, point string) (end func()) {
	began := time.Now()
	return func() { pointSeconds.WithLabelValues(point, profile).Observe(time.Since(began).Seconds()) }
}

// timeLock is the LockHeld of the scheduler.
func timeLock(profile, outcome string, held time.Duration) {
	lockSeconds.WithLabelValues(profile, outcome).Observe(held.Seconds())
}

// countAttempt updates the metrics of attempts, writes and failures.
func countAttempt(attempt *scheduler.Attempt) {
	outcome := attempt.Outcome
	if !attempt.Err.IsSuccess() {
		outcome = plan.Failed
	}
	attemptsTotal.WithLabelValues(string(outcome)).Inc()
	if decided := attempt.Failure; !decided.IsSuccess() {
		decideFailures.WithLabelValues(decided.Plugin(), decided.Code().String()).Inc()
	}
	if point, plugin, ok := attempt.TimedOut(); ok {
		cycleTimeouts.WithLabelValues(point, plugin).Inc()
	}
	if attempt.Step != nil {
		countWrites(attempt.Step.Writes)
	}
	if failure := attempt.Err; !failure.IsSuccess() {
		publishFailures.WithLabelValues(failure.Plugin(), reasonOf(failure.Err())).Inc()
	}
}

func countWrites(writes []framework.PageWrite) {
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
}

// reasonOf returns the API server's reason for an error if it is one of those below, otherwise
// Other. An admission webhook may return any text.
func reasonOf(err error) string {
	switch reason := apierrors.ReasonForError(err); reason {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists,
		metav1.StatusReasonConflict, metav1.StatusReasonInvalid, metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonBadRequest, metav1.StatusReasonInternalError,
		metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonServiceUnavailable:
		return string(reason)
	}
	return "Other"
}

// countEvent counts an event of the fleet that affects these Placements.
func countEvent(o client.Object, affected []inventory.Key) {
	result := "acted"
	if len(affected) == 0 {
		result = "ignored"
	}
	fleetEvents.WithLabelValues(kindOf(o), result).Inc()
}

func kindOf(o client.Object) string {
	if kind, ok := kinds.Of(o); ok {
		return kind.Name
	}
	return "Namespace"
}

// satisfiedGauge counts Placements by state and by their last reported Satisfied condition. The
// reason of a disabled Placement is SchedulingDisabled.
type satisfiedGauge struct{ conditionCounter }

// set stores a Placement's state and Satisfied condition. A Placement without the condition is not
// counted.
func (c *satisfiedGauge) set(key types.NamespacedName, state changes.StateName, conditions []metav1.Condition) {
	now := countedCondition{}
	if condition := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionSatisfied); condition != nil {
		now = countedCondition{status: string(condition.Status), reason: condition.Reason}
	}
	if meta.IsStatusConditionTrue(conditions, v1alpha1.PlacementConditionSchedulingDisabled) {
		now = countedCondition{status: cmp.Or(now.status, string(metav1.ConditionUnknown)), reason: v1alpha1.PlacementConditionSchedulingDisabled}
	}
	if now.status != "" {
		now.state = string(state)
	}
	c.count(placementsNow, key, now)
}

// remove removes a Placement that is deleted or skipped.
func (c *satisfiedGauge) remove(key types.NamespacedName) { c.set(key, "", nil) }

// resilientGauge counts Placements by their condition Resilient.
type resilientGauge struct{ conditionCounter }

// set stores a Placement's condition. A Placement without the condition is not counted.
func (c *resilientGauge) set(key types.NamespacedName, conditions []metav1.Condition) {
	now := countedCondition{}
	if condition := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionResilient); condition != nil {
		now = countedCondition{status: string(condition.Status), reason: condition.Reason}
	}
	c.count(placementsResilient, key, now)
}

// availableGauge counts ManagedClusters by their Available condition.
type availableGauge struct{ conditionCounter }

func (c *availableGauge) set(cluster *v1alpha1.ManagedCluster) {
	now := countedCondition{status: "Absent"}
	if condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable); condition != nil {
		now = countedCondition{status: string(condition.Status), reason: knownReason(condition.Reason)}
	}
	c.count(clustersNow, client.ObjectKeyFromObject(cluster), now)
}

// remove removes a deleted ManagedCluster.
func (c *availableGauge) remove(cluster *v1alpha1.ManagedCluster) {
	c.count(clustersNow, client.ObjectKeyFromObject(cluster), countedCondition{})
}

// knownReason limits the values of the label: any program may write the condition.
func knownReason(reason string) string {
	switch reason {
	case v1alpha1.ReasonClusterAvailable, v1alpha1.ReasonClusterUnavailable, v1alpha1.ReasonClusterUnreachable,
		v1alpha1.ReasonLeaseUpdateStopped, v1alpha1.ReasonKubeAPIServerUnavailable:
		return reason
	}
	return "Other"
}

// conditionCounter counts objects by the status and reason of a condition.
type conditionCounter struct {
	mu   sync.Mutex
	last map[types.NamespacedName]countedCondition
}

// countedCondition is a condition, of a Placement also with the state.
type countedCondition struct{ state, status, reason string }

func (c countedCondition) labels() []string {
	if c.state == "" {
		return []string{c.status, c.reason}
	}
	return []string{c.state, c.status, c.reason}
}

// count stores an object's condition in the gauge. An empty condition is not counted.
func (c *conditionCounter) count(gauge *prometheus.GaugeVec, key types.NamespacedName, now countedCondition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.last[key]
	if before == now {
		return
	}
	if before != (countedCondition{}) {
		gauge.WithLabelValues(before.labels()...).Dec()
		delete(c.last, key)
	}
	if now == (countedCondition{}) {
		return
	}
	if c.last == nil {
		c.last = map[types.NamespacedName]countedCondition{}
	}
	gauge.WithLabelValues(now.labels()...).Inc()
	c.last[key] = now
}
