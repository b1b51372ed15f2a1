package clustercel

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// rangeOf is a function around the range of a macro's loop, so that the loop is charged.
const rangeOf = "@range"

// cancelEvaluation ends the evaluation with the cost limit. An error value could be absorbed by a
// || in the expression.
func cancelEvaluation() {
	panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "operation cancelled: actual cost limit exceeded"})
}

// chargedMacros are the standard macros with rangeOf around their ranges.
func chargedMacros() []cel.Macro {
	var macros []cel.Macro
	for _, m := range cel.StandardMacros {
		if !m.IsReceiverStyle() {
			continue
		}
		expand := m.Expander()
		macros = append(macros, cel.ReceiverMacro(m.Function(), m.ArgCount(),
			func(helper cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
				return expand(helper, helper.NewCall(rangeOf, target), args)
			}))
	}
	return macros
}

// guard decorates the steps of a program. It adds a check before calls that rejects those that cost
// too much.
func (c *costs) guard(env *cel.Env) interpreter.InterpretableDecoratorV2 {
	return func(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch s := step.(type) {
		case interpreter.InterpretableConstructor:
			return chargedLiteral{s}, nil
		case interpreter.InterpretableCall:
			switch {
			case s.Function() == operators.Add:
				return copiedSum{s, c.limit}, nil
			case prices[s.Function()].afterwards:
				return step, nil
			}
			return c.guarded(env, s)
		}
		return step, nil
	}
}

// guarded returns the call with a check before it.
func (c *costs) guarded(env *cel.Env, s interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	function, overload := s.Function(), s.OverloadID()
	run, err := c.implementation(env, s)
	if err != nil {
		return nil, err
	}
	args := s.Args()
	if isSearch(function) {
		if args, err = hideConstants(s); err != nil {
			return nil, err
		}
		if c.isConstant(s.Args()[1]) {
			overload = constantPattern
		}
	}
	return interpreter.NewCall(s.ID(), function, overload, args, func(args ...ref.Val) ref.Val {
		if c.price(function, overload, args) > c.limit {
			cancelEvaluation()
		}
		if c.called != nil {
			c.called(function)
		}
		return run(args...)
	}), nil
}

// copiedSum is a + that copies lists. In the library's sum of lists, each access searches all
// summands, so iterating over a sum of 1,000 lists takes 1,000 times as long.
type copiedSum struct {
	interpreter.InterpretableCall
	limit uint64
}

// Exec implements interpreter.InterpretableV2.
func (f copiedSum) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	sum := f.InterpretableCall.Exec(frame)
	list, ok := sum.(traits.Lister)
	if _, builds := sum.(traits.MutableLister); !ok || builds {
		return sum
	}
	n := list.Size().(types.Int)
	if uint64(n) > f.limit {
		cancelEvaluation()
	}
	values := make([]ref.Val, 0, n)
	for it := list.Iterator(); it.HasNext() == types.True; {
		values = append(values, it.Next())
	}
	return types.NewRefValList(adapter{}, values)
}

// Eval implements interpreter.Interpretable.
func (f copiedSum) Eval(variables interpreter.Activation) ref.Val {
	return f.Exec(interpreter.AsFrame(variables))
}

// implementation returns the function that a call runs.
func (c *costs) implementation(env *cel.Env, call interpreter.InterpretableCall) (functions.FunctionOp, error) {
	if call.Function() == "findAll" {
		return c.findAll, nil
	}
	bindings, err := env.Functions()[call.Function()].Bindings()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{call.OverloadID(), call.Function()} {
		for _, b := range bindings {
			if b.Operator != name {
				continue
			}
			run := operation(b, len(call.Args()))
			if run == nil {
				continue
			}
			if len(call.Args()) == 2 && isSearch(call.Function()) {
				return c.search(call.Function(), run), nil
			}
			return run, nil
		}
	}
	return nil, fmt.Errorf("%s is not implemented", call.Function())
}

// operation returns the binding for a number of arguments; nil if there is none. Like the
// interpreter, it checks the operand's trait.
func operation(b *functions.Overload, args int) functions.FunctionOp {
	var run functions.FunctionOp
	switch {
	case args == 1 && b.Unary != nil:
		run = func(args ...ref.Val) ref.Val { return b.Unary(args[0]) }
	case args == 2 && b.Binary != nil:
		run = func(args ...ref.Val) ref.Val { return b.Binary(args[0], args[1]) }
	default:
		run = b.Function
	}
	if run == nil || b.OperandTrait == 0 {
		return run
	}
	return func(args ...ref.Val) ref.Val {
		if !args[0].Type().HasTrait(b.OperandTrait) {
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		return run(args...)
	}
}
