package clustercel

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// object is the only variable of an ObjectExpression.
const object = "object"

var objectEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	env, err := libraries()
	if err != nil {
		return nil, err
	}
	return env.Extend(cel.Variable(object, cel.MapType(cel.StringType, cel.DynType)))
})

// ObjectExpression is a compiled CEL expression over an object of any kind, with the limits and the
// functions of Expression, except scores. It is safe for concurrent use.
type ObjectExpression struct {
	program cel.Program
	result  *cel.Type
}

// CompileString compiles an expression that returns a string, CompileBool one that returns a
// boolean. An error is one line of at most 4 KiB.
func CompileString(text string) (*ObjectExpression, error) {
	return compileObject(text, cel.StringType)
}

// CompileBool compiles an expression that returns a boolean.
func CompileBool(text string) (*ObjectExpression, error) { return compileObject(text, cel.BoolType) }

func compileObject(text string, result *cel.Type) (*ObjectExpression, error) {
	checked, err := check(text, object, objectEnvironment, func(checked *ast.AST) error {
		// A field of the object is dyn; its type is checked in each evaluation.
		if got := checked.GetType(checked.Expr().ID()); !got.IsExactType(result) && !got.IsExactType(cel.DynType) {
			return fmt.Errorf("the result is %s, not %s", got, result)
		}
		return nil
	})
	if err != nil {
		return nil, errors.New(shortened(err.Error(), maxMessage))
	}
	program, err := checked.program(CostLimit)
	if err != nil {
		return nil, errors.New(shortened(err.Error(), maxMessage))
	}
	return &ObjectExpression{program: program, result: result}, nil
}

// String evaluates an expression of CompileString. The object must be unstructured content; it is
// not modified.
func (e *ObjectExpression) String(ctx context.Context, content map[string]any) (string, error) {
	value, err := e.evaluate(ctx, content)
	if err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("the result is %T, not a string", value)
	}
	return text, nil
}

// Bool evaluates an expression of CompileBool.
func (e *ObjectExpression) Bool(ctx context.Context, content map[string]any) (bool, error) {
	value, err := e.evaluate(ctx, content)
	if err != nil {
		return false, err
	}
	yes, ok := value.(bool)
	if !ok {
		return false, fmt.Errorf("the result is %T, not a boolean", value)
	}
	return yes, nil
}

func (e *ObjectExpression) evaluate(ctx context.Context, content map[string]any) (any, error) {
	result, _, err := evaluate(ctx, e.program, map[string]any{object: adapter{}.NativeToValue(content)}, CostLimit)
	if err != nil {
		return nil, err
	}
	return result.Value(), nil
}
