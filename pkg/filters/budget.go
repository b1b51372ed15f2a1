package filters

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/pkg/clustercel"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// What predicates may cost. A unit is CEL's, about 0.15 microseconds, or one requirement of a
// selector.
const (
	// All candidates of a Placement together may cost budgetBase and budgetEach more for each: ten
	// clusters at the limit of an expression, or as many as there are at a thousandth of it.
	budgetBase = 10 * clustercel.CostLimit
	budgetEach = 1_000
	// sliceCost is what one cycle spends before it lets others run, for slicePause. An expression
	// that was begun is ended.
	sliceCost  = clustercel.CostLimit / 2
	slicePause = 500 * time.Millisecond
	// freeRequirements are those of selectors that are judged without being charged: no fleet is
	// large enough for them to tell.
	freeRequirements = 1_000
	// yieldEach is how many clusters are judged between two looks at the clock, where nothing is
	// charged.
	yieldEach = 16
	// maxSelectorValues bounds the requirements of all selectors of a Placement together with their
	// values, which are compiled without a pause.
	maxSelectorValues = 10_000
	// maxExpressions and maxExpressionBytes bound what a Placement may have compiled.
	maxExpressions     = 100
	maxExpressionBytes = 64 << 10
)

// ledger is what is known of the candidates of a Placement whose predicates are charged. It covers
// nothing but candidates: the cost of clusters that the Placement may not use would disclose their
// existence.
type ledger struct {
	matches, judged framework.Bitset
	// next is the entry of the inventory's change log up to which it is kept, once it is valid.
	next  uint64
	valid bool
	costs []uint64
	total uint64
	// begun is the cluster at which a cycle stopped, with the answers of the expressions evaluated
	// so far, in order, and their cost.
	begun   *framework.Cluster
	answers []bool
	owed    uint64
}

func (l *ledger) clone() ledger {
	c := *l
	c.judged, c.costs, c.answers = l.judged.Clone(), append([]uint64(nil), l.costs...), append([]bool(nil), l.answers...)
	return c
}

// forget drops what is known of a cluster.
func (l *ledger) forget(i int) {
	if l.begun != nil && l.begun.Index == i {
		l.begun, l.answers, l.owed = nil, nil, 0
	}
	if l.judged.Has(i) {
		l.judged.Unset(i)
		l.total -= l.costs[i]
	}
}

func (l *ledger) enter(i int) {
	for i >= len(l.costs) {
		l.costs = append(l.costs, 0)
	}
	l.judged = l.judged.Set(i)
	l.costs[i] = l.owed
	l.total += l.owed
	l.begun, l.answers, l.owed = nil, nil, 0
}

// judgement is one cycle's work on the ledger.
type judgement struct {
	*compiled
	snapshot   *framework.Snapshot
	candidates int
	// spent is this cycle's cost, allowed how much that may become.
	spent, allowed uint64
	budget         uint64
	// evaluated is true once this part has evaluated an expression.
	evaluated bool
	// asked counts the expressions of the cluster in hand.
	asked int
	// yield says that this cycle has taken as much time as it may.
	yield func() bool
	// stopped says why the cluster in hand cannot be judged now.
	stopped *framework.Status
}

// settle brings the matches up to the snapshot, for predicates that are charged. Whether the budget
// holds does not depend on the order in which clusters are judged, nor on how many cycles that
// takes.
func (c *compiled) settle(ctx context.Context, state *framework.CycleState, allowed uint64) *framework.Status {
	snapshot := state.Snapshot()
	changes, known := snapshot.Log.Since(c.next)
	if !c.valid || !known {
		c.ledger = ledger{valid: true}
	}
	c.next = snapshot.Log.Next()
	for _, change := range changes {
		c.forget(change.Index)
	}
	members := snapshot.Candidates()
	for i := range c.judged.Without(members).All {
		c.forget(i)
	}
	if c.begun != nil && !members.Has(c.begun.Index) {
		c.forget(c.begun.Index)
	}
	j := &judgement{compiled: c, snapshot: snapshot, allowed: allowed, yield: state.ShouldYield, candidates: members.Len()}
	j.budget = budgetBase + budgetEach*uint64(j.candidates)
	copied := false
	for i := range members.Without(c.judged).All {
		if status := j.over(); status != nil {
			return status
		}
		matched := j.judge(ctx, snapshot.Clusters.Get(i))
		if j.stopped != nil {
			return j.stopped
		}
		if !copied {
			// Snapshots share the set.
			c.matches, copied = c.matches.Clone(), true
		}
		if matched {
			c.matches = c.matches.Set(i)
		} else {
			c.matches.Unset(i)
		}
		c.enter(i)
	}
	return j.over()
}

// over says that the Placement costs more than it may.
func (j *judgement) over() *framework.Status {
	if j.total+j.owed <= j.budget {
		return nil
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf(
		"%s: evaluating it for %d clusters costs more than the budget of %d", j.costly(), j.candidates, j.budget))
}

// costly names what is charged.
func (c *compiled) costly() string {
	text, others := "", -1
	for _, one := range c.predicates {
		for _, e := range one.expressions {
			if others++; others == 0 {
				text = e.Excerpt()
			}
		}
	}
	switch {
	case others < 0:
		return fmt.Sprintf("%d predicates", len(c.predicates))
	case others == 0:
		return fmt.Sprintf("CEL %q", text)
	}
	return fmt.Sprintf("CEL %q, with %d more expressions", text, others)
}

// judge says whether a predicate selects the cluster, unless j is stopped before that is known.
func (j *judgement) judge(ctx context.Context, cluster *framework.Cluster) bool {
	if j.sliceOver() {
		j.stopped = stillAtIt()
		return false
	}
	if j.begun != cluster {
		j.begun, j.answers, j.owed = cluster, nil, j.requirements
		j.spent += j.requirements
	}
	j.asked = 0
	for n := range j.predicates {
		one := &j.predicates[n]
		if !one.fits(cluster) {
			continue
		}
		selected := true
		for _, e := range one.expressions {
			if selected = j.ask(ctx, e, cluster); !selected {
				break
			}
		}
		if j.stopped != nil || selected {
			return selected
		}
	}
	return false
}

// sliceOver says whether the rest is for a later cycle, by cost or by time. Each cycle does some of
// the work.
func (j *judgement) sliceOver() bool { return j.spent >= j.allowed || j.spent > 0 && j.yield() }

func stillAtIt() *framework.Status {
	return framework.Unfinished("predicates that cost much are still being evaluated")
}

// ask evaluates an expression, unless that was done for this cluster in an earlier cycle.
func (j *judgement) ask(ctx context.Context, e *clustercel.Expression, cluster *framework.Cluster) bool {
	j.asked++
	if j.asked <= len(j.answers) {
		return j.answers[j.asked-1]
	}
	switch {
	case j.total+j.owed > j.budget:
		j.stopped = j.over()
		return false
	case j.sliceOver():
		j.stopped = stillAtIt()
		return false
	}
	matched, cost, _ := matches(ctx, e, j.snapshot, cluster)
	if ctx.Err() != nil {
		// It may have been interrupted. If it was not the first of this part, the next part begins
		// with it and has all the time for it.
		j.stopped = framework.AsStatus(fmt.Errorf("evaluating CEL: %w", context.Cause(ctx)))
		if j.evaluated {
			j.stopped = stillAtIt()
		}
		return false
	}
	j.evaluated = true
	j.answers = append(j.answers, matched)
	j.owed += cost
	j.spent += cost
	return matched
}
