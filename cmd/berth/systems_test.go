package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestOtherSystems checks the types of the program for the systems of a release. That finds what a
// compiler would, and takes seconds: nothing is compiled, and other modules are read without the
// bodies of their functions.
func TestOtherSystems(t *testing.T) {
	for _, system := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"} {
		if system == runtime.GOOS+"/"+runtime.GOARCH {
			continue
		}
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "/")
			for _, err := range typeErrors(t, goos, goarch, "github.com/berth-dev/berth/cmd/berth") {
				t.Error(err)
			}
		})
	}
}

// sourcePackage is a package, as go list shows it.
type sourcePackage struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
}

// typeErrors are those in the packages of this module that a program consists of.
func typeErrors(t *testing.T, goos, goarch, program string) []error {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", program)
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err == nil {
		err = list.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	l := &sourceLoader{sizes: types.SizesFor("gc", goarch), files: token.NewFileSet(), packages: map[string]*types.Package{"unsafe": types.Unsafe}}
	decoder := json.NewDecoder(out)
	for {
		var p sourcePackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		// What a package imports is listed before it.
		if p.ImportPath != "unsafe" {
			l.load(t, p)
		}
	}
	if err := list.Wait(); err != nil {
		t.Fatal(err)
	}
	if l.packages[program] == nil {
		t.Fatalf("%s is not among %d packages", program, len(l.packages))
	}
	return l.errors
}

// sourceLoader checks the types of one package after the other.
type sourceLoader struct {
	sizes    types.Sizes
	files    *token.FileSet
	packages map[string]*types.Package
	errors   []error
}

func (l *sourceLoader) load(t *testing.T, p sourcePackage) {
	t.Helper()
	ours := p.Module != nil && p.Module.Main
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(l.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	config := types.Config{
		Sizes: l.sizes, IgnoreFuncBodies: !ours,
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			return l.packages[path], nil
		}),
		Error: func(err error) { l.errors = append(l.errors, err) },
	}
	l.packages[p.ImportPath], _ = config.Check(p.ImportPath, l.files, files, nil) // Error gets all errors
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
