package filters

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Bounds of one call.
const (
	// maxPattern bounds a regular expression, in bytes, and maxProgram what it compiles to, in instructions.
	maxPattern = 4 << 10
	maxProgram = 20_000
	// maxSteps bounds one search by a regular expression, in instructions executed.
	maxSteps = 50_000_000
	// maxQuantity bounds a quantity's text, in bytes, and maxExponent its decimal exponent, in digits: reading 1e999999999
	// takes longer than anybody waits.
	maxQuantity = 999
	maxExponent = 3
)

// guard is called for each step of a program as it is planned, and puts a check before those that can explode.
func (c *costs) guard(env *cel.Env) interpreter.InterpretableDecoratorV2 {
	return func(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch s := step.(type) {
		case interpreter.InterpretableConstructor:
			return weighed{s}, nil
		case interpreter.InterpretableCall:
			check := c.check(s.Function())
			if check == nil {
				return step, nil
			}
			run, err := c.implementation(env, s)
			if err != nil {
				return nil, err
			}
			args, err := veil(s)
			if err != nil {
				return nil, err
			}
			return interpreter.NewCall(s.ID(), s.Function(), s.OverloadID(), args, func(args ...ref.Val) ref.Val {
				if !check(args) {
					// An error value could be swallowed by a || in the expression.
					panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded,
						Message: "operation cancelled: actual cost limit exceeded"})
				}
				return run(args...)
			}), nil
		}
		return step, nil
	}
}

// veil keeps the regular expression library from replacing a checked find or findAll by a call of its own, when it sees that
// the pattern is a constant. Like the library it refuses a constant that is no pattern.
func veil(call interpreter.InterpretableCall) ([]interpreter.InterpretableV2, error) {
	args := call.Args()
	if call.Function() != "find" && call.Function() != "findAll" {
		return args, nil
	}
	for i, arg := range args {
		constant, ok := arg.(interpreter.InterpretableConst)
		if !ok {
			continue
		}
		if text, ok := constant.Value().(types.String); ok && i == 1 {
			if _, err := syntax.Parse(string(text), syntax.Perl); err != nil {
				return nil, err
			}
		}
		args[i] = veiled{arg}
	}
	return args, nil
}

// veiled is a step of which it does not show that it is constant.
type veiled struct{ interpreter.InterpretableV2 }

// check says, for functions that can explode, how to see from the arguments that they will not.
func (c *costs) check(function string) func([]ref.Val) bool {
	switch function {
	case "replace":
		return func(args []ref.Val) bool { return replaceWeight(args) <= maxWeight }
	case "join":
		return func(args []ref.Val) bool { return joinWeight(args) <= maxWeight }
	case "format":
		// A clause of five characters can ask for a thousand digits.
		return func(args []ref.Val) bool { return 200*textLength(args[0])+weigh(args[1], maxWeight) <= maxWeight }
	case "quantity", "isQuantity":
		return func(args []ref.Val) bool {
			text, ok := args[0].(types.String)
			return !ok || modest(string(text))
		}
	case "matches", "find":
		return func(args []ref.Val) bool { return c.searchable(args, 1) }
	case "findAll":
		// Each search for the next match may go to the end of the text.
		return func(args []ref.Val) bool { return c.searchable(args, textLength(args[0])/10+1) }
	}
	return nil
}

// replaceWeight is an upper bound of the length of what replace makes.
func replaceWeight(args []ref.Val) int {
	if len(args) < 3 {
		return 0
	}
	text := textLength(args[0])
	return text + (text/max(textLength(args[1]), 1)+1)*textLength(args[2])
}

// joinWeight is an upper bound of the length of what join makes.
func joinWeight(args []ref.Val) int {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return 0
	}
	weight := weigh(list, maxWeight)
	if len(args) > 1 && weight <= maxWeight {
		weight += int(list.Size().(types.Int)) * textLength(args[1])
	}
	return weight
}

// searchable is false when the regular expression is too large, for its own sake or for that many searches of the text.
func (c *costs) searchable(args []ref.Val, searches int) bool {
	text, pattern, ok := texts(args)
	if !ok {
		return true
	}
	_, size := c.patterns.compile(pattern)
	return size <= maxProgram && size*(len(text)+1)*searches <= maxSteps
}

func textLength(v ref.Val) int {
	text, _ := v.(types.String)
	return len(text)
}

// implementation is what a call runs.
func (c *costs) implementation(env *cel.Env, call interpreter.InterpretableCall) (functions.FunctionOp, error) {
	bindings, err := env.Functions()[call.Function()].Bindings()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{call.OverloadID(), call.Function()} {
		for _, b := range bindings {
			if b.Operator != name {
				continue
			}
			switch n := len(call.Args()); {
			case n == 2 && (call.Function() == "matches" || call.Function() == "find"):
				return c.searching(call.Function(), b.Binary), nil
			case n == 1 && b.Unary != nil:
				return func(args ...ref.Val) ref.Val { return b.Unary(args[0]) }, nil
			case n == 2 && b.Binary != nil:
				return func(args ...ref.Val) ref.Val { return b.Binary(args[0], args[1]) }, nil
			case b.Function != nil:
				return b.Function, nil
			}
		}
	}
	return nil, fmt.Errorf("%s is not implemented", call.Function())
}

// searching does not compile the regular expression at each call, as the libraries' own implementation does.
func (c *costs) searching(function string, own functions.BinaryOp) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		text, pattern, ok := texts(args)
		if !ok {
			return own(args[0], args[1])
		}
		compiled, _ := c.patterns.compile(pattern)
		switch {
		case compiled == nil:
			return own(args[0], args[1])
		case function == "find":
			return types.String(compiled.FindString(text))
		default:
			return types.Bool(compiled.MatchString(text))
		}
	}
}

// patterns remembers compiled regular expressions. It is safe for concurrent use.
type patterns struct {
	mu sync.Mutex
	of map[string]pattern
}

type pattern struct {
	*regexp.Regexp
	size int
}

// compile returns the pattern and the size of its program, in instructions; nil when it is invalid or too large.
func (p *patterns) compile(text string) (*regexp.Regexp, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.of[text]
	if !ok {
		if found.size = programSize(text); found.size <= maxProgram {
			found.Regexp, _ = regexp.Compile(text) // nil when invalid: the call itself says why.
		}
		if p.of == nil || len(p.of) >= 8 {
			p.of = map[string]pattern{}
		}
		p.of[text] = found
	}
	return found.Regexp, found.size
}

func programSize(text string) int {
	if len(text) > maxPattern {
		return maxProgram + 1
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}

func modest(quantity string) bool {
	i := strings.LastIndexAny(quantity, "eE")
	return len(quantity) <= maxQuantity && (i < 0 || len(strings.TrimLeft(quantity[i+1:], "+-0")) <= maxExponent)
}

func texts(args []ref.Val) (string, string, bool) {
	if len(args) < 2 {
		return "", "", false
	}
	a, okA := args[0].(types.String)
	b, okB := args[1].(types.String)
	return string(a), string(b), okA && okB
}
