package clustercel

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// kind is the kind of a value, as far as it is known before an evaluation.
type kind string

const (
	kindUnknown   kind = ""
	kindObject    kind = "an object"
	kindMap       kind = "a map"
	kindList      kind = "a list"
	kindString    kind = "a string"
	kindNumber    kind = "a number"
	kindBoolean   kind = "a boolean"
	kindTimestamp kind = "a timestamp"
)

// maxPath is the maximum length of a path or a name in an error, in bytes.
const maxPath = 200

// valueType is the type of a value in a ManagedCluster, or of a result. fields are those of an
// object, elem is the type of the values of a list or map.
type valueType struct {
	kind   kind
	fields map[string]*valueType
	elem   *valueType
	// hint says how to compare the value.
	hint string
}

var unknownType = &valueType{}

// clusterType is the type of managedCluster. It has the fields of the Go type, because Render drops
// all others.
var clusterType = sync.OnceValue(func() *valueType { return typeOf(reflect.TypeFor[v1alpha1.ManagedCluster]()) })

// scoresType is the type of the result of the function scores.
var scoresType = &valueType{kind: kindList, elem: &valueType{kind: kindObject, fields: map[string]*valueType{"name": {kind: kindString}, "value": {kind: kindNumber}}}}

// typeOf returns the type that values of a Go type have after Render.
func typeOf(t reflect.Type) *valueType {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return &valueType{kind: kindString, hint: "convert the string with timestamp(...)"}
	case reflect.TypeFor[resource.Quantity]():
		return &valueType{kind: kindString, hint: `compare quantities, for example quantity(...).isGreaterThan(quantity("4"))`}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.String:
		return &valueType{kind: kindString}
	case reflect.Bool:
		return &valueType{kind: kindBoolean}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return &valueType{kind: kindNumber}
	case reflect.Map:
		return &valueType{kind: kindMap, elem: typeOf(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &valueType{kind: kindString}
		}
		return &valueType{kind: kindList, elem: typeOf(t.Elem())}
	case reflect.Struct:
		return structType(t)
	}
	return unknownType
}

func structType(t reflect.Type) *valueType {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return unknownType
	}
	s := &valueType{kind: kindObject, fields: map[string]*valueType{}}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			maps.Copy(s.fields, typeOf(field.Type).fields)
		} else if name != "-" {
			s.fields[name] = typeOf(field.Type)
		}
	}
	return s
}

// typed is the type of an expression, and its text if it is a field of a variable.
type typed struct {
	*valueType
	path string
}

// fieldChecker finds parts of a type-checked expression that fail for every cluster. CEL's own
// check does not find them, because managedCluster is a map to it: a declared type would refuse
// valid expressions such as managedCluster["metadata"].
type fieldChecker struct {
	ast   *ast.AST
	scope map[string]*valueType
	err   error
}

// checkFields returns an error if an expression reads a field that no ManagedCluster has, combines
// values that cannot be combined, or does not return a boolean.
func checkFields(checked *ast.AST) error {
	c := &fieldChecker{ast: checked, scope: map[string]*valueType{managedCluster: clusterType()}}
	root := checked.Expr()
	result := c.check(root)
	if c.err == nil && result.kind != kindBoolean && (result.kind != kindUnknown || !mayBeBoolean(checked.GetType(root.ID()))) {
		is := string(result.kind)
		if result.kind == kindUnknown {
			is = "of type " + checked.GetType(root.ID()).String()
		}
		c.fail(root, "the result must be a boolean, but it is %s: compare it, for example with ==", is)
	}
	return c.err
}

func mayBeBoolean(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.DynKind, types.AnyKind, types.TypeParamKind:
		return true
	}
	return false
}

// fail stores the first error, with line and column as in the errors of CEL.
func (c *fieldChecker) fail(e ast.Expr, format string, args ...any) {
	if c.err == nil {
		at := c.ast.SourceInfo().GetStartLocation(e.ID())
		c.err = fmt.Errorf("%d:%d: %s", at.Line(), at.Column()+1, fmt.Sprintf(format, args...))
	}
}

// check visits an expression once and returns its type.
func (c *fieldChecker) check(e ast.Expr) typed {
	found := typed{valueType: unknownType}
	switch e.Kind() {
	case ast.IdentKind:
		if t := c.scope[e.AsIdent()]; t != nil {
			found = typed{t, e.AsIdent()}
		}
	case ast.SelectKind:
		found = c.field(e, c.check(e.AsSelect().Operand()), e.AsSelect().FieldName())
		if e.AsSelect().IsTestOnly() {
			found = typed{valueType: &valueType{kind: kindBoolean}}
		}
	case ast.CallKind:
		found = c.call(e, e.AsCall())
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			c.check(item)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			c.check(entry.AsMapEntry().Key())
			c.check(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		c.comprehension(e.AsComprehension())
	}
	if found.kind == kindUnknown {
		found.valueType = fromCEL(c.ast.GetType(e.ID()))
	}
	return found
}

// fromCEL returns the type that CEL's check found.
func fromCEL(t *types.Type) *valueType {
	switch t.Kind() {
	case types.BoolKind:
		return &valueType{kind: kindBoolean}
	case types.StringKind:
		return &valueType{kind: kindString}
	case types.IntKind, types.UintKind, types.DoubleKind:
		return &valueType{kind: kindNumber}
	case types.TimestampKind:
		return &valueType{kind: kindTimestamp}
	case types.ListKind:
		return &valueType{kind: kindList, elem: unknownType}
	case types.MapKind:
		return &valueType{kind: kindMap, elem: unknownType}
	}
	return unknownType
}

// field returns the type of a field of a value.
func (c *fieldChecker) field(e ast.Expr, of typed, name string) typed {
	path := shortened(of.path+"."+name, maxPath)
	switch of.kind {
	case kindUnknown:
	case kindMap:
		return typed{of.elem, path}
	case kindObject:
		if t := of.fields[name]; t != nil {
			return typed{t, path}
		}
		c.fail(e, "%s has no field %q: its fields are %s", describe(of), shortened(name, maxPath), strings.Join(slices.Sorted(maps.Keys(of.fields)), ", "))
	case kindList:
		c.fail(e, "%s is a list and has no field %q: use exists, for example %s.exists(x, x.name == \"...\")", describe(of), shortened(name, maxPath), of.path)
	default:
		c.fail(e, "%s is %s and has no field %q", describe(of), of.kind, shortened(name, maxPath))
	}
	return typed{valueType: unknownType}
}

func describe(t typed) string {
	if t.path == "" {
		return "the value"
	}
	return t.path
}

func (c *fieldChecker) call(e ast.Expr, call ast.CallExpr) typed {
	var args []typed
	if call.IsMemberFunction() {
		args = append(args, c.check(call.Target()))
	}
	for _, arg := range call.Args() {
		args = append(args, c.check(arg))
	}
	switch name := call.FunctionName(); name {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return c.index(e, name, args[0], call.Args()[1])
	case "scores":
		return typed{valueType: scoresType}
	case rangeOf:
		return args[0]
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		c.booleans(call, args)
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		c.compare(e, args[0], args[1])
	case operators.In:
		c.member(e, args[1])
	}
	return typed{valueType: unknownType}
}

// index returns the type of the result of an operator that reads an item.
func (c *fieldChecker) index(e ast.Expr, operator string, of typed, key ast.Expr) typed {
	found := c.item(e, of, key)
	if operator != operators.Index && found.kind != kindUnknown && found.kind != kindObject && found.kind != kindMap && found.kind != kindList {
		found.valueType = unknownType // It is an optional, not a value that can be compared.
	}
	return found
}

// booleans checks the arguments of a logical operator.
func (c *fieldChecker) booleans(call ast.CallExpr, args []typed) {
	for i, arg := range args {
		if arg.kind != kindUnknown && arg.kind != kindBoolean {
			c.fail(call.Args()[i], "%s is %s, but a boolean is required", describe(arg), arg.kind)
		}
	}
}

// member checks the right side of the operator in.
func (c *fieldChecker) member(e ast.Expr, of typed) {
	if k := of.kind; k == kindString || k == kindNumber || k == kindBoolean {
		c.fail(e, "%s is %s: the operator in requires a list or a map", describe(of), k)
	}
}

// item returns the type of an item of a list, map or object.
func (c *fieldChecker) item(e ast.Expr, of typed, key ast.Expr) typed {
	if key.Kind() == ast.LiteralKind {
		if name, ok := key.AsLiteral().Value().(string); ok {
			return c.field(e, of, name)
		}
	}
	if of.elem != nil {
		return typed{of.elem, of.path + "[...]"}
	}
	return typed{valueType: unknownType}
}

func (c *fieldChecker) compare(e ast.Expr, a, b typed) {
	ka, kb := comparisonKind(a.kind), comparisonKind(b.kind)
	if ka == kindUnknown || kb == kindUnknown || ka == kb {
		return
	}
	hint := a.hint + b.hint
	if hint == "" {
		hint = "compare values of the same type"
	}
	if a.path == "" {
		a, b = b, a
	}
	c.fail(e, "%s is %s and is compared with %s: %s", describe(a), a.kind, b.kind, hint)
}

// comparisonKind returns a kind by which values can be compared: objects are maps.
func comparisonKind(k kind) kind {
	if k == kindObject {
		return kindMap
	}
	return k
}

// comprehension checks a loop, such as exists, in which variables have the types of the items.
func (c *fieldChecker) comprehension(loop ast.ComprehensionExpr) {
	over := c.check(loop.IterRange())
	c.check(loop.AccuInit())
	first, second := unknownType, unknownType
	switch over.kind {
	case kindList:
		first = over.elem
		if loop.HasIterVar2() {
			first, second = &valueType{kind: kindNumber}, over.elem
		}
	case kindMap:
		first, second = &valueType{kind: kindString}, over.elem
	case kindObject:
		first = &valueType{kind: kindString}
	case kindString, kindNumber, kindBoolean:
		c.fail(loop.IterRange(), "%s is %s: a list or a map is required", describe(over), over.kind)
	}
	outer := c.scope
	c.scope = maps.Clone(outer)
	c.scope[loop.AccuVar()] = nil
	c.scope[loop.IterVar()] = first
	if loop.HasIterVar2() {
		c.scope[loop.IterVar2()] = second
	}
	c.check(loop.LoopCondition())
	c.check(loop.LoopStep())
	delete(c.scope, loop.IterVar())
	if loop.HasIterVar2() {
		delete(c.scope, loop.IterVar2())
	}
	c.check(loop.Result())
	c.scope = outer
}
