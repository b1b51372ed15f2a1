package clustercel

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// price is the maximum cost of a call, from its arguments. A named function is charged before it
// runs, so a call that alone exceeds the limit does not run. Operators are charged afterwards,
// because they only iterate once over values that were charged already. Computing a price takes no
// longer than the call.
//
// BenchmarkFunctions measures the units: 1,000,000 of them take at most about 100 milliseconds.
type price func(c *costs, overload string, args []ref.Val) uint64

const (
	// mapLiteral is the overload of a map literal.
	mapLiteral = "map"
	// zoneCost is the cost of loading a time zone, which is read from a file in each call.
	zoneCost = 2_000
)

// priced are functions with the same price.
type priced struct {
	price price
	// afterwards is true if the call is charged after it has run.
	afterwards bool
	names      []string
}

// prices contains every function of the environment.
var prices = func() map[string]priced {
	byName := map[string]priced{}
	for _, p := range []priced{
		{price: constant(1), afterwards: true, names: []string{
			operators.LogicalNot, operators.Negate, operators.LogicalAnd, operators.LogicalOr, operators.Conditional, operators.Modulo,
			operators.Multiply, operators.Subtract, operators.Divide, operators.Index, operators.OptIndex, operators.OptSelect,
			operators.NotStrictlyFalse, "__not_strictly_false__",
			"dyn", "type", "optional.none", "optional.of", "optional.ofNonZeroValue", "hasValue", "value", "or", "orValue", "first", "last",
			"format.byte", "format.date", "format.datetime", "format.dns1035Label", "format.dns1035LabelPrefix", "format.dns1123Label",
			"format.dns1123LabelPrefix", "format.dns1123Subdomain", "format.dns1123SubdomainPrefix", "format.labelValue",
			"format.qualifiedName", "format.uri", "format.uuid",
			"family", "isGlobalUnicast", "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isUnspecified",
			"prefixLength", "major", "minor", "patch",
		}},
		{price: comparisonPrice, afterwards: true, names: []string{
			operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		}},
		{price: membershipPrice, afterwards: true, names: []string{operators.In, operators.OldIn, "in"}},
		{price: additionPrice, afterwards: true, names: []string{operators.Add}},
		{price: makingPrice, afterwards: true, names: []string{literal}},
		{price: rangingPrice, names: []string{rangeOf}},
		{price: texts(1), names: []string{
			"size", "startsWith", "endsWith", "bool", "format.named", "getScheme", "getHost", "getHostname", "getPort",
			"compareTo", "isGreaterThan", "isLessThan", "sign",
		}},
		{price: texts(2), names: []string{
			"int", "uint", "double", "duration", "timestamp", "string", "bytes", "charAt", "substring", "trim", "lowerAscii", "upperAscii",
			"add", "sub", "asInteger", "asApproximateFloat", "isInteger", "masked",
			"getEscapedPath",
		}},
		{price: texts(4), names: []string{"reverse", "url", "isURL"}},
		{price: texts(10), names: []string{
			"strings.quote", "semver", "isSemver", "getQuery", "validate",
			"ip", "isIP", "cidr", "isCIDR", "containsIP", "containsCIDR", "ip.isCanonical",
		}},
		{price: quantitiesPrice, names: []string{"quantity", "isQuantity"}},
		{price: inZonePrice, names: []string{
			"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes",
			"getMonth", "getSeconds",
		}},
		{price: contentsPrice, names: []string{"sum", "min", "max", "isSorted"}},
		{price: elementsPrice, names: []string{"optional.unwrap", "unwrapOpt"}},
		{price: substringsPrice, names: []string{"contains", "indexOf", "lastIndexOf"}},
		{price: replacementPrice, names: []string{"replace"}},
		{price: splittingPrice, names: []string{"split"}},
		{price: joiningPrice, names: []string{"join"}},
		{price: formattingPrice, names: []string{"format"}},
		{price: searchingPrice, names: []string{"matches", "find", "findAll"}},
		{price: parsingPrice, names: []string{"parseJSON"}},
		{price: scoringPrice, names: []string{"scores"}},
	} {
		for _, name := range p.names {
			byName[name] = p
		}
	}
	return byName
}()

// checkPrices rejects an environment with a function without a price.
func checkPrices(env *cel.Env) error {
	var unknown []string
	for name := range env.Functions() {
		if prices[name].price == nil {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("these functions have no price: %s", strings.Join(unknown, ", "))
	}
	return nil
}

func constant(n uint64) price { return func(*costs, string, []ref.Val) uint64 { return n } }

// texts is the price of functions that read strings, but no lists and maps. times is the number of
// passes.
func texts(times uint64) price {
	return func(_ *costs, _ string, args []ref.Val) uint64 {
		n := times
		for _, arg := range args {
			n += times * traversalCost(leafWeight(arg))
		}
		return n
	}
}

// quantitiesPrice rejects texts that take too long to parse.
func quantitiesPrice(c *costs, overload string, args []ref.Val) uint64 {
	if !isBoundedQuantity(textIn(args[0])) {
		return maxWeight
	}
	return texts(4)(c, overload, args)
}

func inZonePrice(_ *costs, _ string, args []ref.Val) uint64 {
	if len(args) < 2 {
		return 1
	}
	return zoneCost + traversalCost(textLength(args[1]))
}

// contentsPrice is for functions that read a list and all its content.
func contentsPrice(_ *costs, _ string, args []ref.Val) uint64 {
	return 2 * traversalCost(weightOf(args[0], maxWeight))
}

// elementsPrice is for functions that read the elements of a list, but not their content.
func elementsPrice(_ *costs, _ string, args []ref.Val) uint64 {
	return 1 + sizeOf(args[0])
}

func sizeOf(v ref.Val) uint64 {
	switch v := v.(type) {
	case traits.Lister:
		return uint64(v.Size().(types.Int))
	case traits.Mapper:
		return uint64(v.Size().(types.Int))
	}
	return 0
}

// comparisonPrice depends on the smaller value, where a comparison ends.
func comparisonPrice(_ *costs, _ string, args []ref.Val) uint64 {
	if isContainer(args[0]) && isContainer(args[1]) {
		return traversalCost(min(weightOf(args[0], maxWeight), weightOf(args[1], maxWeight)))
	}
	return 1 + traversalCost(min(leafWeight(args[0]), leafWeight(args[1])))
}

func membershipPrice(_ *costs, _ string, args []ref.Val) uint64 {
	if list, ok := args[1].(traits.Lister); ok {
		return traversalCost(weightOf(list, maxWeight))
	}
	return 1 + traversalCost(leafWeight(args[0]))
}

// additionPrice charges for copying lists, except for the list that a macro builds.
func additionPrice(_ *costs, _ string, args []ref.Val) uint64 {
	if right, ok := args[1].(traits.Lister); ok {
		cost := traversalCost(weightOf(right, maxWeight))
		if _, builds := args[0].(traits.MutableLister); !builds {
			cost += sizeOf(args[0])
		}
		return cost
	}
	return traversalCost(leafWeight(args[0]) + leafWeight(args[1]))
}

// substringsPrice is for functions that compare a text with each part of another.
func substringsPrice(_ *costs, _ string, args []ref.Val) uint64 {
	if list, ok := args[0].(traits.Lister); ok {
		return traversalCost(weightOf(list, maxWeight)) + traversalCost(leafWeight(args[1]))
	}
	text, part := traversalCost(textLength(args[0])), traversalCost(textLength(args[1]))
	return 1 + 2*text + part + product(text, part)
}

// replacementPrice depends on the length of the result.
func replacementPrice(_ *costs, _ string, args []ref.Val) uint64 {
	text, old, replaced := textIn(args[0]), textIn(args[1]), textIn(args[2])
	n := len(text)
	if times := occurrences(text, old, args[3:]); len(replaced) > len(old) {
		return 1 + 2*traversalCost(n) + product(uint64(times), traversalCost(len(replaced)-len(old))) + uint64(times)/4
	}
	return 1 + 3*traversalCost(n)
}

// splittingPrice charges for each part.
func splittingPrice(_ *costs, _ string, args []ref.Val) uint64 {
	return 1 + 2*traversalCost(textLength(args[0])) + uint64(occurrences(textIn(args[0]), textIn(args[1]), args[2:]))
}

// occurrences counts a part in a text, up to a limit if one follows.
func occurrences(text, part string, limit []ref.Val) int {
	n := 0
	if part == "" {
		n = utf8.RuneCountInString(text) + 1
	} else {
		n = strings.Count(text, part)
	}
	if len(limit) > 0 {
		if most, ok := limit[0].(types.Int); ok && most >= 0 {
			n = min(n, int(min(most, maxWeight)))
		}
	}
	return n
}

func joiningPrice(_ *costs, _ string, args []ref.Val) uint64 {
	cost := 2 * traversalCost(weightOf(args[0], maxWeight))
	if len(args) > 1 {
		cost += product(sizeOf(args[0]), 2*traversalCost(textLength(args[1])))
	}
	return cost
}

// formattingPrice charges for each value once, and for each clause: five characters can request
// 1,000 digits.
func formattingPrice(_ *costs, _ string, args []ref.Val) uint64 {
	text := textIn(args[0])
	clauses := uint64(5)
	if strings.Contains(text, ".") {
		clauses = 100
	}
	return 1 + 2*traversalCost(len(text)) + 5*traversalCost(weightOf(args[1], maxWeight)) + clauses*uint64(strings.Count(text, "%"))
}

// parsingPrice charges for each value, list and map in the JSON text, like literals of an
// expression.
func parsingPrice(_ *costs, _ string, args []ref.Val) uint64 {
	text := textIn(args[0])
	lists, maps := strings.Count(text, "["), strings.Count(text, "{")
	return 1 + 2*traversalCost(len(text)) + 3*uint64(strings.Count(text, ",")) + common.ListCreateBaseCost*uint64(lists) +
		common.MapCreateBaseCost*uint64(maps)
}

// scoringPrice charges for a list of maps, like literals of an expression.
func scoringPrice(_ *costs, _ string, args []ref.Val) uint64 {
	// The types of arguments are checked, for which the keys are put in order.
	cost := common.ListCreateBaseCost + rangingPrice(nil, "", args)
	if list := scoresOf(args[0], args[1]); list != nil {
		cost += (common.MapCreateBaseCost + 3) * uint64(len(list.Status.Scores))
	}
	return cost + traversalCost(leafWeight(args[1]))
}

// rangingPrice charges a loop over a map for sorting the keys.
func rangingPrice(_ *costs, _ string, args []ref.Val) uint64 {
	if m, ok := args[0].(traits.Mapper); ok {
		n := sizeOf(m)
		return 1 + n*uint64(bits.Len64(n))
	}
	return 1
}

// makingPrice charges a list or map literal for its content.
func makingPrice(_ *costs, overload string, args []ref.Val) uint64 {
	cost := uint64(common.ListCreateBaseCost)
	if overload == mapLiteral {
		cost = common.MapCreateBaseCost
	}
	weight := -freeWeight
	for _, arg := range args {
		weight += weightOf(arg, maxWeight)
	}
	return cost + traversalCost(max(weight, 0))
}

func textIn(v ref.Val) string {
	text, _ := v.(types.String)
	return string(text)
}

func textLength(v ref.Val) int { return len(textIn(v)) }
