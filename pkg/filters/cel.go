package filters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Limits of an expression.
const (
	// celCostLimit is for one cluster, in units of at most about 0.1 microseconds. A call that
	// alone costs more does not run, so that an evaluation does the work of less than twice the
	// limit.
	celCostLimit = 1_000_000
	// celMaxLength is in bytes.
	celMaxLength = 16 << 10
	// celMaxLiterals counts the lists and maps that are not constant; those that map and filter make, too.
	celMaxLiterals     = 64
	celMaxComputedKeys = 8
	// celInterruptEvery is how often a loop looks whether the context has ended, in rounds.
	celInterruptEvery = 100
	// celMaxMessage and celMaxReason bound the errors' texts, in bytes: a condition's message is at most 32 KiB.
	celMaxMessage = 4 << 10
	celMaxReason  = 256
	celMaxCached  = 1_000
)

// managedCluster is the one variable of an expression.
const managedCluster = "managedCluster"

// celEnvironment is built once: the libraries are many.
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	env, err := cel.NewEnv(
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
		cel.Function(rangeOf, cel.Overload("range_of", []*cel.Type{cel.TypeParamType("A")}, cel.TypeParamType("A"),
			cel.UnaryBinding(func(v ref.Val) ref.Val { return v }))),
		cel.Macros(chargedMacros()...),
	)
	if err != nil {
		return nil, err
	}
	return env, checkPrices(env)
})

// expression is a compiled CEL expression. It is safe for concurrent use.
type expression struct {
	text    string
	program cel.Program
}

// compileExpression refuses what does not parse or type-check. Placements that say the same share the result.
func compileExpression(text string) (*expression, error) {
	if e := celExpressions.get(text); e != nil {
		return e, nil
	}
	program, err := compileProgram(text)
	if err != nil {
		return nil, errors.New(shortened(err.Error(), celMaxMessage))
	}
	e := &expression{text: text, program: program}
	celExpressions.put(e)
	return e, nil
}

func compileProgram(text string) (_ cel.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("compilation failed: %v", r)
		}
	}()
	if len(text) > celMaxLength {
		return nil, fmt.Errorf("compilation failed: the expression is longer than %d bytes", celMaxLength)
	}
	env, err := celEnvironment()
	if err != nil {
		return nil, fmt.Errorf("building the CEL environment: %w", err)
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("compilation failed: %w", issues.Err())
	}
	if err := tooComplex(parsed); err != nil {
		return nil, fmt.Errorf("compilation failed: %w", err)
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, fmt.Errorf("compilation failed: %w", issues.Err())
	}
	charge := &costs{}
	program, err := env.Program(checked,
		cel.CostLimit(celCostLimit),
		cel.CostTracking(charge),
		cel.CustomDecoratorV2(charge.guard(env)),
		cel.InterruptCheckFrequency(celInterruptEvery),
	)
	if err != nil {
		return nil, fmt.Errorf("instantiation failed: %w", err)
	}
	return program, nil
}

// tooComplex refuses expressions whose types could grow so large that type-checking takes minutes: each list or map literal
// can nest the types of what it holds once more, and a map whose key is no constant can double them.
func tooComplex(parsed *cel.Ast) error {
	literals, keys := 0, 0
	ast.PostOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ListKind:
			if slices.ContainsFunc(e.AsList().Elements(), isComputed) {
				literals++
			}
		case ast.MapKind:
			literals++
			for _, entry := range e.AsMap().Entries() {
				if isComputed(entry.AsMapEntry().Key()) {
					keys++
				}
			}
		}
	}))
	if literals > celMaxLiterals {
		return fmt.Errorf("more than %d lists and maps are made", celMaxLiterals)
	}
	if keys > celMaxComputedKeys {
		return fmt.Errorf("more than %d map keys are not constant", celMaxComputedKeys)
	}
	return nil
}

func isComputed(e ast.Expr) bool { return e.Kind() != ast.LiteralKind }

// matches evaluates the expression for one cluster and says what that cost, in CEL's units, from 1 to celCostLimit. An error (at
// run time, of the cost limit, of a result that is no boolean) means that the cluster does not match; unless the context has
// ended, for then nothing is known.
func (e *expression) matches(ctx context.Context, snapshot *framework.Snapshot, cluster *framework.Cluster) (bool, uint64, error) {
	object, err := cluster.Unstructured(unstructuredCluster)
	if err != nil {
		return false, 1, err
	}
	value := &clusterValue{
		Mapper:  celAdapter{}.NativeToValue(object).(traits.Mapper),
		cluster: cluster, snapshot: snapshot,
	}
	// Panics become errors in there.
	result, details, err := e.program.ContextEval(ctx, map[string]any{managedCluster: value})
	cost := uint64(celCostLimit)
	if actual := details.ActualCost(); actual != nil {
		cost = min(max(*actual, 1), celCostLimit)
	}
	if err != nil {
		if cancelled := (interpreter.EvalCancelledError{}); errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
			// What it would have cost is not in the sum.
			cost = celCostLimit
		}
		return false, cost, errors.New(shortened(err.Error(), celMaxReason))
	}
	matched, ok := result.Value().(bool)
	if !ok {
		return false, cost, fmt.Errorf("the result is %s, not a boolean", result.Type().TypeName())
	}
	return matched, cost, nil
}

// shortened cuts a text that quotes the expression, or what it computed, and may be long.
func shortened(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length], "") + "..."
}

// celExpressions are the expressions compiled so far, by text.
var celExpressions expressionCache

// expressionCache is emptied when it is full: whoever uses an expression keeps it.
type expressionCache struct {
	mu     sync.Mutex
	byText map[string]*expression
}

func (c *expressionCache) get(text string) *expression {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byText[text]
}

func (c *expressionCache) put(e *expression) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byText == nil || len(c.byText) >= celMaxCached {
		c.byText = map[string]*expression{}
	}
	c.byText[e.text] = e
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
	object := scoresOf(self, name)
	if object == nil {
		return types.NewErr("AddOnPlacementScore %s/%s not found", value.cluster.Name, resource)
	}
	scores := make([]any, len(object.Status.Scores))
	for i, s := range object.Status.Scores {
		scores[i] = map[string]any{"name": s.Name, "value": int64(s.Value)}
	}
	return celAdapter{}.NativeToValue(scores)
}

// scoresOf returns nil where there are none, or self is no cluster.
func scoresOf(self, name ref.Val) *v1alpha1.AddOnPlacementScore {
	value, ok := self.(*clusterValue)
	if !ok {
		return nil
	}
	return value.snapshot.Scores[textIn(name)].Get(value.cluster.Index)
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
	return celAdapter{}.NativeToValue(parsed)
}

// unstructuredCluster renders a cluster as the reference does: hubAcceptsClient, status and its conditions (null when the
// cluster has none) and version are always there, other empty fields never.
func unstructuredCluster(cluster *v1alpha1.ManagedCluster) (map[string]any, error) {
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
