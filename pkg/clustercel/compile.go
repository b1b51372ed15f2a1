package clustercel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"
)

// Limits of an expression.
const (
	// CostLimit is the maximum cost for one cluster, in units of at most about 0.1 microseconds. A
	// single call that costs more does not run, so an evaluation does less than twice this work.
	CostLimit = 1_000_000
	// QuickLimit is the maximum cost of MatchesQuickly.
	QuickLimit = 20_000
	// MaxLength is the maximum length of an expression, in bytes.
	MaxLength = 16 << 10
	// maxLiterals is the maximum number of lists and maps that are not constant, including those of
	// map and filter.
	maxLiterals     = 64
	maxComputedKeys = 8
	// interruptEvery is the number of loop iterations between two checks of the context.
	interruptEvery = 100
	// maxMessage and maxReason are the maximum lengths of error texts, in bytes: a condition's
	// message is at most 32 KiB.
	maxMessage = 4 << 10
	maxReason  = 256
	maxCached  = 1_000
	// maxErrors is the maximum number of errors of CEL in an error text.
	maxErrors = 3
)

// managedCluster is the only variable of an expression.
const managedCluster = "managedCluster"

// libraries is built once, because it has many functions. It has no variable.
var libraries = sync.OnceValues(func() (*cel.Env, error) {
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
		cel.Function("parseJSON", cel.MemberOverload("string_parse_json", []*cel.Type{cel.StringType}, cel.DynType,
			cel.UnaryBinding(parseJSON))),
		cel.Function(rangeOf, cel.Overload("range_of", []*cel.Type{cel.TypeParamType("A")}, cel.TypeParamType("A"),
			cel.UnaryBinding(func(v ref.Val) ref.Val { return v }))),
		cel.Macros(chargedMacros()...),
	)
})

// environment has the variable managedCluster and the function scores.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	env, err := libraries()
	if err != nil {
		return nil, err
	}
	env, err = env.Extend(
		cel.Variable(managedCluster, cel.MapType(cel.StringType, cel.DynType)),
		cel.Function("scores", cel.MemberOverload("cluster_scores", []*cel.Type{cel.MapType(cel.StringType, cel.DynType), cel.StringType},
			cel.ListType(cel.DynType), cel.BinaryBinding(scoresFunction))),
	)
	if err != nil {
		return nil, err
	}
	return env, checkPrices(env)
})

// Expression is a compiled CEL expression. It is safe for concurrent use.
type Expression struct {
	text  string
	quick cel.Program
	// full has the limit CostLimit. It is made when it is needed first.
	full func() (cel.Program, error)
}

// Text is the text of the expression.
func (e *Expression) Text() string { return e.text }

// Excerpt is the text for a message, shortened if it is long.
func (e *Expression) Excerpt() string { return Excerpt(e.text) }

// Excerpt returns the text of an expression for a message, shortened if it is long.
func Excerpt(text string) string { return shortened(text, maxReason) }

// Compiled returns the cached expression of a text; nil if it is not cached.
func Compiled(text string) *Expression { return expressions.get(text) }

// Compile parses and type-checks an expression. It refuses an expression that reads a field that no
// ManagedCluster has, or that does not return a boolean. An error is one line of at most 4 KiB.
// Equal texts share the cached result.
func Compile(text string) (*Expression, error) {
	if e := expressions.get(text); e != nil {
		return e, nil
	}
	checked, err := check(text, managedCluster, environment, checkFields)
	if err != nil {
		return nil, errors.New(shortened(err.Error(), maxMessage))
	}
	quick, err := checked.program(QuickLimit)
	if err != nil {
		return nil, errors.New(shortened(err.Error(), maxMessage))
	}
	e := &Expression{text: text, quick: quick, full: sync.OnceValues(func() (cel.Program, error) { return checked.program(CostLimit) })}
	expressions.put(e)
	return e, nil
}

// checkedExpression is an expression that was parsed and type-checked.
type checkedExpression struct {
	env *cel.Env
	ast *cel.Ast
}

// check parses and type-checks an expression in an environment. accept may refuse it afterwards.
func check(text, variable string, environment func() (*cel.Env, error), accept func(*ast.AST) error) (_ *checkedExpression, err error) {
	defer recoverCompilation(&err)
	if len(text) > MaxLength {
		return nil, fmt.Errorf("compilation failed: the expression is longer than %d bytes", MaxLength)
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("building the CEL environment: %w", err)
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, oneLine(issues, variable)
	}
	if err := tooComplex(parsed); err != nil {
		return nil, fmt.Errorf("compilation failed: %w", err)
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, oneLine(issues, variable)
	}
	if err := accept(checked.NativeRep()); err != nil {
		return nil, fmt.Errorf("compilation failed: %w", err)
	}
	return &checkedExpression{env, checked}, nil
}

// recoverCompilation turns a panic of the library into an error.
func recoverCompilation(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("compilation failed: %v", r)
	}
}

// program returns a program whose evaluations end with an error at a cost.
func (c *checkedExpression) program(limit uint64) (_ cel.Program, err error) {
	defer recoverCompilation(&err)
	charge := &costs{limit: limit}
	program, err := c.env.Program(c.ast,
		cel.CostLimit(limit),
		cel.CostTracking(charge),
		cel.CustomDecoratorV2(charge.guard(c.env)),
		cel.InterruptCheckFrequency(interruptEvery),
	)
	if err != nil {
		return nil, fmt.Errorf("instantiation failed: %w", err)
	}
	return program, nil
}

// oneLine returns the first errors of CEL as line:column: message, without the expression.
func oneLine(issues *cel.Issues, variable string) error {
	var lines []string
	for _, e := range issues.Errors() {
		if len(lines) == maxErrors {
			break
		}
		message, _, _ := strings.Cut(strings.Join(strings.Fields(e.Message), " "), " expecting {")
		if strings.Contains(message, "token recognition error at: '= '") {
			message += ": compare with =="
		}
		if short, undeclared := strings.CutSuffix(message, " (in container '')"); undeclared {
			message = short + ": the only variable is " + variable +
				"; kubectl explain placement.spec.predicates.requiredClusterSelector.celSelector.celExpressions names the functions"
		}
		lines = append(lines, fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, message))
	}
	return fmt.Errorf("compilation failed: %s", strings.Join(lines, "; "))
}

// tooComplex rejects expressions whose types could grow so large that type-checking takes minutes:
// each list or map literal can nest types once more, and a map with a computed key can double them.
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
	if literals > maxLiterals {
		return fmt.Errorf("more than %d lists and maps are made", maxLiterals)
	}
	if keys > maxComputedKeys {
		return fmt.Errorf("more than %d map keys are not constant", maxComputedKeys)
	}
	return nil
}

func isComputed(e ast.Expr) bool { return e.Kind() != ast.LiteralKind }

// shortened cuts a text to a length in bytes.
func shortened(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length], "") + "..."
}

// expressions caches compiled expressions by text.
var expressions expressionCache

// expressionCache is emptied when it is full. Callers keep the expressions that they use.
type expressionCache struct {
	mu     sync.Mutex
	byText map[string]*Expression
}

func (c *expressionCache) get(text string) *Expression {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byText[text]
}

func (c *expressionCache) put(e *Expression) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byText == nil || len(c.byText) >= maxCached {
		c.byText = map[string]*Expression{}
	}
	c.byText[e.text] = e
}
