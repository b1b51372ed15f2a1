package filters

import (
	"math"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// The Kubernetes estimator charges a call after it ran, and takes much for free that its static estimate has bounded before:
// here nothing is estimated statically. So what is free there but is not (JSON, deep comparisons, values that hold a value
// many times over, long strings) is charged here, and the guard weighs calls that can explode before they run.
const (
	// A value weighs valueWeight, a string 1 a byte more. maxWeight bounds what one call makes or reads: as ten bytes cost 1,
	// more costs more than the limit anyway.
	valueWeight = 10
	maxWeight   = celCostLimit * 10
	// freeWeight is what a list or map literal may hold without being charged for it.
	freeWeight = 100 * valueWeight
)

// costs charges the calls of one expression, and refuses some.
type costs struct {
	library.CostEstimator
	patterns patterns
}

// CallCost implements interpreter.ActualCostEstimator. CEL's own charge stands where it returns nil.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	var known uint64
	if cost := c.CostEstimator.CallCost(function, overload, args, result); cost != nil {
		known = *cost
	}
	var cost uint64
	switch function {
	case "parseJSON":
		cost = stringCost(args[0]) + builtCost(result)
	case "scores":
		cost = builtCost(result)
	case literal:
		cost = literalCost(args, result)
	case "replace":
		cost = known + stringCost(result)
	case "matches", "find", "findAll":
		cost = max(known, c.searchCost(args))
	case operators.Add, operators.Equals, operators.NotEquals, operators.In:
		if cost = containerCost(function, args[0], args[1]); cost == 0 {
			return nil
		}
	case "indexOf", "lastIndexOf", "includes":
		cost = known + tenth(weigh(args[0], maxWeight)) + tenth(weigh(args[1], maxWeight))
	case "contains", "startsWith", "endsWith", operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return nil
	default:
		if cost = known; cost == 0 {
			cost = stringCost(result) + stringsCost(args)
		}
	}
	cost = max(cost, 1)
	return &cost
}

// containerCost is what an operator costs between lists and maps; 0 between other values.
func containerCost(operator string, left, right ref.Val) uint64 {
	list, ok := right.(traits.Lister)
	switch {
	case operator == operators.Add && ok:
		return tenth(weigh(list, maxWeight))
	case operator == operators.In && ok:
		return max(uint64(list.Size().(types.Int)), tenth(weigh(list, maxWeight)))
	case operator != operators.Add && operator != operators.In && isContainer(left) && isContainer(right):
		return tenth(min(weigh(left, maxWeight), weigh(right, maxWeight)))
	}
	return 0
}

// searchCost is CEL's own charge for a regular expression or, where its program is larger than its text lets on, the program's.
func (c *costs) searchCost(args []ref.Val) uint64 {
	text, pattern, ok := texts(args)
	if !ok {
		return 1
	}
	byText := uint64(math.Ceil(float64(len(text)+1)*common.StringTraversalCostFactor)) *
		uint64(math.Ceil(float64(len(pattern))*common.RegexStringLengthCostFactor))
	_, size := c.patterns.compile(pattern)
	return max(byText, uint64(size)*uint64(len(text)+5)/50)
}

// literal is the name of a list or map literal as a call.
const literal = "@literal"

// weighed passes a list or map literal off as a call, whose cost may depend on the result: where a value holds a value many
// times over, few literals build what takes ages to walk through.
type weighed struct {
	interpreter.InterpretableConstructor
}

// Function implements interpreter.InterpretableCall.
func (weighed) Function() string { return literal }

// OverloadID implements interpreter.InterpretableCall.
func (weighed) OverloadID() string { return literal }

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

func literalCost(args []ref.Val, result ref.Val) uint64 {
	cost := uint64(common.ListCreateBaseCost)
	if _, ok := result.(traits.Mapper); ok {
		cost = common.MapCreateBaseCost
	}
	weight := -freeWeight
	for _, arg := range args {
		weight += weigh(arg, maxWeight)
	}
	return cost + tenth(max(weight, 0))
}

func isContainer(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper, *types.Optional:
		return true
	}
	return false
}

// weigh stops once it is past the limit.
func weigh(v ref.Val, limit int) int {
	n := valueWeight
	switch v := v.(type) {
	case types.String:
		n += len(v)
	case types.Bytes:
		n += len(v)
	case *types.Optional:
		if v.HasValue() {
			n += weigh(v.GetValue(), limit-n)
		}
	case traits.Mapper:
		for it := v.Iterator(); n <= limit && it.HasNext() == types.True; {
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

// builtCost is what a list or map costs when an expression spells it out, and 1 for each value in it.
func builtCost(v ref.Val) uint64 {
	cost := uint64(1)
	switch v := v.(type) {
	case traits.Mapper:
		cost += common.MapCreateBaseCost
		for it := v.Iterator(); it.HasNext() == types.True; {
			if value, found := v.Find(it.Next()); found {
				cost += builtCost(value)
			}
		}
	case traits.Lister:
		cost += common.ListCreateBaseCost
		for it := v.Iterator(); it.HasNext() == types.True; {
			cost += builtCost(it.Next())
		}
	}
	return cost
}

// stringCost is what it takes to read or write a string once; nothing for other values.
func stringCost(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return tenth(len(v))
	case types.Bytes:
		return tenth(len(v))
	}
	return 0
}

func stringsCost(values []ref.Val) uint64 {
	var cost uint64
	for _, v := range values {
		cost += stringCost(v)
	}
	return cost
}

func tenth(n int) uint64 { return uint64(math.Ceil(float64(n) * common.StringTraversalCostFactor)) }
