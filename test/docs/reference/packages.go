package main

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// packagesPage lists the packages of the program with the first sentence of their comments.
func packagesPage(root string) (string, error) {
	synopses := map[string]string{}
	for _, dir := range []string{"api", "cmd", "config", "controllers", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				return err
			}
			folder, err := filepath.Rel(root, filepath.Dir(path))
			synopses[folder] += strings.TrimPrefix((&doc.Package{}).Synopsis(file.Doc.Text()), "Package "+file.Name.Name+" ")
			return err
		})
		if err != nil {
			return "", err
		}
	}
	var text strings.Builder
	text.WriteString(generated("the comments of the packages") + "\n# Packages\n\ndepguard, in `.golangci.yml`, has the rules for what each may import.\n\n| package | what it is |\n|---|---|\n")
	for _, folder := range slices.Sorted(maps.Keys(synopses)) {
		if synopses[folder] == "" {
			return "", fmt.Errorf("package %s has no comment", folder)
		}
		fmt.Fprintf(&text, "| `%s` | %s |\n", folder, synopses[folder])
	}
	return text.String(), nil
}
