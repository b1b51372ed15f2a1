package controllers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/shadow"
)

// addShadows adds what decides with shadow profiles; nil if there are none, or no workers for them.
func addShadows(ctx context.Context, mgr ctrl.Manager, placements *feed, o Options) (*shadow.Shadows, error) {
	shadows.Store(nil)
	if o.ShadowWorkers == 0 {
		return nil, nil
	}
	registry := builtin.Registry()
	if err := registry.Merge(o.Plugins); err != nil {
		return nil, err
	}
	s, err := shadow.New(o.ShadowWorkers, o.Log.WithName("shadows"), func() (map[string]*scheduler.Profile, error) {
		return scheduler.NewProfiles(ctx, o.Config, builtin.DefaultProfile(), registry, &framework.Handle{Client: mgr.GetClient(), AskExtender: placements.askExtender})
	})
	if err != nil || s == nil {
		return nil, err
	}
	shadows.Store(s)
	if recorder := recorded.Load(); recorder != nil {
		s.OnShadow = func(d shadow.Decision) { recordShadow(recorder, d) }
	}
	if err := mgr.Add(s); err != nil {
		return nil, fmt.Errorf("setting up shadows: %w", err)
	}
	return s, nil
}

// recordShadow records a decision of a shadow, unless it failed.
func recordShadow(recorder *recording.Recorder, d shadow.Decision) {
	if d.Failure != "" {
		return
	}
	onlyProfile, onlyShadow := changes.Minus(d.ProfileClusters, d.ShadowClusters), changes.Minus(d.ShadowClusters, d.ProfileClusters)
	recorder.Shadow(&recording.Shadow{
		Namespace: d.Placement.Namespace, Name: d.Placement.Name, Profile: d.Shadow, Agrees: len(onlyProfile)+len(onlyShadow) == 0,
		OnlyReal: onlyProfile, OnlyHere: onlyShadow,
	})
}

// answerShadows answers a PlacementExplanation about shadow profiles. It runs no cycle: the
// decisions were compared when they were made.
func (r *ExplanationReconciler) answerShadows(
	ctx context.Context, ns *explainedNamespace, e *berthv1alpha1.PlacementExplanation,
) (time.Duration, error) {
	c := metav1.Condition{Type: berthv1alpha1.ExplanationExplained, Status: metav1.ConditionFalse, ObservedGeneration: e.Generation}
	profile := ""
	if e.Spec.Placement != "" {
		pl := r.Explainer.Inventory.Placement(types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Placement})
		switch {
		case pl == nil && r.Now().Sub(e.CreationTimestamp.Time) < unknownTime:
			return unknownInterval, nil
		case pl == nil:
			c.Reason, c.Message = berthv1alpha1.ReasonPlacementNotFound, explanation.NotFoundMessage(e)
		default:
			profile = scheduler.ProfileName(pl)
		}
	}
	var all []berthv1alpha1.ShadowComparison
	switch {
	case c.Reason != "":
	case !r.Shadows.HasShadow(profile):
		c.Reason, c.Message = berthv1alpha1.ReasonNoShadow, noShadowMessage(profile)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, berthv1alpha1.ReasonCompared
		all, c.Message = explanation.ShadowsOf(r.Shadows.Comparisons(e.Namespace, e.Spec.Placement), e.Spec.Placement == "")
	}
	err := r.write(ctx, e, func(status *berthv1alpha1.PlacementExplanationStatus) {
		status.DecidedTime, status.Shadows = &metav1.Time{Time: r.Now()}, all
		v1alpha1.SetCondition(&status.Conditions, c)
	})
	if err == nil {
		ns.done[e.UID] = true
	}
	return time.Millisecond, err
}

func noShadowMessage(profile string) string {
	if profile == "" {
		return "The controller has no shadow profiles: none has shadowOf in its configuration, or --shadow-workers is 0"
	}
	return v1alpha1.CutMessage(fmt.Sprintf("The profile %q of the Placement has no shadow: no profile has it as shadowOf, or --shadow-workers is 0", profile))
}

// shadows are those of the manager that was built last. Only tests build more than one.
var shadows atomic.Pointer[shadow.Shadows]

// shadowMetric is a metric about shadows that is read when metrics are read.
type shadowMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// read returns the values of a shadow by the last label.
	read func(shadow.Totals) map[string]int64
}

var (
	shadowPlacements = &shadowMetric{
		desc: prometheus.NewDesc("berth_shadow_placements",
			"Placements whose profile has a shadow, by how both decided last (Agrees, Differs, Pending, Failed).", []string{"profile", "shadow", "result"}, nil),
		kind: prometheus.GaugeValue,
		read: func(t shadow.Totals) map[string]int64 {
			counts := map[string]int64{}
			for result, n := range t.Placements {
				counts[string(result)] = int64(n)
			}
			return counts
		},
	}
	shadowDecisions = &shadowMetric{
		desc: prometheus.NewDesc("berth_shadow_decisions_total",
			"Decisions of profiles with a shadow, by whether the shadow decided the same Snapshot (Compared), failed (Failed) or had no time (Skipped).",
			[]string{"profile", "shadow", "result"}, nil),
		kind: prometheus.CounterValue,
		read: func(t shadow.Totals) map[string]int64 {
			return map[string]int64{"Compared": t.Compared, "Skipped": t.Skipped, "Failed": t.Failed}
		},
	}
	shadowMoves = &shadowMetric{
		desc: prometheus.NewDesc("berth_shadow_moves_total",
			"Clusters that the compared decisions moved, by who moved them (Profile, Shadow). A cluster that replaces another counts once.",
			[]string{"profile", "shadow", "by"}, nil),
		kind: prometheus.CounterValue,
		read: func(t shadow.Totals) map[string]int64 {
			return map[string]int64{"Profile": t.ProfileMoves, "Shadow": t.ShadowMoves}
		},
	}
)

// Describe implements prometheus.Collector.
func (m *shadowMetric) Describe(to chan<- *prometheus.Desc) { to <- m.desc }

// Collect implements prometheus.Collector.
func (m *shadowMetric) Collect(to chan<- prometheus.Metric) {
	for _, t := range shadows.Load().Totals() {
		for label, n := range m.read(t) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(n), t.Profile, t.Shadow, label)
		}
	}
}
