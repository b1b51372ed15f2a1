package filters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/pkg/clustercel"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Limits of the cost of predicates. A unit is CEL's, about 0.15 microseconds, or one requirement of
// a selector.
const (
	// The budget for all candidates of a Placement is budgetBase plus budgetEach for each
	// candidate: ten clusters at the cost limit of an expression, or any number at a thousandth of
	// it.
	budgetBase = 10 * clustercel.CostLimit
	budgetEach = 1_000
	// cycleCost is the cost after which a cycle stops evaluating. Prepare continues outside of
	// cycles up to a cost of sliceCost, and the next cycle after shortPause; without Prepare, after
	// slicePause. A cycle evaluates only expressions that cost less than QuickLimit. An expression
	// that was started is finished.
	cycleCost  = 50_000
	sliceCost  = clustercel.CostLimit / 2
	slicePause = 500 * time.Millisecond
	// shortPause is the pause if evaluations are not charged and were interrupted all the same, as
	// on a busy machine, or if Prepare continues: the sooner the next cycle, the fewer clusters
	// have changed since their evaluation.
	shortPause = 20 * time.Millisecond
	// maxLost is how many results in sequence may be lost because their cluster changed before the
	// next cycle. Then a cycle evaluates clusters itself whose last evaluation cost at most
	// lostCost, about 15 ms, so that one that changes all the time does not keep its Placements
	// undecided.
	maxLost  = 5
	lostCost = 100_000
	// freeRequirements is the number of selector requirements up to which evaluations are not
	// charged, because their cost is negligible on any fleet.
	freeRequirements = 1_000
	// yieldEach is the number of clusters between two checks of the clock, if evaluations are not
	// charged.
	yieldEach = 16
	// maxSelectorValues is the maximum number of requirements and values in all selectors of a
	// Placement. They are compiled without a pause.
	maxSelectorValues = 10_000
	// maxExpressions and maxExpressionBytes are the maximum number and total length of the CEL
	// expressions of a Placement.
	maxExpressions     = 100
	maxExpressionBytes = 64 << 10
)

// evaluationState holds the results and costs of evaluating the candidates of a Placement whose
// predicates are charged. It contains only candidates, because the cost of other clusters would
// disclose their existence.
type evaluationState struct {
	matches, evaluated framework.Bitset
	// next is the number of the first entry of the inventory's change log that is not applied yet.
	next  uint64
	costs []uint64
	total uint64
	// current is the cluster at which the last cycle stopped, with the results of the expressions
	// that were already evaluated, in order, and their cost.
	current     *framework.Cluster
	answers     []bool
	currentCost uint64
	// lost is the number of unfinished cycles in sequence before which a result was forgotten.
	lost int
}

func (e *evaluationState) clone() evaluationState {
	c := *e
	c.evaluated, c.costs, c.answers = e.evaluated.Clone(), append([]uint64(nil), e.costs...), append([]bool(nil), e.answers...)
	return c
}

// forget drops the result and the cost of a cluster. It reports whether there was any.
func (e *evaluationState) forget(i int) bool {
	begun := e.current != nil && e.current.Index == i
	if begun {
		e.current, e.answers, e.currentCost = nil, nil, 0
	}
	if !e.evaluated.Has(i) {
		return begun
	}
	e.evaluated.Unset(i)
	e.total -= e.costs[i]
	return true
}

// costsLittle reports whether the last evaluation of a cluster cost at most lostCost.
func (e *evaluationState) costsLittle(i int) bool {
	return i < len(e.costs) && e.costs[i] > 0 && e.costs[i] <= lostCost
}

func (e *evaluationState) store(i int) {
	for i >= len(e.costs) {
		e.costs = append(e.costs, 0)
	}
	e.evaluated = e.evaluated.Set(i)
	e.costs[i] = e.currentCost
	e.total += e.currentCost
	e.current, e.answers, e.currentCost = nil, nil, 0
}

// evaluationCycle is the work of one cycle on an evaluationState.
type evaluationCycle struct {
	*selectorMatches
	snapshot   *framework.Snapshot
	candidates framework.Bitset
	// spent is the cost of this cycle, allowed its maximum.
	spent, allowed uint64
	budget         uint64
	// quick is true if costly expressions are left to evaluateOutside, except, if losing is true,
	// those of clusters that are known to cost at most lostCost.
	quick, losing bool
	// progressed is true once this cycle has evaluated an expression.
	progressed bool
	// expression counts the expressions of the current cluster.
	expression int
	// yield reports whether the cycle must end its part of the work.
	yield func() bool
	// stopped is the reason why the current cluster cannot be evaluated in this cycle.
	stopped *framework.Status
}

// updateMatches evaluates the candidates that are new or have changed, for predicates that are
// charged. The result depends neither on the order of the clusters nor on the number of cycles.
func (c *selectorMatches) updateMatches(ctx context.Context, state *framework.CycleState, allowed uint64, quick bool) *framework.Status {
	snapshot := state.Snapshot()
	changes, known := snapshot.Log.Since(c.next)
	if !known {
		c.evaluationState = evaluationState{}
	}
	c.next = snapshot.Log.Next()
	lost := 0
	for _, change := range changes {
		if c.forget(change.Index) {
			lost = c.lost + 1
		}
	}
	v := newEvaluation(c, snapshot, allowed, state.ShouldPause)
	v.quick, v.losing = quick, lost > maxLost
	for i := range c.evaluated.Without(v.candidates).All {
		c.forget(i)
	}
	if c.current != nil && !v.candidates.Has(c.current.Index) {
		c.forget(c.current.Index)
	}
	status := v.evaluateDue(ctx)
	if c.lost = lost; !status.IsUnfinished() {
		c.lost = 0
	}
	return status
}

func newEvaluation(c *selectorMatches, snapshot *framework.Snapshot, allowed uint64, yield func() bool) *evaluationCycle {
	candidates := snapshot.Candidates()
	return &evaluationCycle{
		selectorMatches: c, snapshot: snapshot, allowed: allowed, yield: yield, candidates: candidates, budget: budgetBase + budgetEach*uint64(candidates.Len()),
	}
}

// evaluateDue evaluates the candidates without a result.
func (v *evaluationCycle) evaluateDue(ctx context.Context) *framework.Status {
	c, copied := v.selectorMatches, false
	for i := range v.candidates.Without(c.evaluated).All {
		if status := v.overBudget(); status != nil {
			return status
		}
		matched := v.evaluateCluster(ctx, v.snapshot.Clusters.Get(i))
		if v.stopped != nil {
			return v.stopped
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
		c.store(i)
	}
	return v.overBudget()
}

// overBudget returns the Status of a Placement that costs more than its budget; otherwise nil.
func (v *evaluationCycle) overBudget() *framework.Status {
	if v.total+v.currentCost <= v.budget {
		return nil
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf(
		"%s: evaluating it for %d clusters costs more than the budget of %d", v.describeCost(), v.candidates.Len(), v.budget))
}

// describeCost names what is charged.
func (c *selectorMatches) describeCost() string {
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

// evaluateCluster reports whether a predicate selects the cluster. The result is invalid if it sets
// stopped.
func (v *evaluationCycle) evaluateCluster(ctx context.Context, cluster *framework.Cluster) bool {
	if v.mustStop() {
		return v.stop(unfinishedEvaluation())
	}
	if v.current == nil || v.current.Index != cluster.Index {
		v.answers, v.currentCost = nil, v.requirements
		v.spent += v.requirements
	}
	v.current = cluster
	v.expression = 0
	for n := range v.predicates {
		one := &v.predicates[n]
		if !one.selectorsMatch(cluster) {
			continue
		}
		selected := true
		for _, e := range one.expressions {
			if selected = v.evaluateExpression(ctx, e, cluster); !selected {
				break
			}
		}
		if v.stopped != nil || selected {
			return selected
		}
	}
	return false
}

// stop ends the cycle; the cluster does not count as selected.
func (v *evaluationCycle) stop(reason *framework.Status) bool {
	v.stopped = reason
	return false
}

// mustStop reports whether this cycle must stop, because of its cost or its time. Each cycle does
// some of the work.
func (v *evaluationCycle) mustStop() bool { return v.spent >= v.allowed || v.spent > 0 && v.yield() }

func unfinishedEvaluation() *framework.Status {
	return framework.Unfinished("expensive predicates are still being evaluated")
}

// evaluateExpression evaluates an expression, unless an earlier cycle did so for this cluster.
func (v *evaluationCycle) evaluateExpression(ctx context.Context, e *clustercel.Expression, cluster *framework.Cluster) bool {
	v.expression++
	if v.expression <= len(v.answers) {
		return v.answers[v.expression-1]
	}
	switch {
	case v.total+v.currentCost > v.budget:
		return v.stop(v.overBudget())
	case v.mustStop():
		return v.stop(unfinishedEvaluation())
	}
	matched, cost, err := matchesCEL(ctx, e, v.snapshot, cluster, v.quick && (!v.losing || !v.costsLittle(cluster.Index)))
	if errors.Is(err, clustercel.ErrCostly) {
		return v.stop(unfinishedEvaluation())
	}
	if ctx.Err() != nil {
		// The evaluation was interrupted. If it was not the first one in this cycle, the next cycle
		// starts with it and has more time.
		if v.progressed {
			return v.stop(unfinishedEvaluation())
		}
		return v.stop(framework.AsStatus(fmt.Errorf("evaluating CEL: %w", context.Cause(ctx))))
	}
	v.progressed = true
	v.answers = append(v.answers, matched)
	v.currentCost += cost
	v.spent += cost
	return matched
}
