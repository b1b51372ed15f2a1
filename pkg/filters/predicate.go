package filters

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/clustercel"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PredicateName is the plugin's name.
const PredicateName = "Predicate"

// Predicate excludes clusters that none of the Placement's predicates selects. The label, claim and
// CEL selectors in one predicate are ANDed. Without predicates, all clusters pass.
//
// It compiles a spec once and caches which candidates match; a cycle evaluates only new and changed
// candidates. Placements with the same selectors share a cache. The cost of CEL and of very many
// requirements is limited, and is spread over several cycles.
type Predicate struct {
	compiled map[types.NamespacedName]*compiled
	*matcher

	// filtering protects compiled and caches in concurrent calls of Filter. It is needed only if
	// PreFilter is disabled; otherwise PreFilter has compiled everything.
	filtering sync.Mutex
	// preparing protects prepared, the results of Prepare. All other fields are used only in
	// cycles, which are serial.
	preparing sync.Mutex
	prepared  map[types.NamespacedName]*compiled
}

// NewPredicate is the plugin's factory.
func NewPredicate(_ context.Context, _ json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	return &Predicate{
		compiled: map[types.NamespacedName]*compiled{}, matcher: newMatcher(handle),
		prepared: map[types.NamespacedName]*compiled{},
	}, nil
}

// Name implements framework.Plugin.
func (*Predicate) Name() string { return PredicateName }

// Reads implements framework.ClusterReader: the spec names it all.
func (*Predicate) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Forget implements framework.Forgetter.
func (p *Predicate) Forget(key types.NamespacedName) {
	p.drop(key)
	p.preparing.Lock()
	defer p.preparing.Unlock()
	delete(p.prepared, key)
}

func (p *Predicate) drop(key types.NamespacedName) {
	if c := p.compiled[key]; c != nil {
		delete(p.compiled, key)
		p.release(c.selectorMatches)
		p.takeBack(key)
	}
}

// PreFilter rejects selectors and expressions that do not compile, and returns the clusters that
// match.
func (p *Predicate) PreFilter(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if len(pl.Spec.Predicates) == 0 {
		if !state.Snapshot().Trial {
			p.Forget(nameOf(pl))
		}
		return nil, skip
	}
	c := p.of(state.Snapshot())
	if c == nil {
		state.RequeueAt(state.Snapshot().Now.Add(slicePause))
		return nil, framework.Unfinished("predicates are still being compiled")
	}
	if c.status != nil {
		return nil, c.status
	}
	matches, status := p.update(ctx, state, c.selectorMatches)
	if status != nil {
		return nil, status
	}
	return &framework.PreFilterResult{Clusters: matches, SkipFilter: true}, nil
}

// Filter evaluates one cluster and returns the reason if it does not match.
func (p *Predicate) Filter(ctx context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	p.filtering.Lock()
	c := p.of(state.Snapshot())
	p.filtering.Unlock()
	if c == nil {
		return framework.Unfinished("predicates are still being compiled")
	}
	if c.status != nil || len(c.predicates) == 0 {
		return c.status
	}
	reasons := make([]string, 0, len(c.predicates))
	for _, one := range c.predicates {
		reason := one.mismatch(ctx, state.Snapshot(), cluster)
		if reason == "" {
			return nil
		}
		reasons = append(reasons, reason)
	}
	return framework.NewStatus(framework.Unschedulable, strings.Join(reasons, "; "))
}

// of returns the compiled predicates of the Placement; nil if Prepare has not compiled them yet. A
// trial gets its own copy, because its change log has an entry that the inventory's log does not
// have.
func (p *Predicate) of(snapshot *framework.Snapshot) *compiled {
	pl, key := snapshot.Subject.Placement, snapshot.Subject.Key()
	c := p.compiled[key]
	known := c.isCompiledFrom(pl)
	switch {
	case snapshot.Trial && known:
		own := *c
		own.selectorMatches = p.trial(key, c.selectorMatches)
		return &own
	case snapshot.Trial:
		return compile(pl)
	case !known:
		if c = p.compiledForm(pl); c == nil {
			return nil
		}
		p.drop(key)
		p.share(c.selectorMatches)
		p.compiled[key] = c
	}
	// Prepare reads it.
	p.preparing.Lock()
	defer p.preparing.Unlock()
	c.spec = pl.Spec.Predicates
	return c
}

// compiledForm returns newly compiled predicates; nil if Prepare must compile them.
func (p *Predicate) compiledForm(pl *v1alpha1.Placement) *compiled {
	if !p.prepares || !isExpensive(pl.Spec.Predicates) {
		return compile(pl)
	}
	p.preparing.Lock()
	defer p.preparing.Unlock()
	if c := p.prepared[nameOf(pl)]; c.isCompiledFrom(pl) {
		return c
	}
	return nil
}

// Validate implements framework.Validator. It compiles at least one expression.
func (p *Predicate) Validate(ctx context.Context, pl *v1alpha1.Placement) field.ErrorList {
	if c := compileUntil(pl, func() bool { return ctx.Err() != nil }); c != nil && c.mistake != nil {
		return field.ErrorList{c.mistake}
	}
	return nil
}

// Prepared implements framework.Preparer.
func (p *Predicate) Prepared(pl *v1alpha1.Placement) bool {
	return p.isCompiled(pl) && !p.hasCostlyWork(nameOf(pl))
}

func (p *Predicate) isCompiled(pl *v1alpha1.Placement) bool {
	if !p.prepares || !isExpensive(pl.Spec.Predicates) {
		return true
	}
	p.preparing.Lock()
	defer p.preparing.Unlock()
	return p.prepared[nameOf(pl)].isCompiledFrom(pl)
}

// Prepare implements framework.Preparer. clustercel caches compiled expressions by their text.
func (p *Predicate) Prepare(pl *v1alpha1.Placement, yield func() bool) (done bool) {
	p.evaluateOutside(nameOf(pl), pl, yield)
	if p.isCompiled(pl) {
		return true
	}
	c := compileUntil(pl, yield)
	if c == nil {
		return false
	}
	p.preparing.Lock()
	defer p.preparing.Unlock()
	p.prepared[nameOf(pl)] = c
	return true
}

func nameOf(pl *v1alpha1.Placement) types.NamespacedName {
	return types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
}

// selectorsMatch reports whether the label and claim selectors match.
func (p *predicate) selectorsMatch(cluster *framework.Cluster) bool {
	return p.labels.Matches(labels.Set(cluster.Labels)) && p.claims.Matches(labels.Set(cluster.Claims))
}

// mismatch returns why the cluster is not selected; empty if it is.
func (p *predicate) mismatch(ctx context.Context, snapshot *framework.Snapshot, cluster *framework.Cluster) string {
	if !p.labels.Matches(labels.Set(cluster.Labels)) {
		return "labels do not match " + p.labels.String()
	}
	if !p.claims.Matches(labels.Set(cluster.Claims)) {
		return "claims do not match " + p.claims.String()
	}
	for _, e := range p.expressions {
		ok, _, err := matchesCEL(ctx, e, snapshot, cluster, false)
		if err != nil {
			return fmt.Sprintf("CEL %q: %v", e.Text(), err)
		}
		if !ok {
			return fmt.Sprintf("CEL %q is false", e.Text())
		}
	}
	return ""
}

// maxQuickSize is the size of a cluster, in entries of its lists and maps, up to which a cycle
// renders it for CEL, which takes about a microsecond for each.
const maxQuickSize = 1_000

// matchesCEL evaluates an expression for one cluster of a Snapshot. If quick, it returns ErrCostly
// for one that costs more than QuickLimit, or if a large cluster has not been rendered yet.
func matchesCEL(
	ctx context.Context, e *clustercel.Expression, snapshot *framework.Snapshot, cluster *framework.Cluster, quick bool,
) (matched bool, cost uint64, err error) {
	if quick && cluster.Size() > maxQuickSize && !cluster.IsRendered() {
		return false, 0, clustercel.ErrCostly
	}
	object, err := cluster.Unstructured(clustercel.Render)
	if err != nil {
		return false, 1, err
	}
	input := &clustercel.Cluster{
		Name: cluster.Name, Object: object,
		Scores: func(name string) *v1alpha1.AddOnPlacementScore { return snapshot.Scores[name].Get(cluster.Index) },
	}
	if quick {
		return e.MatchesQuickly(ctx, input)
	}
	return e.Matches(ctx, input)
}

// recheckRequirements is the number of requirements of a Placement, ten values counting as one, up
// to which Recheck evaluates them for each changed cluster, with the inventory locked. More are
// left to attempts, whose time counts for the namespace.
const recheckRequirements = 50

// Recheck implements framework.Rechecker for label and claim selectors that are short.
func (p *Predicate) Recheck(state *framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	pl := state.Snapshot().Subject.Placement
	if len(pl.Spec.Predicates) == 0 {
		return nil, true
	}
	c := p.compiled[nameOf(pl)]
	if !c.isCompiledFrom(pl) || c.status != nil || c.charged || c.requirements > recheckRequirements {
		return nil, false
	}
	matches := c.selectorMatches
	return func(cluster *framework.Cluster) framework.Passing {
		if matches.selectorsMatch(cluster) {
			return framework.Passes
		}
		return framework.Excluded
	}, true
}
