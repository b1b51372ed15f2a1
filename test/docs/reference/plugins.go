package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// pluginUse is how the default profile uses a plugin.
type pluginUse struct {
	points []string
	weight string
}

// pluginsPage lists the plugins with their extension points and the first paragraph of the comment
// of their type. Plugins with a page of their own, for their arguments, have a link to it.
func pluginsPage(root string) (string, error) {
	uses, order, err := pluginUses()
	if err != nil {
		return "", err
	}
	comments, err := typeComments(root, "filters", "prioritizers", "lifecycle")
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(generated("the comments of the plugins") + `# Plugins

A plugin runs at its extension points, in [this order](../configuration.md#2-what-runs-by-default). Plugins with a link have arguments; durations are written ` +
		"`90s`, `10m`, `72h`" + `. Only plugins marked *off* are not in the default profile. A weight is that of a score plugin which a Placement does not list itself.

| plugin | extension points | what it does |
|---|---|---|
`)
	for _, name := range order {
		title, text := name, comments[name]
		if _, err := os.Stat(filepath.Join(root, "docs", "plugins", name+".md")); err == nil {
			title = "[" + name + "](" + name + ".md)"
		}
		if text == "" { // a type with several instances has their names as prefix
			for _, typ := range slices.Sorted(maps.Keys(comments)) {
				if strings.HasPrefix(name, typ) && comments[typ] != "" {
					text = comments[typ]
				}
			}
		}
		_, text, known := strings.Cut(text, " ")
		if !known {
			return "", fmt.Errorf("the type of the plugin %s has no comment", name)
		}
		fmt.Fprintf(&page, "| %s | %s | %s |\n", title, strings.Join(uses[name].points, ", ")+uses[name].weight, strings.ReplaceAll(text, "|", `\|`))
	}
	return page.String(), nil
}

// typeComments are the first paragraphs of the comments of exported types, by name.
func typeComments(root string, packages ...string) (map[string]string, error) {
	comments := map[string]string{}
	for _, name := range packages {
		files, err := filepath.Glob(filepath.Join(root, "pkg", name, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, d := range parsed.Decls {
				if decl, ok := d.(*ast.GenDecl); ok && decl.Tok == token.TYPE && len(decl.Specs) == 1 {
					first, _, _ := strings.Cut(decl.Doc.Text(), "\n\n")
					comments[decl.Specs[0].(*ast.TypeSpec).Name.Name] = oneLine(first)
				}
			}
		}
	}
	return comments, nil
}

// pluginUses are those of the default profile by plugin, and all names in the order in which they
// run. Plugins that are off have no points.
func pluginUses() (map[string]*pluginUse, []string, error) {
	profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		return nil, nil, err
	}
	p := profiles[config.DefaultProfile]
	uses, order := map[string]*pluginUse{}, []string{}
	add := func(point string, plugin framework.Plugin) *pluginUse {
		name := plugin.Name()
		if uses[name] == nil {
			uses[name] = &pluginUse{}
			order = append(order, name)
		}
		uses[name].points = append(uses[name].points, point)
		return uses[name]
	}
	add("QueueSort", p.QueueSort)
	addAll(add, "PreEnqueue", p.PreEnqueue)
	addAll(add, "PreFilter", p.PreFilter)
	addAll(add, "Filter", p.Filter)
	addAll(add, "PostFilter", p.PostFilter)
	addAll(add, "PreScore", p.PreScore)
	for _, s := range p.Score {
		add("Score", s.ScorePlugin).weight = fmt.Sprintf("; weight %d", s.Weight)
	}
	addAll(add, "Reserve", p.Reserve)
	addAll(add, "Permit", p.Permit)
	addAll(add, "Transition", p.Transition)
	addAll(add, "PreBind", p.PreBind)
	addAll(add, "Bind", p.Bind)
	addAll(add, "PostBind", p.PostBind)
	for _, name := range slices.Sorted(maps.Keys(builtin.Registry())) {
		if uses[name] == nil {
			uses[name] = &pluginUse{points: []string{"off"}}
			order = append(order, name)
		}
	}
	return uses, order, nil
}

func addAll[T framework.Plugin](add func(string, framework.Plugin) *pluginUse, point string, plugins []T) {
	for _, p := range plugins {
		add(point, p)
	}
}
