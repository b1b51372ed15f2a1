package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/cmd/berth/app"
)

const root = "../.."

// pages are README.md, everything in docs and the examples, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	if len(texts) < 3 {
		t.Fatalf("only %d pages found", len(texts))
	}
	return texts
}

// TestPaths demands every path of the repository that the documentation names.
func TestPaths(t *testing.T) {
	named := regexp.MustCompile(`\b(?:config|controllers|pkg|tools|docs|api|test|examples)/[\w./-]*\w`)
	for page, text := range pages(t) {
		for _, path := range named.FindAllString(text, -1) {
			if strings.HasPrefix(path, "api/v1/") {
				continue // of a server
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s names %s, which does not exist", page, path)
			}
		}
	}
}

// TestNamedTests demands every test that a page names, and every spec text that the pages on
// threats and guarantees quote.
func TestNamedTests(t *testing.T) {
	var tests strings.Builder
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	quoted := regexp.MustCompile("[`a-z], \"([^\"|]+)\"")
	for page, text := range pages(t) {
		for _, match := range function.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(tests.String(), "func "+match[1]+"(") {
				t.Errorf("%s names the test %s, which does not exist", page, match[1])
			}
		}
		if base := filepath.Base(page); base != "threat-model.md" && base != "guarantees.md" {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(tests.String(), match[1]) {
				t.Errorf("%s quotes the spec text %q, which does not exist", page, match[1])
			}
		}
	}
}

// TestMakeTargets demands every make target that stands in code.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("(?m)(?:^    |`)make ([a-z-]+)")
	for page, text := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`(?m)^` + match[1] + `:`).Match(makefile) {
				t.Errorf("%s names make %s, which the Makefile does not have", page, match[1])
			}
		}
	}
}

// TestCommands demands every subcommand that stands in code, of berth and of kubectl placement, and
// each flag behind it.
func TestCommands(t *testing.T) {
	for name, command := range map[string]*cobra.Command{"berth": app.NewCommand(), "kubectl placement": app.NewKubectlCommand()} {
		testCommands(t, name, command)
	}
}

func testCommands(t *testing.T, name string, command *cobra.Command) {
	t.Helper()
	line := regexp.MustCompile("(?m)(?:^    (?:bin/)?|`(?:bin/)?|^\\$ )" + name + " ([a-z-]+)([^`\n]*)")
	flag := regexp.MustCompile(`(?:^|\s)(--?[a-z][a-z-]*)`)
	for page, text := range pages(t) {
		for _, match := range line.FindAllStringSubmatch(text, -1) {
			sub, _, err := command.Find(append(match[1:2:2], strings.Fields(match[2])...))
			if err != nil || sub == command {
				t.Errorf("%s names %s %s, which does not exist", page, name, match[1])
				continue
			}
			for _, f := range flag.FindAllStringSubmatch(match[2], -1) {
				if !has(sub, f[1]) {
					t.Errorf("%s names %s %s %s, which does not exist", page, name, match[1], f[1])
				}
			}
		}
	}
}

// foreign are flags of other programs that a page names by themselves.
var foreign = []string{"--build-arg", "--cookie-refresh", "--flush-interval", "--pass-authorization-header"}

// TestFlags demands that every flag named by itself belongs to some command.
func TestFlags(t *testing.T) {
	berth, plugin := app.NewCommand(), app.NewKubectlCommand()
	named := regexp.MustCompile("`(--[a-z][a-z-]*)")
	for page, text := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(foreign, match[1]) && !hasBelow(berth, match[1]) && !hasBelow(plugin, match[1]) {
				t.Errorf("%s names %s, which no command has", page, match[1])
			}
		}
	}
}

// hasBelow says whether a command, or one below it, takes the flag.
func hasBelow(cmd *cobra.Command, name string) bool {
	return has(cmd, name) || slices.ContainsFunc(cmd.Commands(), func(sub *cobra.Command) bool { return hasBelow(sub, name) })
}

// has says whether a command takes the flag, written with its dashes.
func has(cmd *cobra.Command, name string) bool {
	cmd.InitDefaultHelpFlag()
	if long, ok := strings.CutPrefix(name, "--"); ok {
		return cmd.Flags().Lookup(long) != nil
	}
	short := strings.TrimPrefix(name, "-")
	return len(short) == 1 && cmd.Flags().ShorthandLookup(short) != nil
}
