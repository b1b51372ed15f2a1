package clustercel

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

const megabyte = 1 << 20

// hugeTexts are of so many bytes, each hard for some functions.
func hugeTexts(n int) []string {
	if hugeTextsOf[n] == nil {
		hugeTextsOf[n] = makeHugeTexts(n)
	}
	return hugeTextsOf[n]
}

// hugeTextsOf has those that were made, because that takes most of the time of these tests.
var hugeTextsOf = map[int][]string{}

func makeHugeTexts(n int) []string {
	all := []string{}
	for _, part := range []string{"a", "1", "ä", "%s", "%.99f", ".a", "[", "{", "1,", `"a":1,`, " ", "A", "\x00", "?a&", "0000:", "1.", "/"} {
		all = append(all, strings.Repeat(part, n/len(part)))
	}
	return append(all, "["+strings.Repeat("1,", n/2)+"1]", "["+strings.Repeat("[],", n/3)+"[]]", "["+strings.Repeat("{},", n/3)+"{}]",
		"1.0.0-"+strings.Repeat("1.", n/2)+"1", "https://a/"+strings.Repeat("%20", n/3), "https://a/?"+strings.Repeat("a&", n/2),
		strings.Repeat("a", n-1)+"b", `{"a":`+strings.Repeat("1", n)+`}`)
}

// hugeValues are values of a type that together hold about so many bytes.
func hugeValues(tb testing.TB, kind *cel.Type, n int) []ref.Val {
	tb.Helper()
	texts := func(n int) (values []ref.Val) {
		for _, text := range hugeTexts(n) {
			values = append(values, types.String(text))
		}
		return values
	}
	listOf := func(v ref.Val, weight int) ref.Val {
		return types.NewRefValList(types.DefaultTypeAdapter, slices.Repeat([]ref.Val{v}, n/weight))
	}
	switch kind.Kind() {
	case types.StringKind, types.TypeParamKind, types.DynKind:
		return texts(n)
	case types.BytesKind:
		return []ref.Val{types.Bytes(strings.Repeat("a", n))}
	case types.BoolKind:
		return []ref.Val{types.True}
	case types.IntKind:
		return []ref.Val{types.Int(n / 2), types.Int(-1), types.IntZero}
	case types.UintKind:
		return []ref.Val{types.Uint(n)}
	case types.DoubleKind:
		return []ref.Val{types.Double(1e300)}
	case types.DurationKind:
		return []ref.Val{types.Duration{Duration: time.Hour}}
	case types.TimestampKind:
		return []ref.Val{types.Timestamp{Time: time.Unix(1_700_000_000, 0)}}
	case types.ListKind:
		element := kind.Parameters()[0]
		if element.Kind() == types.OpaqueKind {
			return []ref.Val{listOf(types.OptionalOf(types.IntOne), 10)}
		}
		values := []ref.Val{}
		for _, v := range hugeValues(tb, element, 1_000) {
			values = append(values, listOf(v, 1_000))
		}
		if n < megabyte {
			for _, v := range hugeValues(tb, element, 30) {
				values = append(values, listOf(v, 30))
			}
		}
		return values
	case types.MapKind:
		m := map[ref.Val]ref.Val{}
		for i := range n / 20 {
			m[types.Int(i)] = types.IntOne
		}
		return []ref.Val{orderedMap{types.NewRefValMap(types.DefaultTypeAdapter, m)}}
	case types.OpaqueKind, types.StructKind:
		return hugeOpaque(tb, kind, n)
	}
	tb.Fatalf("there is no huge value of type %s", kind)
	return nil
}

func hugeOpaque(tb testing.TB, kind *cel.Type, n int) []ref.Val {
	tb.Helper()
	digits := func(text string) ref.Val {
		q := resource.MustParse(text)
		return apiservercel.Quantity{Quantity: &q}
	}
	switch kind.TypeName() {
	case "optional_type":
		return []ref.Val{types.OptionalOf(types.String(strings.Repeat("a", n)))}
	case "kubernetes.Quantity":
		return []ref.Val{digits("1e999"), digits(strings.Repeat("9", 900) + "e99"), digits("1")}
	case "kubernetes.Semver":
		v, err := semver.Parse("1.0.0-" + strings.Repeat("1.", n/2) + "1")
		if err != nil {
			tb.Fatal(err)
		}
		return []ref.Val{apiservercel.Semver{Version: v}}
	case "kubernetes.URL":
		u, err := url.Parse("https://a/" + strings.Repeat("%20", n/6) + "?" + strings.Repeat("a&", n/4))
		if err != nil {
			tb.Fatal(err)
		}
		return []ref.Val{apiservercel.URL{URL: u}}
	case "net.IP":
		return []ref.Val{call(tb, "ip", types.String("fe80::1"))}
	case "net.CIDR":
		return []ref.Val{call(tb, "cidr", types.String("fe80::/10"))}
	case "kubernetes.NamedFormat":
		formats := []ref.Val{}
		for name := range functionsOf(tb) {
			if strings.HasPrefix(name, "format.") && name != "format.named" {
				formats = append(formats, call(tb, name))
			}
		}
		return formats
	}
	tb.Fatalf("there is no huge value of type %s", kind)
	return nil
}

func functionsOf(tb testing.TB) map[string]*decls.FunctionDecl {
	tb.Helper()
	env, err := environment()
	if err != nil {
		tb.Fatal(err)
	}
	return env.Functions()
}

// call runs a function of the environment, as it is.
func call(tb testing.TB, name string, args ...ref.Val) ref.Val {
	tb.Helper()
	bindings, err := functionsOf(tb)[name].Bindings()
	if err != nil {
		tb.Fatal(err)
	}
	run := bindingFor(bindings, "", name, len(args))
	if run == nil {
		tb.Fatalf("%s is not implemented", name)
	}
	return run(args...)
}

func bindingFor(bindings []*functions.Overload, overload, name string, args int) functions.FunctionOp {
	for _, id := range []string{overload, name} {
		for _, b := range bindings {
			if b.Operator == id {
				if run := operation(b, args); run != nil {
					return run
				}
			}
		}
	}
	return nil
}

// hugeCall is one call of a function with huge arguments.
type hugeCall struct {
	function, overload string
	args               []ref.Val
	run                functions.FunctionOp
}

// hugeCalls are calls of all functions of the environment, with every value for each argument; in
// all pairs, if asked for.
func hugeCalls(tb testing.TB, n int, pairs bool) map[string][]hugeCall {
	tb.Helper()
	c := &costs{}
	all := map[string][]hugeCall{}
	for name, function := range functionsOf(tb) {
		bindings, err := function.Bindings()
		if err != nil {
			tb.Fatal(err)
		}
		for _, overload := range function.OverloadDecls() {
			kinds := overload.ArgTypes()
			run := bindingFor(bindings, overload.ID(), name, len(kinds))
			switch name {
			case "findAll":
				run = c.findAll
			case operators.Equals, operators.NotEquals:
				run = func(args ...ref.Val) ref.Val { return types.Equal(args[0], args[1]) }
			}
			if run == nil || len(kinds) == 0 {
				continue
			}
			values := make([][]ref.Val, len(kinds))
			most := 0
			for i, kind := range kinds {
				values[i] = hugeValues(tb, kind, n)
				if i > 0 && kind.Kind() == types.StringKind {
					for _, text := range []string{"", "a", "1", ".", "Europe/Berlin", "(a?){99}b", strings.Repeat("a", n/2) + "b"} {
						values[i] = append(values[i], types.String(text))
					}
				}
				most = max(most, len(values[i]))
			}
			for first := range values[0] {
				for other := range most {
					if !pairs && len(kinds) > 1 && other != (first+1)%most {
						continue
					}
					args := []ref.Val{values[0][first]}
					for i := 1; i < len(kinds); i++ {
						args = append(args, values[i][other%len(values[i])])
					}
					all[name] = append(all[name], hugeCall{name, overload.ID(), args, run})
					if len(kinds) == 1 {
						break
					}
				}
			}
		}
	}
	return all
}

// TestEveryFunctionHasItsPrice walks all functions of the environment, so that none of a library
// that is added is forgotten, with megabytes for arguments. Those that are charged for nothing but
// being called do not look at them.
func TestEveryFunctionHasItsPrice(t *testing.T) {
	// unread are functions that take as long for a megabyte as for a byte.
	unread := map[string]bool{}
	for _, name := range []string{
		"!_", "-_", "_&&_", "_||_", "_?_:_", "_%_", "_*_", "_-_", "_/_", "_[_]", "_[?_]", "_?._", "@not_strictly_false",
		"__not_strictly_false__", "dyn", "type", "optional.none", "optional.of", "optional.ofNonZeroValue", "hasValue", "value", "or",
		"orValue", "first", "last", "major", "minor", "patch",
	} {
		unread[name] = true
	}
	c := &costs{}
	calls := hugeCalls(t, megabyte, false)
	for name, function := range functionsOf(t) {
		if prices[name].price == nil {
			t.Errorf("%s has no price", name)
		}
		if unread[name] {
			continue
		}
		for _, overload := range function.OverloadDecls() {
			if len(overload.ArgTypes()) == 0 {
				continue
			}
			for _, one := range calls[name] {
				least := one.least()
				if price := c.price(name, one.overload, one.args); price < least {
					t.Errorf("%s of %d bytes costs %d, want at least %d", one.overload, read(one.args...), price, least)
					break
				}
			}
		}
	}
}

// least is what a call costs at least: a unit for each twenty bytes that it has to read. Some end
// early with the shorter argument.
func (h hugeCall) least() uint64 {
	switch h.function {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return uint64(min(read(h.args[0]), read(h.args[1])) / 20)
	case operators.In, operators.OldIn, "in":
		if _, ok := h.args[1].(traits.Lister); !ok {
			return uint64(read(h.args[0]) / 20)
		}
		return uint64(read(h.args[1]) / 20)
	case "optional.unwrap", "unwrapOpt", rangeOf:
		return sizeOf(h.args[0])
	case "size":
		return uint64(leafWeight(h.args[0]) / 20)
	case "scores":
		return uint64(read(h.args[1]) / 20)
	}
	return uint64(read(h.args...) / 20)
}

// read is how many bytes are in texts and in lists of them.
func read(values ...ref.Val) int {
	n := 0
	for _, v := range values {
		switch v := v.(type) {
		case types.String, types.Bytes:
			n += leafWeight(v)
		case traits.Lister:
			if v.Size() != types.IntZero {
				n += int(v.Size().(types.Int)) * leafWeight(v.Get(types.IntZero))
			}
		}
	}
	return n
}

// TestDearCallsDoNotRun: what alone would cost more than the limit is refused before it begins.
func TestDearCallsDoNotRun(t *testing.T) {
	a := strings.Repeat("a", megabyte)
	half := a[:megabyte/2] + "b"
	list := types.NewRefValList(types.DefaultTypeAdapter, slices.Repeat([]ref.Val{types.String(a)}, 20))
	for name, args := range map[string][]any{
		"indexOf":       {a, half},
		"lastIndexOf":   {a, half},
		"contains":      {a, half},
		"replace":       {a, "a", half},
		"split":         {a, ""},
		"join":          {list, half},
		"format":        {strings.Repeat("%.99f", 20_000), list},
		"matches":       {a, "(a?){99}b"},
		"find":          {a, "(a?){99}b"},
		"findAll":       {a, "(a?){99}b"},
		"quantity":      {"1e999999999"},
		"isQuantity":    {"1e-999999999"},
		"parseJSON":     {"[" + strings.Repeat("{},", megabyte/3) + "{}]"},
		"semver":        {"1.0.0-" + a},
		"strings.quote": {a},
		"sum":           {types.NewRefValList(types.DefaultTypeAdapter, slices.Repeat([]ref.Val{types.IntOne}, megabyte))},
		rangeOf:         {hugeValues(t, cel.MapType(cel.IntType, cel.IntType), 2*megabyte)[0]},
	} {
		t.Run(name, func(t *testing.T) {
			vars, options, texts := map[string]any{}, []cel.EnvOption{}, []string{}
			for i, arg := range args {
				variable := fmt.Sprint("a", i)
				vars[variable], texts = arg, append(texts, variable)
				options = append(options, cel.Variable(variable, cel.DynType))
			}
			text := fmt.Sprintf("%s.%s(%s)", texts[0], name, strings.Join(texts[1:], ", "))
			switch name {
			case "quantity", "isQuantity", "semver", "strings.quote":
				text = fmt.Sprintf("%s(%s)", name, texts[0])
			case rangeOf:
				text = "a0.exists(k, true)"
			}
			if ran := evaluateSpied(t, name, text, vars, options...); ran {
				t.Errorf("%s has run", text)
			}
		})
	}
}

// evaluateSpied says whether an expression called a function.
func evaluateSpied(t *testing.T, name, text string, vars map[string]any, options ...cel.EnvOption) bool {
	t.Helper()
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	if env, err = env.Extend(options...); err != nil {
		t.Fatal(err)
	}
	compiled, issues := env.Compile(text)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	ran := false
	charge := &costs{limit: CostLimit, called: func(function string) { ran = ran || function == name }}
	program, err := env.Program(compiled, cel.CostLimit(CostLimit), cel.CostTracking(charge), cel.CustomDecoratorV2(charge.guard(env)))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = program.Eval(vars)
	if err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("%s: got error %v, want the cost limit", text, err)
	}
	return ran
}

// measure is the time of the fastest of three runs, and what the call is charged with.
func (h hugeCall) measure(c *costs) (fastest time.Duration, cost uint64) {
	fastest = time.Hour
	for range 9 {
		func() {
			begin := time.Now() //nolint:forbidigo // A benchmark measures time.
			defer func() {
				fastest = min(fastest, time.Since(begin)) //nolint:forbidigo // A benchmark measures time.
				if recover() != nil {
					cost = CostLimit
				}
			}()
			cost = *c.CallCost(h.function, h.overload, h.args, h.run(h.args...))
		}()
	}
	return fastest, cost
}

// BenchmarkFunctions measures what a unit is worth: the dearest of a function's calls that are not
// refused, with arguments of 1 and of 100 kilobytes.
func BenchmarkFunctions(b *testing.B) {
	sizes := []int{1 << 10, 100 << 10}
	calls := []map[string][]hugeCall{hugeCalls(b, sizes[0], true), hugeCalls(b, sizes[1], true)}
	for _, name := range slices.Sorted(maps.Keys(calls[0])) {
		b.Run(name, func(b *testing.B) {
			c := &costs{}
			worst := 0.0
			for b.Loop() {
				for i := range sizes {
					for _, one := range calls[i][name] {
						price := c.price(name, one.overload, one.args)
						if price > CostLimit {
							continue
						}
						took, cost := one.measure(c)
						worst = max(worst, float64(took.Nanoseconds())/float64(cost))
					}
				}
			}
			b.ReportMetric(worst, "ns/unit")
		})
	}
}
