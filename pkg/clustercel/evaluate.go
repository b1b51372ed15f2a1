package clustercel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Cluster is the input of an evaluation for one cluster.
type Cluster struct {
	Name string
	// Object is the result of Render. Evaluations do not modify it.
	Object map[string]any
	// Scores returns the cluster's AddOnPlacementScore with a name; nil if there is none.
	Scores func(name string) *v1alpha1.AddOnPlacementScore
}

// Matches evaluates the expression for one cluster. The cost is from 1 to CostLimit. After an error
// (at run time, of the cost limit, or a result that is not a boolean) the cluster does not match,
// unless the context has ended: then the result is unknown.
func (e *Expression) Matches(ctx context.Context, cluster *Cluster) (matched bool, cost uint64, err error) {
	program, err := e.full()
	if err != nil {
		return false, 1, err
	}
	return matches(ctx, program, cluster, CostLimit)
}

// ErrCostly is the error of MatchesQuickly for an expression that costs more than QuickLimit.
var ErrCostly = errors.New("the evaluation costs more than QuickLimit")

// MatchesQuickly is Matches up to a cost of QuickLimit. It returns ErrCostly if the evaluation
// costs more.
func (e *Expression) MatchesQuickly(ctx context.Context, cluster *Cluster) (matched bool, cost uint64, err error) {
	return matches(ctx, e.quick, cluster, QuickLimit)
}

func matches(ctx context.Context, program cel.Program, cluster *Cluster, limit uint64) (matched bool, cost uint64, err error) {
	value := &clusterValue{Mapper: adapter{}.NativeToValue(cluster.Object).(traits.Mapper), cluster: cluster}
	result, cost, err := evaluate(ctx, program, map[string]any{managedCluster: value}, limit)
	if err != nil {
		return false, cost, err
	}
	matched, ok := result.Value().(bool)
	if !ok {
		return false, cost, fmt.Errorf("the result is %s, not a boolean", result.Type().TypeName())
	}
	return matched, cost, nil
}

// evaluate runs a program with a limit. The cost is from 1 to the limit. A limit below CostLimit
// tells nothing about an evaluation that reaches it: that is ErrCostly.
func evaluate(ctx context.Context, program cel.Program, variables map[string]any, limit uint64) (ref.Val, uint64, error) {
	// ContextEval turns panics into errors.
	result, details, err := program.ContextEval(ctx, variables)
	cost := limit
	if actual := details.ActualCost(); actual != nil {
		cost = min(max(*actual, 1), limit)
	}
	if err != nil && exceedsLimit(err) {
		// The sum does not include the cost of the rejected call.
		cost = limit
	}
	switch {
	case cost == limit && limit < CostLimit:
		return nil, cost, ErrCostly
	case err != nil:
		return nil, cost, errors.New(shortened(err.Error(), maxReason))
	}
	return result, cost, nil
}

func exceedsLimit(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}

// clusterValue is the value of managedCluster. The function scores reads the cluster's scores from
// it.
type clusterValue struct {
	traits.Mapper
	cluster *Cluster
}

func scoresFunction(self, name ref.Val) ref.Val {
	_, isCluster := self.(*clusterValue)
	resource, isString := name.Value().(string)
	if !isCluster || !isString {
		return types.MaybeNoSuchOverloadErr(self)
	}
	object := scoresOf(self, name)
	if object == nil {
		// Reasons are counted, so that they do not have the name of the cluster.
		return types.NewErr("the cluster has no AddOnPlacementScore %s", resource)
	}
	scores := make([]any, len(object.Status.Scores))
	for i, s := range object.Status.Scores {
		scores[i] = map[string]any{"name": s.Name, "value": int64(s.Value)}
	}
	return adapter{}.NativeToValue(scores)
}

// scoresOf returns nil if there are no scores or self is not a cluster.
func scoresOf(self, name ref.Val) *v1alpha1.AddOnPlacementScore {
	value, ok := self.(*clusterValue)
	if !ok {
		return nil
	}
	return value.cluster.Scores(textIn(name))
}

func parseJSON(self ref.Val) ref.Val {
	text, ok := self.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(self)
	}
	var parsed any
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		return types.NewErr("parsing JSON: %v", err)
	}
	return adapter{}.NativeToValue(parsed)
}

// Render returns the cluster as expressions read it, as in Open Cluster Management:
// hubAcceptsClient, status, its conditions (null if the cluster has none) and version are always
// present, other empty fields never.
func Render(cluster *v1alpha1.ManagedCluster) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
	if err != nil {
		return nil, fmt.Errorf("rendering the cluster: %w", err)
	}
	spec := child(object, "spec")
	spec["hubAcceptsClient"] = cluster.Spec.HubAcceptsClient
	status := child(object, "status")
	child(status, "version")
	if len(cluster.Status.Conditions) == 0 {
		status["conditions"] = nil
		if cluster.Status.Conditions != nil {
			status["conditions"] = []any{}
		}
	}
	return object, nil
}

func child(object map[string]any, name string) map[string]any {
	if m, ok := object[name].(map[string]any); ok {
		return m
	}
	m := map[string]any{}
	object[name] = m
	return m
}
