package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

// rewritten returns the mutants of the text of a file, and the text with its switches.
func rewritten(t *testing.T, text string) ([]mutant, string) {
	t.Helper()
	p := &packages.Package{Fset: token.NewFileSet(), TypesInfo: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}}
	file, err := parser.ParseFile(p.Fset, "p.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(types.Config).Check("p", p.Fset, []*ast.File{file}, p.TypesInfo); err != nil {
		t.Fatal(err)
	}
	changed, mutants := rewrite(p, file, "p", "p/p.go", []byte(text), 1)
	return mutants, changed
}

func TestRewrite(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []string
	}{
		"a comparison":                      {"_ = x < y", []string{"< → >=", "< → <=", "without _ = x < y"}},
		"logic":                             {"if !a && true { return }", []string{"&& → ||", "without !", "not true"}},
		"a chain over lines":                {"if a &&\n\tb ||\n\tx == y { return }", []string{"|| → &&", "&& → ||", "== → !="}},
		"texts are not subtracted":          {`z := s + "b"; z += s; _ = z`, []string{"without _ = z"}},
		"numbers are":                       {"z := x + y\nx -= z", []string{"+ → -", "-= → +="}},
		"a shifted constant":                {"var z uint64 = 1 << x\nf(z)", []string{"<< → >>", "without f(z)"}},
		"constants stay":                    {"const z = 1 + 2\nvar w [z * 2]int\nf(w[3-1])", []string{"without f(w[3-1])"}},
		"a capacity changes no result":      {"z := make([]int, 0, x+y); f(z)", []string{"without f(z)"}},
		"statements":                        {"f(a)\nx = y", []string{"without f(a)", "without x = y"}},
		"a statement before a condition":    {"if x = y; a { f(a) }", []string{"without x = y", "without f(a)"}},
		"locks and panics stay":             {"var mu l\nmu.Lock()\npanic(1)", nil},
		"loops":                             {"for a { if b { break }; continue }", []string{"break → continue", "continue → break"}},
		"an endless loop does not end":      {"for { continue }", nil},
		"break of a switch":                 {"switch x { case 1: break }", nil},
		"a function in a loop":              {"for { g := func() { switch x { case 1: break } }; g() }", []string{"without g()"}},
		"a label":                           {"l: for { continue l }", nil},
		"an increment":                      {"x++", []string{"++ → --"}},
		"an increment of a loop":            {"for i := 0; i < x; i++ { f(i) }", []string{"< → >=", "< → <=", "++ → --", "without f(i)"}},
		"what a select receives":            {"c := make(chan int)\nselect { case x = <-c: f(x)\ndefault: }", []string{"without f(x)"}},
		"a function and what is called":     {"g := func() bool { return a || b }; f(g())", []string{"|| → &&", "without f(g())"}},
		"a variable of the same name stays": {"true := b; f(true)", []string{"without f(true)"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "package p\n\ntype l struct{}\nfunc (l) Lock() {}\nfunc f(any) {}\nfunc g(a, b bool, x, y int, s string) {\n" + tc.body + "\n}\n"
			mutants, changed := rewritten(t, text)
			var got []string
			for i, m := range mutants {
				got = append(got, m.what)
				if m.number != i+1 {
					t.Errorf("mutant %d has number %d", i, m.number)
				}
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if before, after := strings.Count(text, "\n"), strings.Count(changed, "\n"); before != after {
				t.Errorf("%d lines became %d:\n%s", before, after, changed)
			}
			compiles(t, changed)
		})
	}
}

// compiles checks the types of a changed file beside the functions it calls.
func compiles(t *testing.T, changed string) {
	t.Helper()
	files := token.NewFileSet()
	var parsed []*ast.File
	// The functions need packages os and sync/atomic; their bodies are of no interest here.
	_, functions, _ := strings.Cut(switches("p", 100), "func mutated(")
	functions = "package p\n\nfunc mutated(" + strings.Replace(functions, "if mutantsReached", "if false {}\n//", 1)
	functions = strings.Replace(functions, "mutantsReached.WriteString(strconv.Itoa(number) + \"\\n\")\n\t}", "", 1)
	functions = strings.Replace(functions, "return mutantActive == number", "return number == 0", 1)
	for _, text := range []string{changed, functions} {
		file, err := parser.ParseFile(files, "p.go", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		parsed = append(parsed, file)
	}
	if _, err := new(types.Config).Check("p", files, parsed, nil); err != nil {
		t.Errorf("%v in\n%s", err, changed)
	}
}

func TestGeneratedFilesAreLeftOut(t *testing.T) {
	mutants, _ := rewritten(t, "// Code generated by x. DO NOT EDIT.\npackage p\n\nvar x = 1\nvar a = x + 2\n")
	if len(mutants) > 0 {
		t.Error(mutants)
	}
}

func TestLogsAreLeftOut(t *testing.T) {
	mutants, _ := rewritten(t, "package logr\n\ntype Logger struct{}\nfunc (Logger) Info(string) {}\nfunc f(l Logger, x int) {\n\tl.Info(\"x\")\n\tf(l, x)\n}\n")
	if len(mutants) != 1 || mutants[0].what != "without f(l, x)" {
		t.Error(mutants)
	}
}
