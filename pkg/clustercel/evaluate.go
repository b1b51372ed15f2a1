package clustercel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Cluster is what expressions see of one cluster.
type Cluster struct {
	Name string
	// Object is what Render returned for the cluster. Evaluations only read it.
	Object map[string]any
	// Scores returns the cluster's AddOnPlacementScore of a name, nil where there is none.
	Scores func(name string) *v1alpha1.AddOnPlacementScore
}

// Matches evaluates the expression for one cluster. The cost is in CEL's units, from 1 to
// CostLimit. An error (at run time, of the cost limit, of a result that is no boolean) means that
// the cluster does not match; unless the context has ended, for then nothing is known.
func (e *Expression) Matches(ctx context.Context, cluster *Cluster) (matched bool, cost uint64, err error) {
	value := &clusterValue{Mapper: adapter{}.NativeToValue(cluster.Object).(traits.Mapper), cluster: cluster}
	// Panics become errors in there.
	result, details, err := e.program.ContextEval(ctx, map[string]any{managedCluster: value})
	cost = CostLimit
	if actual := details.ActualCost(); actual != nil {
		cost = min(max(*actual, 1), CostLimit)
	}
	if err != nil {
		if cancelled := (interpreter.EvalCancelledError{}); errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
			// What it would have cost is not in the sum.
			cost = CostLimit
		}
		return false, cost, errors.New(shortened(err.Error(), maxReason))
	}
	matched, ok := result.Value().(bool)
	if !ok {
		return false, cost, fmt.Errorf("the result is %s, not a boolean", result.Type().TypeName())
	}
	return matched, cost, nil
}

// clusterValue is the map an expression sees; the function scores finds its way from there to the
// cluster's scores.
type clusterValue struct {
	traits.Mapper
	cluster *Cluster
}

func scoresFunction(self, name ref.Val) ref.Val {
	value, isCluster := self.(*clusterValue)
	resource, isString := name.Value().(string)
	if !isCluster || !isString {
		return types.MaybeNoSuchOverloadErr(self)
	}
	object := scoresOf(self, name)
	if object == nil {
		return types.NewErr("AddOnPlacementScore %s/%s not found", value.cluster.Name, resource)
	}
	scores := make([]any, len(object.Status.Scores))
	for i, s := range object.Status.Scores {
		scores[i] = map[string]any{"name": s.Name, "value": int64(s.Value)}
	}
	return adapter{}.NativeToValue(scores)
}

// scoresOf returns nil where there are none, or self is no cluster.
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

// Render returns a cluster as expressions see it, as the reference does: hubAcceptsClient, status
// and its conditions (null when the cluster has none) and version are always there, other empty
// fields never.
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
