package main

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/cmd/berth/app"
)

func featuresPage() string {
	var page strings.Builder
	page.WriteString(generated("cmd/berth/app/features.go") + "# Features and their stages\n\n" +
		"[Versions](../versions.md) says what each stage means. `berth version` prints this table, `berth version -o json` with all columns.\n\n" +
		"| feature | stage | may change | kinds, commands, plugins |\n|---|---|---|---|\n")
	for _, f := range app.Features() {
		var parts []string
		for what, names := range [][]string{f.Kinds, f.Commands, f.Plugins} {
			for _, name := range names {
				parts = append(parts, []string{"`%s`", "`berth %s`", "[%s](../plugins/README.md)"}[what])
				parts[len(parts)-1] = fmt.Sprintf(parts[len(parts)-1], name)
			}
		}
		fmt.Fprintf(&page, "| [%s](../%s) | %s | %s | %s |\n", f.Name, f.Docs, f.Stage, f.MayChange, strings.Join(parts, ", "))
	}
	return page.String()
}
