package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// argTypes are the types of a package that are structs, by name.
type argTypes map[string]argType

type argType struct {
	doc    string
	fields *ast.StructType
}

func parse(dir string) (argTypes, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	types := argTypes{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				doc := spec.Doc
				if doc == nil {
					doc = decl.Doc
				}
				if fields, ok := spec.Type.(*ast.StructType); ok {
					types[spec.Name.Name] = argType{oneLine(doc), fields}
				}
			}
		}
	}
	return types, nil
}

// table returns the description of a type: the text of its doc comment after the first sentence,
// and a table with a row for each argument.
func (t argTypes) table(name string) (string, error) {
	text := "| argument | type | meaning |\n|---|---|---|\n"
	if _, more, found := strings.Cut(t[name].doc, ". "); found {
		text = more + "\n\n" + text
	}
	rows, err := t.rows(name, "")
	return text + rows, err
}

// rows returns the rows for the fields of a type, including those of nested lists and objects.
func (t argTypes) rows(name, path string) (string, error) {
	var rows strings.Builder
	words := t.words(name)
	for _, f := range t[name].fields.Fields.List {
		if len(f.Names) != 1 {
			return "", fmt.Errorf("%s has fields that are embedded or share a line", name)
		}
		key := jsonName(f)
		rest, told := strings.CutPrefix(oneLine(f.Doc), f.Names[0].Name+" ")
		if key == "" || !told {
			return "", fmt.Errorf("%s.%s has no JSON name, or no comment that begins with its name", name, f.Names[0].Name)
		}
		kind, inner := t.kind(f.Type)
		fmt.Fprintf(&rows, "| `%s%s` | %s | %s |\n", path, key, kind, words.Replace(meaning(rest)))
		if inner == "" {
			continue
		}
		if _, list := f.Type.(*ast.ArrayType); list {
			key += "[]"
		}
		below, err := t.rows(inner, path+key+".")
		if err != nil {
			return "", err
		}
		rows.WriteString(below)
	}
	return rows.String(), nil
}

// meaning converts a comment to a cell of the table: "is the most clusters" becomes "The most
// clusters".
func meaning(comment string) string {
	for _, verb := range []string{"is ", "are ", "says "} {
		comment = strings.TrimPrefix(comment, verb)
	}
	return strings.ToUpper(comment[:1]) + comment[1:]
}

// words replaces the names of arguments in the code by their names in a file.
func (t argTypes) words(name string) *strings.Replacer {
	pairs := []string{"|", `\|`}
	for _, f := range t[name].fields.Fields.List {
		for _, n := range f.Names {
			// A capitalised word in the middle of a sentence is a name.
			pairs = append(pairs, " "+n.Name+" ", " `"+jsonName(f)+"` ")
		}
	}
	return strings.NewReplacer(pairs...)
}

// jsonName returns the name of a field in a file; empty if it has none.
func jsonName(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	return name
}

// kinds are the words for types that are not spelled out.
var kinds = map[string]string{
	"bool": "boolean", "string": "string", "Duration": "duration", "IntOrString": "integer or percentage", "Quantity": "quantity",
	"int": "integer", "int32": "integer", "int64": "integer", "float64": "number",
}

// kind returns the word for the values of a type; inner is the struct of this package in it.
func (t argTypes) kind(e ast.Expr) (word, inner string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return t.kind(e.X)
	case *ast.ArrayType:
		word, inner = t.kind(e.Elt)
		return "list of " + word, inner
	case *ast.SelectorExpr:
		return t.kind(e.Sel)
	case *ast.Ident:
		if _, known := t[e.Name]; known {
			return "object", e.Name
		}
		if word := kinds[e.Name]; word != "" {
			return word, ""
		}
	}
	return "value", ""
}

// oneLine returns a comment without line breaks.
func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }
