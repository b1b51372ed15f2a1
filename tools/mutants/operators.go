package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	dir, file    string // relative to the module
	line, column int
	// The bytes from start to end become text.
	start, end int
	text       string
	// what is the change in words.
	what string
	// source is the whole file as it was read: it may be edited while mutants are tried.
	source []byte
}

// swaps are what an operator may become.
var swaps = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.GEQ, token.LEQ}, token.LEQ: {token.GTR, token.LSS},
	token.GTR: {token.LEQ, token.GEQ}, token.GEQ: {token.LSS, token.GTR},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND}, token.AND_NOT: {token.AND}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN}, token.MUL_ASSIGN: {token.QUO_ASSIGN},
	token.QUO_ASSIGN: {token.MUL_ASSIGN}, token.OR_ASSIGN: {token.AND_ASSIGN}, token.AND_ASSIGN: {token.OR_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.BREAK: {token.CONTINUE}, token.CONTINUE: {token.BREAK},
}

// locks are methods whose absence tests that run one after the other cannot see.
var locks = []string{"Lock", "Unlock", "RLock", "RUnlock"}

// collector finds the mutants of one file.
type collector struct {
	files     *token.FileSet
	dir, name string
	text      []byte
	// loops is true where continue is legal.
	loops   bool
	mutants []mutant
}

// mutantsOf lists all changes of a file in the order of their places.
func mutantsOf(dir, name string, text []byte) ([]mutant, error) {
	c := &collector{files: token.NewFileSet(), dir: dir, name: name, text: text}
	file, err := parser.ParseFile(c.files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	for _, decl := range file.Decls {
		c.visit(decl)
	}
	slices.SortStableFunc(c.mutants, func(a, b mutant) int { return a.start - b.start })
	return c.mutants, nil
}

func (c *collector) visit(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			// The capacity that is given to make changes no result.
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "make" {
				return false
			}
		case *ast.ForStmt, *ast.RangeStmt, *ast.FuncLit:
			if n != root {
				c.nested(n)
				return false
			}
		case *ast.BinaryExpr:
			if n.Op != token.ADD || !isText(n.X) && !isText(n.Y) {
				c.swap(n.OpPos, n.Op)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				c.add(n.OpPos, n.OpPos+1, "", "without !")
			}
		case *ast.IncDecStmt:
			c.swap(n.TokPos, n.Tok)
		case *ast.AssignStmt:
			c.swap(n.TokPos, n.Tok)
			if n.Tok == token.ASSIGN {
				c.remove(n)
			}
		case *ast.ExprStmt:
			if !isLock(n.X) {
				c.remove(n)
			}
		case *ast.BranchStmt:
			if c.loops && n.Label == nil {
				c.swap(n.TokPos, n.Tok)
			}
		case *ast.Ident:
			c.flip(n)
		}
		return true
	})
}

// nested visits a loop or a function, whose body may continue another loop or none.
func (c *collector) nested(n ast.Node) {
	outer := c.loops
	defer func() { c.loops = outer }()
	switch n.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		c.loops = true
	case *ast.FuncLit:
		c.loops = false
	}
	c.visit(n)
}

func (c *collector) swap(at token.Pos, old token.Token) {
	for _, other := range swaps[old] {
		c.add(at, at+token.Pos(len(old.String())), other.String(), old.String()+" → "+other.String())
	}
}

func (c *collector) flip(name *ast.Ident) {
	switch name.Name {
	case "true":
		c.add(name.Pos(), name.End(), "false", "true → false")
	case "false":
		c.add(name.Pos(), name.End(), "true", "false → true")
	}
}

func (c *collector) remove(statement ast.Stmt) {
	text := string(c.text[c.files.Position(statement.Pos()).Offset:c.files.Position(statement.End()).Offset])
	first, _, more := strings.Cut(text, "\n")
	if more {
		first += " …"
	}
	c.add(statement.Pos(), statement.End(), "", "without "+first)
}

func (c *collector) add(start, end token.Pos, text, what string) {
	from, to := c.files.Position(start), c.files.Position(end)
	c.mutants = append(c.mutants, mutant{c.dir, c.name, from.Line, from.Column, from.Offset, to.Offset, text, what, c.text})
}

// isText says of a literal whether it is a string, which cannot be subtracted.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return isText(e.X) || isText(e.Y)
	}
	return false
}

func isLock(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains(locks, method.Sel.Name)
}
