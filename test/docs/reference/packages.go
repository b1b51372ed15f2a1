package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/berth-dev/berth/"

// codePackage is what a package says of itself, and what of Berth it imports.
type codePackage struct {
	synopsis string
	imports  map[string]bool
}

// packagesPage lists the packages of the program with the first sentence of their comments.
func packagesPage(root string) (string, error) {
	packages := map[string]*codePackage{}
	for _, dir := range []string{"api", "cmd", "config", "controllers", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
			if err != nil {
				return err
			}
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			if packages[folder] == nil {
				packages[folder] = &codePackage{imports: map[string]bool{}}
			}
			return packages[folder].add(file)
		})
		if err != nil {
			return "", err
		}
	}
	var text strings.Builder
	text.WriteString(generated("the packages") + "\n# Packages\n\nWhat each package is, and which others of Berth it imports, apart from those in `api`. Names without a folder are in `pkg`. depguard, in `.golangci.yml`, has the rules for imports.\n\n" +
		"| package | what it is | imports |\n|---|---|---|\n")
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		p := packages[folder]
		if p.synopsis == "" {
			return "", fmt.Errorf("package %s has no comment", folder)
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", folder, p.synopsis, strings.Join(slices.Sorted(maps.Keys(p.imports)), ", "))
	}
	return text.String(), nil
}

func (p *codePackage) add(file *ast.File) error {
	if file.Doc != nil {
		p.synopsis = strings.TrimPrefix((&doc.Package{}).Synopsis(file.Doc.Text()), "Package "+file.Name.Name+" ")
	}
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		if own, found := strings.CutPrefix(path, module); found && !strings.HasPrefix(own, "api/") {
			p.imports[strings.TrimPrefix(own, "pkg/")] = true
		}
	}
	return nil
}
