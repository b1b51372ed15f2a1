package filters

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TaintTolerationName is the plugin's name.
const TaintTolerationName = "TaintToleration"

// TaintToleration excludes clusters with a taint that the Placement does not tolerate. NoSelect always needs a toleration;
// NoSelectIfNew needs one unless the cluster is an incumbent; PreferNoSelect never excludes, but a cluster with an untolerated
// one ranks after all others.
type TaintToleration struct{}

// NewTaintToleration is the plugin's factory.
func NewTaintToleration(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
	return TaintToleration{}, nil
}

// Name implements framework.Plugin.
func (TaintToleration) Name() string { return TaintTolerationName }

// Reads implements framework.ClusterReader: taints always count.
func (TaintToleration) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// PreFilter refuses tolerations without sense.
func (TaintToleration) PreFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	for _, t := range pl.Spec.Tolerations {
		switch {
		case t.Key == "" && t.Operator != v1alpha1.TolerationOpExists:
			return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "If the key is empty, operator must be Exists.")
		case t.Operator == v1alpha1.TolerationOpExists && t.Value != "":
			return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "If the operator is Exists, the value should be empty.")
		}
	}
	return nil, nil
}

// Filter implements framework.FilterPlugin.
func (TaintToleration) Filter(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	if !cluster.Tainted {
		return nil
	}
	snapshot := state.Snapshot()
	incumbent := snapshot.Subject.Incumbents.Has(cluster.Index)
	var until time.Time
	for i, taint := range cluster.Spec.Taints {
		tolerated, end := tolerates(pl.Spec.Tolerations, taint, cluster.TaintTimes[i], snapshot.Now)
		switch {
		case taint.Effect == v1alpha1.TaintEffectPreferNoSelect:
			if !tolerated {
				state.Demote(cluster.Index)
			} else if !end.IsZero() {
				state.RanksUntil(cluster.Index, end)
			}
		case taint.Effect == v1alpha1.TaintEffectNoSelectIfNew && incumbent:
		case !tolerated:
			return framework.NewStatus(framework.Unschedulable, fmt.Sprintf("taint %s is not tolerated", taintText(taint)))
		case taint.Effect == v1alpha1.TaintEffectNoSelectIfNew:
			// Once selected, the cluster is an incumbent, and the end of the toleration changes nothing.
		case !end.IsZero() && (until.IsZero() || end.Before(until)):
			until = end
		}
	}
	if !until.IsZero() {
		state.HoldsUntil(cluster.Index, until)
	}
	return nil
}

// Relax tolerates what is not tolerated.
func (TaintToleration) Relax(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) []framework.Relaxation {
	snapshot := state.Snapshot()
	incumbent := snapshot.Subject.Incumbents.Has(cluster.Index)
	changed := pl.DeepCopy()
	var texts []string
	for i, taint := range cluster.Spec.Taints {
		tolerated, _ := tolerates(changed.Spec.Tolerations, taint, cluster.TaintTimes[i], snapshot.Now)
		if tolerated || taint.Effect == v1alpha1.TaintEffectNoSelectIfNew && incumbent {
			continue
		}
		changed.Spec.Tolerations = append(changed.Spec.Tolerations, v1alpha1.Toleration{
			Key: taint.Key, Operator: v1alpha1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
		})
		texts = append(texts, "tolerate "+taintText(taint))
	}
	if len(texts) == 0 {
		return nil
	}
	return []framework.Relaxation{{Text: strings.Join(texts, " and "), Placement: changed}}
}

// tolerates says whether some toleration matches the taint, and until when the first that does so holds; the zero time is
// forever.
func tolerates(tolerations []v1alpha1.Toleration, taint v1alpha1.Taint, added, now time.Time) (bool, time.Time) {
	for _, t := range tolerations {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case v1alpha1.TolerationOpExists:
		case "", v1alpha1.TolerationOpEqual:
			if t.Value != taint.Value {
				continue
			}
		default:
			continue
		}
		if t.TolerationSeconds == nil {
			return true, time.Time{}
		}
		if end := addSeconds(added, *t.TolerationSeconds); now.Before(end) {
			return true, end
		}
	}
	return false, time.Time{}
}

// addSeconds does not overflow: a toleration of more than 250 years is one for ever.
func addSeconds(t time.Time, seconds int64) time.Time {
	const most = int64(250 * 365 * 24 * time.Hour / time.Second)
	return t.Add(time.Duration(max(min(seconds, most), -most)) * time.Second)
}

func taintText(t v1alpha1.Taint) string {
	if t.Value == "" {
		return fmt.Sprintf("%s:%s", t.Key, t.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
}
