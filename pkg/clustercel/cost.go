package clustercel

import (
	"math"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

const (
	// A value has the weight valueWeight, a string 1 more per byte. A weight of 10 costs one unit.
	// maxWeight is the maximum weight that one call reads or creates; more exceeds CostLimit.
	valueWeight = 10
	maxWeight   = CostLimit * 10
	// quantityWeight is the weight of a quantity, whose digits need arithmetic. componentWeight is
	// that of each identifier of a semantic version.
	quantityWeight  = 300
	componentWeight = 100
	// freeWeight is the weight that a list or map literal may contain without a charge.
	freeWeight = 100 * valueWeight
)

// costs charges the calls of one expression.
type costs struct {
	// limit is the maximum cost of an evaluation.
	limit    uint64
	patterns patterns
	// called is called for each call that runs; nil except in tests.
	called func(function string)
}

// CallCost implements interpreter.ActualCostEstimator. The interpreter's default counts the
// characters of each argument, which takes longer than many calls.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost := c.price(function, overload, args)
	if function == "findAll" && result != nil {
		cost += c.foundCost(overload, args, result)
	}
	return &cost
}

// price returns the cost of a call from its arguments, at least 1.
func (c *costs) price(function, overload string, args []ref.Val) uint64 {
	return max(1, prices[function].price(c, overload, args))
}

// literal is the function name of a list or map literal.
const literal = "@literal"

// chargedLiteral presents a list or map literal as a call, so that its cost depends on its content.
// Nested values can make a small expression build very large values.
type chargedLiteral struct {
	interpreter.InterpretableConstructor
}

// Function implements interpreter.InterpretableCall.
func (chargedLiteral) Function() string { return literal }

// OverloadID implements interpreter.InterpretableCall. It selects the base cost.
func (w chargedLiteral) OverloadID() string {
	if w.Type() == types.MapType {
		return mapLiteral
	}
	return ""
}

// Exec implements interpreter.InterpretableV2.
func (w chargedLiteral) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return ordered(w.InterpretableConstructor.Exec(frame))
}

// Eval implements interpreter.Interpretable.
func (w chargedLiteral) Eval(variables interpreter.Activation) ref.Val {
	return ordered(w.InterpretableConstructor.Eval(variables))
}

// Args implements interpreter.InterpretableCall.
func (w chargedLiteral) Args() []interpreter.InterpretableV2 { return w.InitVals() }

func isContainer(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper, *types.Optional:
		return true
	}
	return false
}

// weightOf returns the weight of a value, or a number above limit if the weight exceeds it.
func weightOf(v ref.Val, limit int) int {
	n := valueWeight + leafWeight(v)
	switch v := v.(type) {
	case *types.Optional:
		if v.HasValue() {
			n += weightOf(v.GetValue(), limit-n)
		}
	case traits.Mapper:
		for it := unordered(v).Iterator(); n <= limit && it.HasNext() == types.True; {
			key := it.Next()
			n += weightOf(key, limit-n)
			if value, found := v.Find(key); found && n <= limit {
				n += weightOf(value, limit-n)
			}
		}
	case traits.Lister:
		for it := v.Iterator(); n <= limit && it.HasNext() == types.True; {
			n += weightOf(it.Next(), limit-n)
		}
	}
	return n
}

// leafWeight returns the weight of a value that contains no other values, without valueWeight.
func leafWeight(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case apiservercel.Quantity, *apiservercel.Quantity:
		return quantityWeight
	case apiservercel.Semver:
		n := 0
		for _, identifier := range v.Pre {
			n += componentWeight + len(identifier.VersionStr)
		}
		for _, text := range v.Build {
			n += componentWeight + len(text)
		}
		return n
	case apiservercel.URL:
		return len(v.Opaque) + len(v.Host) + len(v.Path) + len(v.RawPath) + len(v.RawQuery) + len(v.Fragment) + len(v.RawFragment)
	}
	return 0
}

func traversalCost(n int) uint64 {
	return uint64(math.Ceil(float64(n) * common.StringTraversalCostFactor))
}

// product multiplies without overflow, up to maxWeight.
func product(factors ...uint64) uint64 {
	p := 1.0
	for _, f := range factors {
		p *= float64(f)
	}
	return uint64(min(p, float64(maxWeight)))
}
