package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/go/packages"
)

// built has the test programs of all packages. Each mutant in them can be switched on.
type built struct {
	dir     string
	mutants []mutant
	// importers has, by folder, the packages with tests that depend on the package in the folder.
	importers map[string][]string
	programs  map[string]*program
}

// program is the test program of one package.
type program struct {
	file, dir string
	flags     []string
	reached   map[int]bool
	limit     time.Duration
}

func (b *built) remove() { os.RemoveAll(b.dir) }

// build rewrites the packages that patterns name, and compiles their tests and those of others.
func build(ctx context.Context, patterns, others []string) (*built, error) {
	b := &built{programs: map[string]*program{}}
	var err error
	if b.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return nil, err
	}
	overlay, err := b.rewrite(ctx, patterns)
	if err == nil {
		b.importers, err = importersOf(ctx, others)
	}
	if err == nil {
		err = b.compile(ctx, overlay, slices.Concat(patterns, others))
	}
	if err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

// rewrite writes all files with switches, and the overlay that replaces the original files.
func (b *built) rewrite(ctx context.Context, patterns []string) (string, error) {
	loaded, err := packages.Load(&packages.Config{Context: ctx, Mode: packages.LoadSyntax | packages.NeedModule}, patterns...)
	if err != nil {
		return "", fmt.Errorf("loading packages: %w", err)
	}
	replace := map[string]string{}
	add := func(original, text string) error {
		file := filepath.Join(b.dir, fmt.Sprintf("%d.go", len(replace)))
		replace[original] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return "", p.Errors[0]
		}
		for i, file := range p.Syntax {
			text, err := os.ReadFile(p.CompiledGoFiles[i])
			if err != nil {
				return "", err
			}
			name, err := filepath.Rel(p.Module.Dir, p.CompiledGoFiles[i])
			if err != nil {
				return "", err
			}
			changed, mutants := rewrite(p, file, filepath.Dir(name), name, text, len(b.mutants)+1)
			b.mutants = append(b.mutants, mutants...)
			if err := add(p.CompiledGoFiles[i], changed); err != nil {
				return "", err
			}
		}
	}
	for _, p := range loaded {
		if err := add(filepath.Join(filepath.Dir(p.CompiledGoFiles[0]), "zz_mutants.go"), switches(p.Name, len(b.mutants))); err != nil {
			return "", err
		}
	}
	content, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(b.dir, "overlay.json")
	return overlay, os.WriteFile(overlay, content, 0o600)
}

// compile builds the test programs, and runs each once to find what it reaches and its duration.
func (b *built) compile(ctx context.Context, overlay string, patterns []string) error {
	listed, err := list(ctx, patterns...)
	if err != nil {
		return err
	}
	for _, p := range listed {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		one := &program{file: filepath.Join(b.dir, strings.ReplaceAll(p.relative, "/", "_")+".test"), dir: p.Dir, reached: map[int]bool{}}
		if slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), func(path string) bool { return path == "pgregory.net/rapid" }) {
			one.flags = []string{"-rapid.nofailfile"}
		}
		fmt.Fprintf(os.Stderr, "building and running the tests of %s\n", p.relative)
		command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", one.file, "./"+p.relative)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling the tests of %s: %w\n%s", p.relative, err, output)
		}
		if err := one.measure(ctx, filepath.Join(b.dir, "reached")); err != nil {
			return err
		}
		b.programs["./"+p.relative] = one
	}
	return nil
}

// measure runs the tests without a mutant.
func (p *program) measure(ctx context.Context, file string) error {
	p.limit = 10 * time.Minute
	begin := time.Now()
	switch failed, err := p.run(ctx, reachedVariable+"="+file); {
	case err != nil:
		return err
	case failed:
		return fmt.Errorf("the tests of %s fail without any change: run them with go test -count 10", p.dir)
	}
	p.limit = 10*time.Second + 5*time.Since(begin)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, number := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		p.reached[n] = true
	}
	return errors.Join(err, os.Remove(file))
}

// run reports whether a test fails.
func (p *program) run(ctx context.Context, variable string) (bool, error) {
	command := exec.CommandContext(ctx, p.file, append([]string{"-test.failfast", "-test.timeout", p.limit.String()}, p.flags...)...)
	command.Dir, command.Env = p.dir, append(os.Environ(), variable)
	command.Stdout, command.Stderr = io.Discard, io.Discard
	err := command.Run()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return true, nil
	}
	return false, err
}

// fails reports whether a test of a package fails with m. Tests that do not reach m do not run.
func (b *built) fails(ctx context.Context, tests string, m mutant) (bool, error) {
	p := b.programs[tests]
	if p == nil || !p.reached[m.number] {
		return false, nil
	}
	return p.run(ctx, activeVariable+"="+strconv.Itoa(m.number))
}

func (b *built) reachedByAny(m mutant) bool {
	for _, p := range b.programs {
		if p.reached[m.number] {
			return true
		}
	}
	return false
}
