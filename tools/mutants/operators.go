package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mutant is one change of one statement or operator. The number switches it on at run time.
type mutant struct {
	number       int
	dir, file    string // relative to the module
	line, column int
	// what describes the change; code is the changed line.
	what, code string
}

// swaps has the replacements of each operator.
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

// locks are methods that are never removed, because tests without concurrency do not detect it.
var locks = []string{"Lock", "Unlock", "RLock", "RUnlock"}

// rewriter rewrites one file with a switch at each mutant. Line numbers stay.
type rewriter struct {
	files *token.FileSet
	info  *types.Info
	dir   string // relative to the module
	name  string // relative to the module
	text  string
	// next is the number of the next mutant.
	next    int
	mutants []mutant
	// inList has the statements in blocks, cases and select clauses. Each may become several
	// statements.
	inList map[ast.Node]bool
	// received has the statements that receive in a select clause. They cannot be replaced.
	received map[ast.Node]bool
	// jumps has the break and continue statements that can replace each other.
	jumps map[*ast.BranchStmt]bool
}

// rewrite returns the text of file with its mutants, numbered from next.
func rewrite(p *packages.Package, file *ast.File, dir, name string, text []byte, next int) (string, []mutant) {
	r := &rewriter{files: p.Fset, info: p.TypesInfo, dir: dir, name: name, text: string(text), next: next,
		inList: map[ast.Node]bool{}, received: map[ast.Node]bool{}, jumps: map[*ast.BranchStmt]bool{}}
	if ast.IsGenerated(file) {
		return r.text, nil
	}
	ast.Inspect(file, r.mark)
	for _, decl := range file.Decls {
		r.markJumps(decl, false)
	}
	return r.text[:r.offset(file.FileStart)] + r.splice(file, file.FileStart, file.FileEnd), r.mutants
}

func (r *rewriter) mark(n ast.Node) bool {
	var list []ast.Stmt
	switch n := n.(type) {
	case *ast.BlockStmt:
		list = n.List
	case *ast.CaseClause:
		list = n.Body
	case *ast.CommClause:
		list = n.Body
		r.received[n.Comm] = true
	}
	for _, statement := range list {
		r.inList[statement] = true
	}
	return true
}

// markJumps visits root; loop reports whether root is a loop. A continue in a loop without a
// condition is not replaced: with a break, the function might lack a return.
func (r *rewriter) markJumps(root ast.Node, loop bool) {
	endless := false
	if l, ok := root.(*ast.ForStmt); ok {
		endless = l.Cond == nil
	}
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			if n != root {
				r.markJumps(n, true)
				return false
			}
		case *ast.FuncLit:
			if n != root {
				r.markJumps(n, false)
				return false
			}
		case *ast.BranchStmt:
			r.jumps[n] = loop && n.Label == nil && !(endless && n.Tok == token.CONTINUE)
		}
		return true
	})
}

func (r *rewriter) offset(at token.Pos) int { return r.files.PositionFor(at, false).Offset }

func (r *rewriter) source(n ast.Node) string { return r.text[r.offset(n.Pos()):r.offset(n.End())] }

// splice returns the text from start to end, with the mutants of the nodes within root.
func (r *rewriter) splice(root ast.Node, start, end token.Pos) string {
	var out strings.Builder
	at := r.offset(start)
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil || n == root {
			return true
		}
		if r.stays(n) {
			return false
		}
		changed, ok := r.change(n)
		if !ok {
			return true
		}
		out.WriteString(r.text[at:r.offset(n.Pos())])
		out.WriteString(r.padded(n, changed))
		at = r.offset(n.End())
		return false
	})
	out.WriteString(r.text[at:r.offset(end)])
	return out.String()
}

// stays reports whether nothing in a node changes: constants, types, the capacity given to make.
func (r *rewriter) stays(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.CONST || n.Tok == token.TYPE || n.Tok == token.IMPORT
	case *ast.CallExpr:
		name, ok := n.Fun.(*ast.Ident)
		return ok && name.Name == "make"
	case *ast.BinaryExpr, *ast.UnaryExpr:
		return r.info.Types[n.(ast.Expr)].Value != nil
	case *ast.ArrayType:
		return true
	case ast.Stmt:
		return r.received[n]
	}
	return false
}

// padded adds the line breaks that the changed text lacks, where Go allows them.
func (r *rewriter) padded(n ast.Node, changed string) string {
	lost := strings.Count(r.source(n), "\n") - strings.Count(changed, "\n")
	if lost <= 0 {
		return changed
	}
	open := strings.IndexAny(changed, "({") + 1
	return changed[:open] + strings.Repeat("\n", lost) + changed[open:]
}

func (r *rewriter) render(n ast.Node) string {
	if r.stays(n) {
		return r.source(n)
	}
	if changed, ok := r.change(n); ok {
		return r.padded(n, changed)
	}
	return r.splice(n, n.Pos(), n.End())
}

// change returns the text of a node with a switch between it and its mutants.
func (r *rewriter) change(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return r.binary(n)
	case *ast.UnaryExpr:
		if n.Op != token.NOT {
			return "", false
		}
		number := r.add(n.Pos(), "without !")
		return fmt.Sprintf("(mutated(%d) != !%s)", number, r.render(n.X)), true
	case *ast.Ident:
		if r.info.Uses[n] != types.Universe.Lookup("true") && r.info.Uses[n] != types.Universe.Lookup("false") {
			return "", false
		}
		return fmt.Sprintf("(mutated(%d) != %s)", r.add(n.Pos(), "not "+n.Name), n.Name), true
	case *ast.IncDecStmt:
		number, other := r.swap(n.TokPos, n.Tok)
		x := r.render(n.X)
		return r.statement(n, fmt.Sprintf("if mutated(%d) { %s%s } else { %s%s }", number, x, other[0], x, n.Tok)), true
	case *ast.AssignStmt:
		return r.assignment(n)
	case *ast.ExprStmt:
		if !r.inList[n] || !removable(n.X) || r.logs(n.X) {
			return "", false
		}
		return fmt.Sprintf("if !mutated(%d) { %s }", r.remove(n), r.splice(n, n.Pos(), n.End())), true
	case *ast.BranchStmt:
		if !r.jumps[n] || swaps[n.Tok] == nil {
			return "", false
		}
		number, other := r.swap(n.TokPos, n.Tok)
		return fmt.Sprintf("{ if mutated(%d) { %s }; %s }", number, other[0], n.Tok), true
	}
	return "", false
}

func (r *rewriter) binary(n *ast.BinaryExpr) (string, bool) {
	if swaps[n.Op] == nil {
		return "", false
	}
	switch n.Op {
	case token.EQL, token.NEQ:
		number, _ := r.swap(n.OpPos, n.Op)
		return fmt.Sprintf("(mutated(%d) != (%s %s %s))", number, r.render(n.X), n.Op, r.render(n.Y)), true
	case token.LAND, token.LOR:
		number, _ := r.swap(n.OpPos, n.Op)
		return fmt.Sprintf("mutated%s(%d, %s, func() bool { return %s })", names[n.Op], number, r.render(n.X), r.render(n.Y)), true
	}
	if !isNumber(r.info.TypeOf(n.X)) || !isNumber(r.info.TypeOf(n.Y)) {
		return "", false
	}
	left := "%s"
	if r.info.Types[n.X].Value != nil && (n.Op == token.SHL || n.Op == token.SHR) {
		// The type of a shifted constant depends on the context of the expression.
		basic, ok := r.info.TypeOf(n).(*types.Basic)
		if !ok {
			return "", false
		}
		left = basic.Name() + "(%s)"
	}
	number, _ := r.swap(n.OpPos, n.Op)
	return fmt.Sprintf("mutated%s(%d, "+left+", %s)", names[n.Op], number, r.render(n.X), r.render(n.Y)), true
}

func (r *rewriter) assignment(n *ast.AssignStmt) (string, bool) {
	if n.Tok == token.ASSIGN {
		return r.statement(n, fmt.Sprintf("if !mutated(%d) { %s }", r.remove(n), r.splice(n, n.Pos(), n.End()))), true
	}
	if swaps[n.Tok] == nil || !isNumber(r.info.TypeOf(n.Lhs[0])) {
		return "", false
	}
	number, other := r.swap(n.TokPos, n.Tok)
	left, right := r.render(n.Lhs[0]), r.render(n.Rhs[0])
	return r.statement(n, fmt.Sprintf("if mutated(%d) { %s %s %s } else { %s %s %s }", number, left, other[0], right, left, n.Tok, right)), true
}

// statement converts code to one simple statement where only such a statement is allowed.
func (r *rewriter) statement(n ast.Node, code string) string {
	if r.inList[n] {
		return code
	}
	return "func() { " + code + " }()"
}

// swap adds one mutant for each operator that can replace old, and returns the number of the first
// one.
func (r *rewriter) swap(at token.Pos, old token.Token) (int, []token.Token) {
	first := r.next
	for _, other := range swaps[old] {
		r.add(at, old.String()+" → "+other.String())
	}
	return first, swaps[old]
}

func (r *rewriter) remove(n ast.Node) int {
	first, _, more := strings.Cut(r.source(n), "\n")
	if more {
		first += " …"
	}
	return r.add(n.Pos(), "without "+first)
}

func (r *rewriter) add(at token.Pos, what string) int {
	position := r.files.PositionFor(at, false)
	code := strings.TrimSpace(strings.Split(r.text, "\n")[position.Line-1])
	r.mutants = append(r.mutants, mutant{r.next, r.dir, r.name, position.Line, position.Column, what, code})
	r.next++
	return r.next - 1
}

func isNumber(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0 && basic.Info()&types.IsComplex == 0
}

// removable reports whether the code compiles without a call, and a test can detect that.
func removable(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return true
	}
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name != "panic"
	case *ast.SelectorExpr:
		return !slices.Contains(locks, function.Sel.Name)
	}
	return true
}

// logs is true for a call of a logger. Tests do not read logs.
func (r *rewriter) logs(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	named, ok := r.info.TypeOf(method.X).(*types.Named)
	return ok && named.Obj().Name() == "Logger" && named.Obj().Pkg().Name() == "logr"
}
