package framework_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/pkg/scheduler/config"
)

// TestOptionalInterfaces: beside the extension points, a plugin can implement at most eight
// interfaces, which the README lists. What only a few plugins need belongs in Traits.
func TestOptionalInterfaces(t *testing.T) {
	// NormalizeScorer is part of the point Score; the others after it are no plugins.
	others := " Plugin NormalizeScorer StateData PageClient HeldChanges SettledScore Windows "
	for _, point := range config.Points {
		others += strings.ToUpper(string(point[:1])) + string(point[1:]) + "Plugin "
	}
	readme, err := os.ReadFile("../../../examples/custom-plugin/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("*.go")
	var optional []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, isType := n.(*ast.TypeSpec)
			if !isType || !spec.Name.IsExported() || strings.Contains(others, " "+spec.Name.Name+" ") {
				return true
			}
			if _, isInterface := spec.Type.(*ast.InterfaceType); isInterface {
				optional = append(optional, spec.Name.Name)
			}
			return true
		})
	}
	if len(optional) == 0 || len(optional) > 8 {
		t.Errorf("%d interfaces are optional, want at most 8: %v", len(optional), optional)
	}
	for _, name := range optional {
		if !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("README.md does not list %s", name)
		}
	}
}
