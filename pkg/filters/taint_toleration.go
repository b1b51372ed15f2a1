package filters

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TaintTolerationName is the plugin's name.
const TaintTolerationName = "TaintToleration"

// TaintToleration excludes clusters with a taint that the Placement does not tolerate. NoSelect
// always needs a toleration. NoSelectIfNew needs one unless the cluster is in the published
// decision or in a held change. PreferNoSelect excludes nothing: a cluster with an untolerated one
// ranks after all others.
type TaintToleration struct{}

// Name implements framework.Plugin.
func (TaintToleration) Name() string { return TaintTolerationName }

// Describe implements framework.Describer.
func (t TaintToleration) Describe() framework.Traits {
	return framework.Traits{ForcesRemoval: t.ForcesRemoval}
}

// neverForced is ForcesRemoval of a filter whose exclusions all obey DisruptionPolicies.
func neverForced(*framework.CycleState, *v1alpha1.Placement, *framework.Cluster) framework.Forcing {
	return framework.Forcing{}
}

// ForcesRemoval is that of framework.Traits. Every NoSelect taint that is not
// tolerated forces the removal, except the one that drains the cluster and, with
// unavailableClusters: ReplaceFirst, those of clusters that are unavailable.
func (TaintToleration) ForcesRemoval(state *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) (f framework.Forcing) {
	if !cluster.Tainted {
		return f
	}
	tolerations, ok := framework.ReadAs[tolerationIndex](state, tolerationsKey)
	if !ok {
		tolerations = indexTolerations(pl.Spec.Tolerations)
	}
	snapshot := state.Snapshot()
	for i, taint := range cluster.Spec.Taints {
		if taint.Effect != v1alpha1.TaintEffectNoSelect || taint.Key == v1alpha1.DrainTaint {
			continue
		}
		added := cluster.TaintTimes[i]
		if tolerated, _ := tolerations.tolerate(taint, added, snapshot.Now); tolerated {
			continue
		}
		if taint.SaysUnavailable() && snapshot.Subject.ReplaceFirst {
			continue
		}
		end, matches := tolerations.end(taint, added)
		f.Ended = matches && !added.IsZero() && end.After(added) && (f.Ended || !f.Forces)
		f.Forces = true
		if added.After(f.Since) {
			f.Since = added
		}
	}
	return f
}

// Reads implements framework.ClusterReader: taints always count.
func (TaintToleration) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// tolerationsKey is the CycleState key of the tolerationIndex.
const tolerationsKey framework.StateKey = TaintTolerationName

// PreFilter rejects invalid tolerations.
func (TaintToleration) PreFilter(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if mistakes := validateTolerations(pl); len(mistakes) > 0 {
		return nil, framework.Misconfigured(mistakes[0])
	}
	if len(pl.Spec.Tolerations) > 0 {
		state.Write(tolerationsKey, indexTolerations(pl.Spec.Tolerations))
	}
	return nil, nil
}

// Validate implements framework.Validator.
func (TaintToleration) Validate(_ context.Context, pl *v1alpha1.Placement) field.ErrorList {
	return validateTolerations(pl)
}

var tolerationsPath = field.NewPath("spec", "tolerations")

func validateTolerations(pl *v1alpha1.Placement) (mistakes field.ErrorList) {
	for i, t := range pl.Spec.Tolerations {
		switch {
		case t.Key == "" && t.Operator != v1alpha1.TolerationOpExists:
			mistakes = append(mistakes, field.Invalid(tolerationsPath.Index(i).Child("operator"), t.Operator, "must be Exists when key is empty"))
		case t.Operator == v1alpha1.TolerationOpExists && t.Value != "":
			mistakes = append(mistakes, field.Invalid(tolerationsPath.Index(i).Child("value"), t.Value, "must be empty when operator is Exists"))
		}
	}
	return mistakes
}

// Filter implements framework.FilterPlugin.
func (TaintToleration) Filter(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	if !cluster.Tainted {
		return nil
	}
	snapshot := state.Snapshot()
	incumbent := snapshot.Subject.Incumbents.Has(cluster.Index)
	tolerations, ok := framework.ReadAs[tolerationIndex](state, tolerationsKey)
	if !ok {
		tolerations = indexTolerations(pl.Spec.Tolerations)
	}
	var until time.Time
	for i, taint := range cluster.Spec.Taints {
		tolerated, end := tolerations.tolerate(taint, cluster.TaintTimes[i], snapshot.Now)
		switch {
		case taint.Effect == v1alpha1.TaintEffectPreferNoSelect:
			if !tolerated {
				state.Demote(cluster.Index)
			} else if !end.IsZero() {
				state.SetRankExpiry(cluster.Index, end)
			}
		case taint.Effect == v1alpha1.TaintEffectNoSelectIfNew && incumbent:
		case !tolerated:
			return tolerations.untolerated(taint, cluster.TaintTimes[i])
		case taint.Effect == v1alpha1.TaintEffectNoSelectIfNew:
			// Once selected, the cluster is an incumbent, and the end of the toleration changes
			// nothing.
		case !end.IsZero() && (until.IsZero() || end.Before(until)):
			until = end
		}
	}
	if !until.IsZero() {
		state.SetFilterExpiry(cluster.Index, until)
	}
	return nil
}

// Relax adds tolerations for all taints that are not tolerated. Those of an unavailable cluster it
// removes instead: a toleration would publish a cluster that does not answer.
func (TaintToleration) Relax(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) []framework.Relaxation {
	snapshot := state.Snapshot()
	incumbent := snapshot.Subject.Incumbents.Has(cluster.Index)
	changed := pl.DeepCopy()
	var texts, available []string
	var left []int
	for i, taint := range cluster.Spec.Taints {
		tolerated, _ := indexTolerations(changed.Spec.Tolerations).tolerate(taint, cluster.TaintTimes[i], snapshot.Now)
		switch {
		case tolerated || taint.Effect == v1alpha1.TaintEffectNoSelectIfNew && incumbent:
		case taint.SaysUnavailable():
			available = []string{"the cluster is available again"}
			continue
		default:
			changed.Spec.Tolerations = append(changed.Spec.Tolerations, v1alpha1.Toleration{
				Key: taint.Key, Operator: v1alpha1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
			})
			texts = append(texts, "tolerate "+taintText(taint))
		}
		left = append(left, i)
	}
	r := framework.Relaxation{Text: strings.Join(append(available, texts...), " and ")}
	if len(texts) > 0 {
		r.Placement = changed
	}
	if available != nil {
		r.Cluster = withTaints(cluster, left)
	}
	if r.Text == "" {
		return nil
	}
	return []framework.Relaxation{r}
}

// withTaints returns the cluster with some of its taints, by index.
func withTaints(cluster *framework.Cluster, left []int) *framework.Cluster {
	object := *cluster.ManagedCluster
	object.Spec.Taints = nil
	changed := cluster.Changed(&object)
	changed.TaintTimes = nil
	for _, i := range left {
		object.Spec.Taints, changed.TaintTimes = append(object.Spec.Taints, cluster.Spec.Taints[i]), append(changed.TaintTimes, cluster.TaintTimes[i])
	}
	return changed
}

// tolerationIndex holds tolerations by what they match, so that a taint is not compared with each
// of them.
type tolerationIndex map[taintKey][]indexedToleration

// taintKey is the key, value and effect of a taint. An empty key or effect matches all. value is
// empty if exists.
type taintKey struct {
	key, value string
	exists     bool
	effect     v1alpha1.TaintEffect
}

// indexedToleration is the position of a toleration in the list and its tolerationSeconds; forever
// if it has none.
type indexedToleration struct {
	position int
	seconds  int64
	forever  bool
}

// Clone implements framework.StateData. The index does not change.
func (x tolerationIndex) Clone() framework.StateData { return x }

func indexTolerations(tolerations []v1alpha1.Toleration) tolerationIndex {
	x := tolerationIndex{}
	for i, t := range tolerations {
		at := taintKey{key: t.Key, effect: t.Effect}
		switch t.Operator {
		case v1alpha1.TolerationOpExists:
			at.exists = true
		case "", v1alpha1.TolerationOpEqual:
			at.value = t.Value
		default:
			continue
		}
		one := indexedToleration{position: i, forever: t.TolerationSeconds == nil}
		if !one.forever {
			one.seconds = *t.TolerationSeconds
		}
		same := x[at]
		// The first valid toleration counts, so one that ends no later than an earlier one is not
		// needed.
		if len(same) == 0 || !same[len(same)-1].forever && (one.forever || one.seconds > same[len(same)-1].seconds) {
			x[at] = append(same, one)
		}
	}
	return x
}

// tolerate reports whether a toleration matches the taint now, and the time until which the first
// matching one is valid; zero if it is valid forever.
func (x tolerationIndex) tolerate(taint v1alpha1.Taint, added, now time.Time) (bool, time.Time) {
	if len(x) == 0 {
		return false, time.Time{}
	}
	var first *indexedToleration
	for _, at := range matching(taint) {
		same := x[at]
		i := sort.Search(len(same), func(i int) bool { return same[i].forever || now.Before(addSeconds(added, same[i].seconds)) })
		if i < len(same) && (first == nil || same[i].position < first.position) {
			first = &same[i]
		}
	}
	switch {
	case first == nil:
		return false, time.Time{}
	case first.forever:
		return true, time.Time{}
	}
	return true, addSeconds(added, first.seconds)
}

// untolerated returns the Status for a taint that is not tolerated, with the time when the last
// toleration ran out, if there was one.
func (x tolerationIndex) untolerated(taint v1alpha1.Taint, added time.Time) *framework.Status {
	ended, matches := x.end(taint, added)
	reason := fmt.Sprintf("taint %s is not tolerated", taintText(taint))
	switch {
	case !matches:
		return framework.NewStatus(framework.Unschedulable, reason)
	case added.IsZero():
		return framework.NewStatus(framework.Unschedulable, reason+": the toleration has tolerationSeconds, and the taint has no timeAdded")
	}
	return framework.NewStatus(framework.Unschedulable, reason+": the toleration ran out at "+ended.UTC().Format(time.RFC3339)).WithEnd(ended)
}

// end returns when the last toleration of a taint ran out; matches is false if none matches it.
func (x tolerationIndex) end(taint v1alpha1.Taint, added time.Time) (ended time.Time, matches bool) {
	for _, at := range matching(taint) {
		if same := x[at]; len(same) > 0 {
			// The last one of a list is valid longest.
			if end := addSeconds(added, same[len(same)-1].seconds); !matches || end.After(ended) {
				ended, matches = end, true
			}
		}
	}
	return ended, matches
}

// matching returns the keys of the tolerations that match a taint.
func matching(taint v1alpha1.Taint) (keys [8]taintKey) {
	for i, effect := range [...]v1alpha1.TaintEffect{taint.Effect, ""} {
		copy(keys[4*i:], []taintKey{
			{key: taint.Key, value: taint.Value, effect: effect},
			{value: taint.Value, effect: effect},
			{key: taint.Key, exists: true, effect: effect},
			{exists: true, effect: effect},
		})
	}
	return keys
}

// addSeconds adds at most 250 years, so that it cannot overflow.
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

// Recheck implements framework.Rechecker. A taint that is tolerated for some time, or that only
// ranks the cluster lower, is unclear.
func (TaintToleration) Recheck(state *framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	snapshot := state.Snapshot()
	tolerations, ok := framework.ReadAs[tolerationIndex](state, tolerationsKey)
	if !ok && len(snapshot.Subject.Placement.Spec.Tolerations) > 0 {
		tolerations = indexTolerations(snapshot.Subject.Placement.Spec.Tolerations)
	}
	incumbents, now := snapshot.Subject.Incumbents, snapshot.Now
	return func(c *framework.Cluster) framework.Passing {
		if !c.Tainted {
			return framework.Passes
		}
		result := framework.Passes
		for i, taint := range c.Spec.Taints {
			tolerated, end := tolerations.tolerate(taint, c.TaintTimes[i], now)
			switch {
			case taint.Effect == v1alpha1.TaintEffectNoSelectIfNew && incumbents.Has(c.Index):
			case tolerated && end.IsZero():
			case tolerated || taint.Effect == v1alpha1.TaintEffectPreferNoSelect:
				result = framework.Unclear
			default:
				return framework.Excluded
			}
		}
		return result
	}, true
}
