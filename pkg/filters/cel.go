package filters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Limits of an expression. The cost is in CEL's units, per cluster; a hostile expression runs into it within milliseconds.
const (
	celCostLimit      = 1_000_000
	celMaxLength      = 16 << 10
	celInterruptEvery = 1_000
)

// managedCluster is the one variable of an expression.
const managedCluster = "managedCluster"

// celEnvironment is built once: the libraries are many.
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.OptionalTypes(),
		ext.Strings(),
		library.Lists(),
		library.Regex(),
		library.URLs(),
		library.Quantity(),
		library.IP(),
		library.CIDR(),
		library.Format(),
		library.SemverLib(library.SemverVersion(0)),
		cel.Variable(managedCluster, cel.MapType(cel.StringType, cel.DynType)),
		cel.Function("scores", cel.MemberOverload("cluster_scores", []*cel.Type{cel.MapType(cel.StringType, cel.DynType), cel.StringType},
			cel.ListType(cel.DynType), cel.BinaryBinding(celScores))),
		cel.Function("parseJSON", cel.MemberOverload("string_parse_json", []*cel.Type{cel.StringType}, cel.DynType,
			cel.UnaryBinding(celParseJSON))),
	)
})

// expression is a compiled CEL expression. It is safe for concurrent use.
type expression struct {
	text    string
	program cel.Program
}

// compileExpression refuses what does not parse or type-check.
func compileExpression(text string) (*expression, error) {
	if len(text) > celMaxLength {
		return nil, fmt.Errorf("compilation failed: the expression is longer than %d characters", celMaxLength)
	}
	env, err := celEnvironment()
	if err != nil {
		return nil, fmt.Errorf("building the CEL environment: %w", err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("compilation failed: %w", issues.Err())
	}
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(celCostLimit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.InterruptCheckFrequency(celInterruptEvery),
	)
	if err != nil {
		return nil, fmt.Errorf("compilation failed: %w", err)
	}
	return &expression{text: text, program: program}, nil
}

// matches evaluates the expression for one cluster. An error (at run time, of the cost limit, of a result that is no boolean)
// means that the cluster does not match.
func (e *expression) matches(ctx context.Context, snapshot *framework.Snapshot, cluster *framework.Cluster) (bool, error) {
	object, err := cluster.Unstructured(unstructuredCluster)
	if err != nil {
		return false, err
	}
	value := &clusterValue{
		Mapper:  types.NewStringInterfaceMap(types.DefaultTypeAdapter, object),
		cluster: cluster, snapshot: snapshot,
	}
	result, _, err := e.program.ContextEval(ctx, map[string]any{managedCluster: value})
	if err != nil {
		return false, err
	}
	matched, ok := result.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the result is %s, not a boolean", result.Type().TypeName())
	}
	return matched, nil
}

// clusterValue is the map an expression sees; the function scores finds its way from there to the cluster's scores.
type clusterValue struct {
	traits.Mapper
	cluster  *framework.Cluster
	snapshot *framework.Snapshot
}

func celScores(self, name ref.Val) ref.Val {
	value, isCluster := self.(*clusterValue)
	resource, isString := name.Value().(string)
	if !isCluster || !isString {
		return types.MaybeNoSuchOverloadErr(self)
	}
	object := value.snapshot.Scores[resource].Get(value.cluster.Index)
	if object == nil {
		return types.NewErr("AddOnPlacementScore %s/%s not found", value.cluster.Name, resource)
	}
	scores := make([]any, len(object.Status.Scores))
	for i, s := range object.Status.Scores {
		scores[i] = map[string]any{"name": s.Name, "value": int64(s.Value)}
	}
	return types.DefaultTypeAdapter.NativeToValue(scores)
}

func celParseJSON(self ref.Val) ref.Val {
	text, ok := self.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(self)
	}
	var parsed any
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		return types.NewErr("parsing JSON: %v", err)
	}
	return types.DefaultTypeAdapter.NativeToValue(parsed)
}

// unstructuredCluster renders a cluster as the reference does: hubAcceptsClient, conditions, status and status.version are
// always there, other empty fields never.
func unstructuredCluster(cluster *v1alpha1.ManagedCluster) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
	if err != nil {
		return nil, errors.Join(errors.New("rendering the cluster"), err)
	}
	spec := child(object, "spec")
	if _, ok := spec["hubAcceptsClient"]; !ok {
		spec["hubAcceptsClient"] = cluster.Spec.HubAcceptsClient
	}
	status := child(object, "status")
	child(status, "version")
	if _, ok := status["conditions"]; !ok {
		status["conditions"] = []any{}
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
