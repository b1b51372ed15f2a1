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
	// A value weighs valueWeight, a string 1 a byte more. Ten of weight cost one unit. maxWeight
	// bounds what one call reads or makes: more costs more than the limit anyway.
	valueWeight = 10
	maxWeight   = CostLimit * 10
	// quantityWeight is that of a quantity, whose digits are arithmetic of their own.
	// componentWeight is that of each identifier of a semantic version.
	quantityWeight  = 300
	componentWeight = 100
	// freeWeight is what a list or map literal may hold without being charged for it.
	freeWeight = 100 * valueWeight
)

// costs charges the calls of one expression.
type costs struct {
	patterns patterns
	// called hears of each call that is not refused; nil where nobody listens.
	called func(function string)
}

// CallCost implements interpreter.ActualCostEstimator. Every function has a price of its own: the
// default of the interpreter counts the characters of each argument, which takes longer than many a
// call.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost := c.price(function, overload, args)
	if function == "findAll" && result != nil {
		cost += c.foundCost(overload, args, result)
	}
	return &cost
}

// price is what a call costs by its arguments. It is at least 1.
func (c *costs) price(function, overload string, args []ref.Val) uint64 {
	return max(1, prices[function].price(c, overload, args))
}

// literal is the name of a list or map literal as a call.
const literal = "@literal"

// weighed passes a list or map literal off as a call, whose cost may depend on the result: where a
// value holds a value many times over, few literals build what takes ages to walk through.
type weighed struct {
	interpreter.InterpretableConstructor
}

// Function implements interpreter.InterpretableCall.
func (weighed) Function() string { return literal }

// OverloadID implements interpreter.InterpretableCall: it is the base cost.
func (w weighed) OverloadID() string {
	if w.Type() == types.MapType {
		return mapLiteral
	}
	return ""
}

// Exec implements interpreter.InterpretableV2.
func (w weighed) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return ordered(w.InterpretableConstructor.Exec(frame))
}

// Eval implements interpreter.Interpretable.
func (w weighed) Eval(variables interpreter.Activation) ref.Val {
	return ordered(w.InterpretableConstructor.Eval(variables))
}

// Args implements interpreter.InterpretableCall.
func (w weighed) Args() []interpreter.InterpretableV2 { return w.InitVals() }

func isContainer(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper, *types.Optional:
		return true
	}
	return false
}

// weigh stops once it is past the limit.
func weigh(v ref.Val, limit int) int {
	n := valueWeight + leafWeight(v)
	switch v := v.(type) {
	case *types.Optional:
		if v.HasValue() {
			n += weigh(v.GetValue(), limit-n)
		}
	case traits.Mapper:
		for it := unordered(v).Iterator(); n <= limit && it.HasNext() == types.True; {
			key := it.Next()
			n += weigh(key, limit-n)
			if value, found := v.Find(key); found && n <= limit {
				n += weigh(value, limit-n)
			}
		}
	case traits.Lister:
		for it := v.Iterator(); n <= limit && it.HasNext() == types.True; {
			n += weigh(it.Next(), limit-n)
		}
	}
	return n
}

// leafWeight is what a value weighs that no other is in, beside valueWeight.
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

func tenth(n int) uint64 { return uint64(math.Ceil(float64(n) * common.StringTraversalCostFactor)) }

// product multiplies and does not overflow.
func product(factors ...uint64) uint64 {
	p := 1.0
	for _, f := range factors {
		p *= float64(f)
	}
	return uint64(min(p, float64(maxWeight)))
}
