package filters

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PredicateName is the plugin's name.
const PredicateName = "Predicate"

// Predicate admits clusters that one of the Placement's predicates selects. Predicates are ORed; the label, claim and CEL
// selectors inside one are ANDed; none, or an empty one, selects all.
//
// It compiles a spec once and remembers which clusters match; a cycle judges again only clusters that changed since.
type Predicate struct {
	compiled map[types.NamespacedName]*compiled
}

// compiled is one Placement's predicates, and the clusters that match as of an entry of the inventory's change log.
type compiled struct {
	uid        types.UID
	generation int64
	spec       []v1alpha1.ClusterPredicate
	predicates []predicate
	status     *framework.Status
	cel        bool

	matches framework.Bitset
	next    uint64
	valid   bool
}

type predicate struct {
	labels, claims labels.Selector
	expressions    []*expression
}

// NewPredicate is the plugin's factory.
func NewPredicate(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
	return &Predicate{compiled: map[types.NamespacedName]*compiled{}}, nil
}

// Name implements framework.Plugin.
func (*Predicate) Name() string { return PredicateName }

// Reads implements framework.ClusterReader: the spec names it all.
func (*Predicate) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Forget implements framework.Forgetter.
func (p *Predicate) Forget(key types.NamespacedName) { delete(p.compiled, key) }

// PreFilter refuses selectors and expressions that do not compile, and admits the clusters that match.
func (p *Predicate) PreFilter(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if len(pl.Spec.Predicates) == 0 {
		return nil, framework.NewStatus(framework.Skip, "")
	}
	c := p.of(state.Snapshot())
	if c.status != nil {
		return nil, c.status
	}
	return &framework.PreFilterResult{Clusters: c.update(ctx, state.Snapshot()), Decides: true}, nil
}

// Filter judges one cluster, saying why it does not match.
func (p *Predicate) Filter(ctx context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	c := p.of(state.Snapshot())
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

// of returns the compiled form of the subject's predicates. A trial gets a form of its own: what is remembered follows the
// inventory's change log, and a trial's log has an entry that never happened.
func (p *Predicate) of(snapshot *framework.Snapshot) *compiled {
	pl, key := snapshot.Subject.Placement, snapshot.Subject.Key()
	c := p.compiled[key]
	known := c != nil && c.uid == pl.UID && c.generation == pl.Generation && samePredicates(c.spec, pl.Spec.Predicates)
	switch {
	case snapshot.Trial && known:
		own := *c
		return &own
	case snapshot.Trial:
		return compile(pl)
	case !known:
		c = compile(pl)
		p.compiled[key] = c
	}
	c.spec = pl.Spec.Predicates
	return c
}

// samePredicates compares by identity first: the inventory hands out the same object until it changes. Most changes are writes
// of the status.
func samePredicates(a, b []v1alpha1.ClusterPredicate) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || equality.Semantic.DeepEqual(a, b))
}

func compile(pl *v1alpha1.Placement) *compiled {
	c := &compiled{uid: pl.UID, generation: pl.Generation, spec: pl.Spec.Predicates}
	for _, spec := range pl.Spec.Predicates {
		s := spec.RequiredClusterSelector
		var one predicate
		var err error
		if one.labels, err = metav1.LabelSelectorAsSelector(&s.LabelSelector); err != nil {
			c.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
			return c
		}
		if one.claims, err = metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: s.ClaimSelector.MatchExpressions}); err != nil {
			c.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
			return c
		}
		for _, text := range s.CelSelector.CelExpressions {
			e, err := compileExpression(text)
			if err != nil {
				c.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
				return c
			}
			c.cel = true
			one.expressions = append(one.expressions, e)
		}
		c.predicates = append(c.predicates, one)
	}
	return c
}

// update brings the matches up to the snapshot. Snapshots share the returned set, so it is copied before it changes.
func (c *compiled) update(ctx context.Context, snapshot *framework.Snapshot) framework.Bitset {
	changes, known := snapshot.Log.Since(c.next)
	c.next = snapshot.Log.Next()
	if !c.valid || !known {
		c.valid = true
		c.matches = nil
		for i := range snapshot.Clusters.Len() {
			c.judge(ctx, snapshot, i)
		}
		return c.matches
	}
	copied := false
	for _, change := range changes {
		if !change.Selectable && !c.cel {
			continue
		}
		if !copied {
			c.matches, copied = c.matches.Clone(), true
		}
		c.judge(ctx, snapshot, change.Index)
	}
	return c.matches
}

func (c *compiled) judge(ctx context.Context, snapshot *framework.Snapshot, i int) {
	cluster := snapshot.Clusters.Get(i)
	for _, one := range c.predicates {
		if cluster != nil && one.mismatch(ctx, snapshot, cluster) == "" {
			c.matches = c.matches.Set(i)
			return
		}
	}
	c.matches.Unset(i)
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
		ok, err := e.matches(ctx, snapshot, cluster)
		if err != nil {
			return fmt.Sprintf("CEL %q: %v", e.text, err)
		}
		if !ok {
			return fmt.Sprintf("CEL %q is false", e.text)
		}
	}
	return ""
}
