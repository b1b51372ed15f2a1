package clustercel

import (
	"math"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

const (
	// maxPattern is the maximum length of a regular expression, in bytes, maxProgram that of its
	// program, in instructions.
	maxPattern = 4 << 10
	maxProgram = 20_000
	// maxClasses is the maximum number of named character classes, such as \pL, each with hundreds
	// of ranges. classCost is the cost of parsing one.
	maxClasses = 20
	classCost  = 5_000
	// stepsPerUnit is the number of instructions that a search runs per unit of cost.
	stepsPerUnit = 4
	// parseCost is the cost of parsing a byte of a regular expression, compileCost that of
	// compiling an instruction.
	parseCost   = 20
	compileCost = 5
	// constantPattern is the overload of a search for a constant pattern, which is compiled once.
	constantPattern = "@constant_pattern"
	// maxQuantity is the maximum length of a quantity's text, in bytes, maxExponent that of its
	// decimal exponent, in digits: parsing 1e999999999 takes too long.
	maxQuantity = 999
	maxExponent = 3
	// maxKey is the maximum length of a key in a map lookup, in bytes.
	maxKey = 16 << 10
)

func isSearch(function string) bool {
	return function == "matches" || function == "find" || function == "findAll"
}

// searchingPrice is the cost of compiling the pattern, unless it is constant, and of one search
// through the text.
func searchingPrice(c *costs, overload string, args []ref.Val) uint64 {
	pattern := textIn(args[1])
	_, size := c.patterns.compile(pattern)
	if size > maxProgram {
		return maxWeight
	}
	cost := searchCost(size, args)
	if overload != constantPattern {
		cost += uint64(parseCost*len(pattern) + compileCost*size + classCost*classes(pattern))
	}
	return cost
}

func searchCost(size int, args []ref.Val) uint64 {
	return 1 + product(uint64(size), uint64(textLength(args[0])+5))/stepsPerUnit
}

// foundCost is the cost of findAll beside its first search: each match needs another search, which
// may read to the end of the text. Searches count twice, because each starts at a new position.
func (c *costs) foundCost(_ string, args []ref.Val, result ref.Val) uint64 {
	_, size := c.patterns.compile(textIn(args[1]))
	return product(2*sizeOf(result), searchCost(size, args)) + traversalCost(weightOf(result, maxWeight))
}

// findAll searches for few matches first, then for four times as many, until the limit is reached.
func (c *costs) findAll(args ...ref.Val) ref.Val {
	text, pattern, ok := twoStrings(args)
	if !ok {
		return types.NoSuchOverloadErr()
	}
	most := math.MaxInt
	if len(args) > 2 {
		n, ok := args[2].(types.Int)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[2])
		}
		if n >= 0 {
			most = int(n)
		}
	}
	re, size := c.patterns.compile(pattern)
	if re == nil {
		_, err := regexp.Compile(pattern)
		return types.NewErr("Illegal regex: %v", err)
	}
	for n := 4; ; n *= 4 {
		n = min(n, most)
		found := re.FindAllString(text, n)
		if len(found) < n || n == most {
			return types.NewStringList(types.DefaultTypeAdapter, found)
		}
		if product(uint64(2*n), searchCost(size, args)) > CostLimit {
			cancelEvaluation()
		}
	}
}

// search does not compile the pattern in each call, as the library's implementation does.
func (c *costs) search(function string, own functions.FunctionOp) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		text, pattern, ok := twoStrings(args)
		if !ok {
			return own(args...)
		}
		compiled, _ := c.patterns.compile(pattern)
		switch {
		case compiled == nil:
			return own(args...)
		case function == "find":
			return types.String(compiled.FindString(text))
		default:
			return types.Bool(compiled.MatchString(text))
		}
	}
}

// hideConstants prevents the regular expression library from replacing a checked find or findAll
// with its own call for a constant pattern. Like the library, it rejects an invalid constant
// pattern.
func hideConstants(call interpreter.InterpretableCall) ([]interpreter.InterpretableV2, error) {
	args := call.Args()
	if call.Function() == "matches" {
		return args, nil
	}
	hiddenArgs := make([]interpreter.InterpretableV2, len(args))
	for i, arg := range args {
		hiddenArgs[i] = arg
		constant, ok := arg.(interpreter.InterpretableConst)
		if !ok {
			continue
		}
		if text, ok := constant.Value().(types.String); ok && i == 1 {
			if _, err := syntax.Parse(string(text), syntax.Perl); err != nil {
				return nil, err
			}
		}
		hiddenArgs[i] = hiddenConstant{arg}
	}
	return hiddenArgs, nil
}

// hiddenConstant hides that a step is constant.
type hiddenConstant struct{ interpreter.InterpretableV2 }

// isConstant reports whether a pattern is a constant, and keeps it compiled with the expression.
// Constants whose total size is too large count as computed.
func (c *costs) isConstant(arg interpreter.InterpretableV2) bool {
	constant, ok := arg.(interpreter.InterpretableConst)
	if !ok {
		return false
	}
	return c.patterns.keep(textIn(constant.Value()))
}

// patterns caches compiled regular expressions. It is safe for concurrent use.
type patterns struct {
	// constants are set while the program is planned, and not changed afterwards.
	constants map[string]pattern
	sizes     int

	mu       sync.Mutex
	computed map[string]pattern
}

type pattern struct {
	*regexp.Regexp
	size int
}

// keep compiles a constant, unless the total size of the constants would be too large.
func (p *patterns) keep(text string) bool {
	if _, ok := p.constants[text]; ok {
		return true
	}
	compiled := compilePattern(text, maxProgram-p.sizes)
	if compiled.size > maxProgram-p.sizes {
		return false
	}
	p.sizes += compiled.size
	if p.constants == nil {
		p.constants = map[string]pattern{}
	}
	p.constants[text] = compiled
	return true
}

// compile returns the pattern, nil if it is invalid or too large, and the size of its program in
// instructions.
func (p *patterns) compile(text string) (*regexp.Regexp, int) {
	if found, ok := p.constants[text]; ok {
		return found.Regexp, found.size
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.computed[text]
	if !ok {
		found = compilePattern(text, maxProgram)
		if p.computed == nil || len(p.computed) >= 8 {
			p.computed = map[string]pattern{}
		}
		p.computed[text] = found
	}
	return found.Regexp, found.size
}

// compilePattern compiles a pattern of at most most instructions. The Regexp is nil if it has more
// or is invalid; the call itself reports the reason.
func compilePattern(text string, most int) pattern {
	if len(text) > maxPattern || classes(text) > maxClasses {
		return pattern{size: maxProgram + 1}
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return pattern{size: 1}
	}
	compiled := pattern{size: instructions(parsed)}
	if compiled.size <= most {
		compiled.Regexp, _ = regexp.Compile(text)
	}
	return compiled
}

func classes(pattern string) int { return strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`) }

// instructions returns an upper bound of the program's size. Repetitions are expanded.
func instructions(re *syntax.Regexp) int {
	n := 1
	for _, sub := range re.Sub {
		n += instructions(sub) + 1
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpCharClass:
		// A class is searched range by range, and copied with its repetitions.
		n += len(re.Rune) / 16
	case syntax.OpRepeat:
		n *= max(re.Min, re.Max) + 1
	}
	return min(n, math.MaxInt32)
}

func isBoundedQuantity(quantity string) bool {
	i := strings.LastIndexAny(quantity, "eE")
	return len(quantity) <= maxQuantity && (i < 0 || len(strings.TrimLeft(quantity[i+1:], "+-0")) <= maxExponent)
}

func twoStrings(args []ref.Val) (string, string, bool) {
	if len(args) < 2 {
		return "", "", false
	}
	a, okA := args[0].(types.String)
	b, okB := args[1].(types.String)
	return string(a), string(b), okA && okB
}
