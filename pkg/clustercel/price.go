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

// price is what a call costs at most, by its arguments. A named function is charged with it before
// it runs: a call that alone costs more than the limit does not run. Operators are charged
// afterwards, as they only walk once through what was paid for. It takes no longer than the call
// itself.
//
// BenchmarkFunctions has what the units are measured by: 1,000,000 of them take about 100
// milliseconds, or less.
type price func(c *costs, overload string, args []ref.Val) uint64

const (
	// mapLiteral is the overload of a literal that is a map.
	mapLiteral = "map"
	// zoneCost is that of finding a time zone, which is read from a file at each call.
	zoneCost = 2_000
)

// priced are functions with one price.
type priced struct {
	price price
	// afterwards says that it is enough to charge the call when it has run.
	afterwards bool
	names      []string
}

// prices has every function of the environment.
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
		{price: comparison, afterwards: true, names: []string{
			operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		}},
		{price: membership, afterwards: true, names: []string{operators.In, operators.OldIn, "in"}},
		{price: addition, afterwards: true, names: []string{operators.Add}},
		{price: making, afterwards: true, names: []string{literal}},
		{price: ranging, names: []string{rangeOf}},
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
		{price: quantities, names: []string{"quantity", "isQuantity"}},
		{price: inZone, names: []string{
			"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes",
			"getMonth", "getSeconds",
		}},
		{price: contents, names: []string{"sum", "min", "max", "isSorted"}},
		{price: elements, names: []string{"optional.unwrap", "unwrapOpt"}},
		{price: substrings, names: []string{"contains", "indexOf", "lastIndexOf"}},
		{price: replacement, names: []string{"replace"}},
		{price: splitting, names: []string{"split"}},
		{price: joining, names: []string{"join"}},
		{price: formatting, names: []string{"format"}},
		{price: searching, names: []string{"matches", "find", "findAll"}},
		{price: parsing, names: []string{"parseJSON"}},
		{price: scoring, names: []string{"scores"}},
	} {
		for _, name := range p.names {
			byName[name] = p
		}
	}
	return byName
}()

// checkPrices refuses an environment with a function that has no price.
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

// texts is for functions that walk through texts, but not through lists and maps, so many times as
// fast as they are compared.
func texts(times uint64) price {
	return func(_ *costs, _ string, args []ref.Val) uint64 {
		n := times
		for _, arg := range args {
			n += times * tenth(leafWeight(arg))
		}
		return n
	}
}

// quantities refuses texts that take longer to read than anybody waits.
func quantities(c *costs, overload string, args []ref.Val) uint64 {
	if !modest(textIn(args[0])) {
		return maxWeight
	}
	return texts(4)(c, overload, args)
}

func inZone(_ *costs, _ string, args []ref.Val) uint64 {
	if len(args) < 2 {
		return 1
	}
	return zoneCost + tenth(textLength(args[1]))
}

// contents is for functions that walk through a list and all that is in it.
func contents(_ *costs, _ string, args []ref.Val) uint64 { return 2 * tenth(weigh(args[0], maxWeight)) }

// elements is for functions that walk through a list, but not through what is in it.
func elements(_ *costs, _ string, args []ref.Val) uint64 {
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

// comparison ends with the smaller value.
func comparison(_ *costs, _ string, args []ref.Val) uint64 {
	if isContainer(args[0]) && isContainer(args[1]) {
		return tenth(min(weigh(args[0], maxWeight), weigh(args[1], maxWeight)))
	}
	return 1 + tenth(min(leafWeight(args[0]), leafWeight(args[1])))
}

func membership(_ *costs, _ string, args []ref.Val) uint64 {
	if list, ok := args[1].(traits.Lister); ok {
		return tenth(weigh(list, maxWeight))
	}
	return 1 + tenth(leafWeight(args[0]))
}

// addition copies lists, except for the list that a macro builds element by element.
func addition(_ *costs, _ string, args []ref.Val) uint64 {
	if right, ok := args[1].(traits.Lister); ok {
		cost := tenth(weigh(right, maxWeight))
		if _, builds := args[0].(traits.MutableLister); !builds {
			cost += sizeOf(args[0])
		}
		return cost
	}
	return tenth(leafWeight(args[0]) + leafWeight(args[1]))
}

// substrings is for functions that compare one text with each part of another.
func substrings(_ *costs, _ string, args []ref.Val) uint64 {
	if list, ok := args[0].(traits.Lister); ok {
		return tenth(weigh(list, maxWeight)) + tenth(leafWeight(args[1]))
	}
	text, part := tenth(textLength(args[0])), tenth(textLength(args[1]))
	return 1 + 2*text + part + product(text, part)
}

// replacement knows the length of the result.
func replacement(_ *costs, _ string, args []ref.Val) uint64 {
	text, old, replaced := textIn(args[0]), textIn(args[1]), textIn(args[2])
	n := len(text)
	if times := occurrences(text, old, args[3:]); len(replaced) > len(old) {
		return 1 + 2*tenth(n) + product(uint64(times), tenth(len(replaced)-len(old))) + uint64(times)/4
	}
	return 1 + 3*tenth(n)
}

// splitting charges for each part.
func splitting(_ *costs, _ string, args []ref.Val) uint64 {
	return 1 + 2*tenth(textLength(args[0])) + uint64(occurrences(textIn(args[0]), textIn(args[1]), args[2:]))
}

// occurrences counts where a part is in a text, up to a limit if one follows.
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

func joining(_ *costs, _ string, args []ref.Val) uint64 {
	cost := 2 * tenth(weigh(args[0], maxWeight))
	if len(args) > 1 {
		cost += product(sizeOf(args[0]), 2*tenth(textLength(args[1])))
	}
	return cost
}

// formatting reads each value once; a clause of five characters can ask for a thousand digits.
func formatting(_ *costs, _ string, args []ref.Val) uint64 {
	text := textIn(args[0])
	clauses := uint64(5)
	if strings.Contains(text, ".") {
		clauses = 100
	}
	return 1 + 2*tenth(len(text)) + 5*tenth(weigh(args[1], maxWeight)) + clauses*uint64(strings.Count(text, "%"))
}

// parsing charges for each value, list and map that JSON may hold, as if an expression spelled it
// out.
func parsing(_ *costs, _ string, args []ref.Val) uint64 {
	text := textIn(args[0])
	lists, maps := strings.Count(text, "["), strings.Count(text, "{")
	return 1 + 2*tenth(len(text)) + 3*uint64(strings.Count(text, ",")) + common.ListCreateBaseCost*uint64(lists) +
		common.MapCreateBaseCost*uint64(maps)
}

// scoring charges for a list of maps, as if an expression spelled it out.
func scoring(_ *costs, _ string, args []ref.Val) uint64 {
	// The types of arguments are checked, for which the keys are put in order.
	cost := common.ListCreateBaseCost + ranging(nil, "", args)
	if list := scoresOf(args[0], args[1]); list != nil {
		cost += (common.MapCreateBaseCost + 3) * uint64(len(list.Status.Scores))
	}
	return cost + tenth(leafWeight(args[1]))
}

// ranging charges a loop over a map for putting the keys in order.
func ranging(_ *costs, _ string, args []ref.Val) uint64 {
	if m, ok := args[0].(traits.Mapper); ok {
		n := sizeOf(m)
		return 1 + n*uint64(bits.Len64(n))
	}
	return 1
}

// making charges a list or map literal for what is in it.
func making(_ *costs, overload string, args []ref.Val) uint64 {
	cost := uint64(common.ListCreateBaseCost)
	if overload == mapLiteral {
		cost = common.MapCreateBaseCost
	}
	weight := -freeWeight
	for _, arg := range args {
		weight += weigh(arg, maxWeight)
	}
	return cost + tenth(max(weight, 0))
}

func textIn(v ref.Val) string {
	text, _ := v.(types.String)
	return string(text)
}

func textLength(v ref.Val) int { return len(textIn(v)) }
