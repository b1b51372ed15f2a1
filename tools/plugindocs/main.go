package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	index = "README.md"
	begin = "<!-- args -->\n"
	end   = "<!-- /args -->\n"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: plugindocs DOCS-DIR PACKAGE-DIR...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "plugindocs:", err)
		os.Exit(1)
	}
}

// run updates the pages and returns all errors.
func run(docs string, packages []string) error {
	tables := map[string]string{}
	for _, dir := range packages {
		types, err := parse(dir)
		if err != nil {
			return fmt.Errorf("reading %s: %w", dir, err)
		}
		for name := range types {
			plugin, isArgs := strings.CutSuffix(name, "Args")
			if !isArgs || plugin == "" {
				continue
			}
			if tables[plugin], err = types.table(name); err != nil {
				return fmt.Errorf("describing %s: %w", name, err)
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		return err
	}
	var errs []error
	for _, page := range pages {
		file := filepath.Base(page)
		if file == index {
			continue
		}
		plugin := strings.TrimSuffix(file, ".md")
		table, known := tables[plugin]
		if !known {
			errs = append(errs, fmt.Errorf("%s is the page of a plugin without arguments: %s has those", page, index))
			continue
		}
		delete(tables, plugin)
		if err := fill(page, table); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", page, err))
		}
	}
	for plugin := range tables {
		errs = append(errs, fmt.Errorf("%sArgs has no page %s", plugin, filepath.Join(docs, plugin+".md")))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// fill replaces the text between the two lines of a page.
func fill(page, table string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("there are no lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	if text := before + begin + table + end + after; text != string(old) {
		return os.WriteFile(page, []byte(text), fs.FileMode(0o644))
	}
	return nil
}
