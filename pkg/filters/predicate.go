package filters

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/clustercel"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PredicateName is the plugin's name.
const PredicateName = "Predicate"

// Predicate admits clusters that one of the Placement's predicates selects. Predicates are ORed;
// the label, claim and CEL selectors inside one are ANDed; none, or an empty one, selects all.
//
// It compiles a spec once and remembers which candidates match; a cycle judges again only those
// that came or changed since. Placements with the same selectors share what is remembered, so that
// a fleet is judged once for all of them.
//
// What CEL and very many selectors may cost is bounded, and one cycle does a part of it only, for
// cycles are serial.
type Predicate struct {
	compiled map[types.NamespacedName]*compiled
	// verdicts are by the text of the selectors.
	verdicts map[string]*verdicts
	// slice is what one cycle may spend on predicates that are charged.
	slice uint64

	// ahead says that what takes long to compile is compiled by Prepare only.
	ahead bool
	// filtering guards what is remembered between calls of Filter, which may run at the same time.
	// It matters where PreFilter is disabled; else PreFilter has compiled everything before.
	filtering sync.Mutex
	// mu guards prepared, what Prepare compiled. All else is used in cycles, which are serial.
	mu       sync.Mutex
	prepared map[types.NamespacedName]*compiled
}

// verdicts say which clusters selectors match, of those judged so far, as of an entry of the
// inventory's change log.
type verdicts struct {
	text string
	// users counts the Placements that share them.
	users           int
	matches, judged framework.Bitset
	next            uint64
}

// NewPredicate is the plugin's factory.
func NewPredicate(_ context.Context, _ json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	p := &Predicate{
		compiled: map[types.NamespacedName]*compiled{}, verdicts: map[string]*verdicts{}, slice: math.MaxUint64,
		prepared: map[types.NamespacedName]*compiled{},
	}
	if handle != nil && handle.Client != nil {
		// In a simulation nobody waits.
		p.slice, p.ahead = sliceCost, true
	}
	return p, nil
}

// Name implements framework.Plugin.
func (*Predicate) Name() string { return PredicateName }

// Reads implements framework.ClusterReader: the spec names it all.
func (*Predicate) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Forget implements framework.Forgetter.
func (p *Predicate) Forget(key types.NamespacedName) {
	p.drop(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.prepared, key)
}

func (p *Predicate) drop(key types.NamespacedName) {
	if c := p.compiled[key]; c != nil {
		delete(p.compiled, key)
		p.leave(c)
	}
}

// share has a Placement use the verdicts of all that have the same selectors.
func (p *Predicate) share(c *compiled) {
	if c.charged {
		return
	}
	if others := p.verdicts[c.verdicts.text]; others != nil {
		c.verdicts = others
	} else {
		p.verdicts[c.verdicts.text] = c.verdicts
	}
	c.verdicts.users++
}

// leave ends that. What nobody uses is forgotten.
func (p *Predicate) leave(c *compiled) {
	if c.charged {
		return
	}
	if c.verdicts.users--; c.verdicts.users == 0 {
		delete(p.verdicts, c.verdicts.text)
	}
}

// PreFilter refuses selectors and expressions that do not compile, and admits the clusters that
// match.
func (p *Predicate) PreFilter(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if len(pl.Spec.Predicates) == 0 {
		return nil, framework.NewStatus(framework.Skip, "")
	}
	c := p.of(state.Snapshot())
	if c == nil {
		state.RequeueAt(state.Snapshot().Now.Add(slicePause))
		return nil, framework.Unfinished("predicates are still being compiled")
	}
	if c.status != nil {
		return nil, c.status
	}
	if !c.charged {
		if !c.verdicts.update(state.Snapshot(), c.fits, state.ShouldYield) {
			state.RequeueAt(state.Snapshot().Now.Add(slicePause))
			return nil, stillAtIt()
		}
		return &framework.PreFilterResult{Clusters: c.verdicts.matches, SkipFilter: true}, nil
	}
	if status := c.settle(ctx, state, p.slice); status != nil {
		if status.Code() == framework.Pending {
			state.RequeueAt(state.Snapshot().Now.Add(slicePause))
		}
		return nil, status
	}
	return &framework.PreFilterResult{Clusters: c.matches, SkipFilter: true}, nil
}

// Filter judges one cluster, saying why it does not match.
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

// of returns the compiled form of the subject's predicates, nil while Prepare has not compiled
// them. A trial gets a form of its own: what is remembered follows the inventory's change log, and
// a trial's log has an entry that never happened.
func (p *Predicate) of(snapshot *framework.Snapshot) *compiled {
	pl, key := snapshot.Subject.Placement, snapshot.Subject.Key()
	c := p.compiled[key]
	known := c.isOf(pl)
	switch {
	case snapshot.Trial && known:
		own := *c
		own.verdicts, own.ledger = c.verdicts.clone(), c.clone()
		return &own
	case snapshot.Trial:
		return compile(pl)
	case !known:
		if c = p.take(pl); c == nil {
			return nil
		}
		p.drop(key)
		p.share(c)
		p.compiled[key] = c
	}
	c.spec = pl.Spec.Predicates
	return c
}

// take returns a compiled form that no cycle has used; nil if Prepare has to make it.
func (p *Predicate) take(pl *v1alpha1.Placement) *compiled {
	if !p.ahead || !takesLong(pl.Spec.Predicates) {
		return compile(pl)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.prepared[nameOf(pl)]; c.isOf(pl) {
		return c
	}
	return nil
}

// Prepared implements framework.Preparer.
func (p *Predicate) Prepared(pl *v1alpha1.Placement) bool {
	if !p.ahead || !takesLong(pl.Spec.Predicates) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prepared[nameOf(pl)].isOf(pl)
}

// Prepare implements framework.Preparer. Expressions that were compiled before are found again by
// their text.
func (p *Predicate) Prepare(pl *v1alpha1.Placement, yield func() bool) (done bool) {
	c := compileUntil(pl, yield)
	if c == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared[nameOf(pl)] = c
	return true
}

func nameOf(pl *v1alpha1.Placement) types.NamespacedName {
	return types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
}

// update judges the candidates of a snapshot that are not judged yet, or changed since. It is false
// if yield ended it before all were judged: the next update continues. Snapshots share the matches,
// so they are copied before they change; what they say of clusters that are no candidates means
// nothing.
func (v *verdicts) update(snapshot *framework.Snapshot, fits func(*framework.Cluster) bool, yield func() bool) (done bool) {
	changes, known := snapshot.Log.Since(v.next)
	v.next = snapshot.Log.Next()
	if !known {
		v.judged = nil
	}
	for _, change := range changes {
		if change.Selectable {
			v.judged.Unset(change.Index)
		}
	}
	candidates := snapshot.Candidates()
	if v.judged.Covers(candidates) {
		return true
	}
	due := candidates.Without(v.judged)
	v.matches = v.matches.Clone()
	asked, judged := 0, framework.Bitset{}
	for i := range due.All {
		if asked++; asked%yieldEach == 0 && yield() {
			v.judged = v.judged.Or(judged)
			return false
		}
		judged = judged.Set(i)
		if fits(snapshot.Clusters.Get(i)) {
			v.matches = v.matches.Set(i)
		} else {
			v.matches.Unset(i)
		}
	}
	v.judged = v.judged.Or(due)
	return true
}

func (v *verdicts) clone() *verdicts {
	c := *v
	c.judged = v.judged.Clone()
	return &c
}

func (c *compiled) fits(cluster *framework.Cluster) bool {
	for i := range c.predicates {
		if c.predicates[i].fits(cluster) {
			return true
		}
	}
	return false
}

// fits says whether the selectors match.
func (p *predicate) fits(cluster *framework.Cluster) bool {
	return p.labels.Matches(labels.Set(cluster.Labels)) && p.claims.Matches(labels.Set(cluster.Claims))
}

// mismatch says in words why the cluster is not selected; empty when it is.
func (p *predicate) mismatch(ctx context.Context, snapshot *framework.Snapshot, cluster *framework.Cluster) string {
	if !p.labels.Matches(labels.Set(cluster.Labels)) {
		return "labels do not match " + p.labels.String()
	}
	if !p.claims.Matches(labels.Set(cluster.Claims)) {
		return "claims do not match " + p.claims.String()
	}
	for _, e := range p.expressions {
		ok, _, err := matches(ctx, e, snapshot, cluster)
		if err != nil {
			return fmt.Sprintf("CEL %q: %v", e.Text(), err)
		}
		if !ok {
			return fmt.Sprintf("CEL %q is false", e.Text())
		}
	}
	return ""
}

// matches evaluates an expression for one cluster of a snapshot.
func matches(
	ctx context.Context, e *clustercel.Expression, snapshot *framework.Snapshot, cluster *framework.Cluster,
) (matched bool, cost uint64, err error) {
	object, err := cluster.Unstructured(clustercel.Render)
	if err != nil {
		return false, 1, err
	}
	return e.Matches(ctx, &clustercel.Cluster{
		Name: cluster.Name, Object: object,
		Scores: func(name string) *v1alpha1.AddOnPlacementScore { return snapshot.Scores[name].Get(cluster.Index) },
	})
}
