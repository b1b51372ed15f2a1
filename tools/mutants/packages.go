package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// goPackage is the output of go list for one package.
type goPackage struct {
	Dir, ImportPath                    string
	Module                             *struct{ Dir string }
	GoFiles, TestGoFiles, XTestGoFiles []string
	Deps                               []string
	Imports, TestImports, XTestImports []string

	relative string // the folder, relative to the module
}

// list returns the module's packages that patterns name.
func list(ctx context.Context, patterns ...string) ([]goPackage, error) {
	arguments := append([]string{"list", "-json=Dir,ImportPath,Module,GoFiles,TestGoFiles,XTestGoFiles,Deps,Imports,TestImports,XTestImports"}, patterns...)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if p.relative, err = filepath.Rel(p.Module.Dir, p.Dir); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// importersOf returns, by folder, the folders of the packages with tests that depend on it, direct
// importers first.
func importersOf(ctx context.Context, patterns []string) (map[string][]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	packages, err := list(ctx, patterns...)
	if err != nil {
		return nil, err
	}
	byPath := map[string]goPackage{}
	for _, p := range packages {
		byPath[p.ImportPath] = p
	}
	direct, others := map[string][]string{}, map[string][]string{}
	for _, p := range packages {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		needs := slices.Clone(p.Deps)
		for _, path := range imports {
			needs = append(needs, path)
			needs = append(needs, byPath[path].Deps...)
		}
		slices.Sort(needs)
		for _, path := range slices.Compact(needs) {
			switch on, ours := byPath[path]; {
			case !ours:
			case slices.Contains(imports, path):
				direct[on.relative] = append(direct[on.relative], "./"+p.relative)
			default:
				others[on.relative] = append(others[on.relative], "./"+p.relative)
			}
		}
	}
	for folder, more := range others {
		direct[folder] = append(direct[folder], more...)
	}
	return direct, nil
}
