package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/clustercel"
)

// TestLimits demands the limits of the code in the rows of docs/performance.md.
func TestLimits(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	format := func(text string, limit int) string { return strings.ReplaceAll(text, "%d", grouped(limit)) }
	for row, limits := range map[string][]string{
		"a Placement": {
			format("%d cluster sets", v1alpha1.MaxClusterSets), format("%d predicates", v1alpha1.MaxPredicates), format("%d tolerations", v1alpha1.MaxTolerations),
			format("%d prioritizer configurations", v1alpha1.MaxPrioritizers), format("%d spread constraints", v1alpha1.MaxSpreadConstraints),
		},
		"its decision groups": {format("%d,", v1alpha1.MaxDecisionGroups)},
		"its CEL":             {format("%d expressions", v1alpha1.MaxCelExpressions)},
		"an expression":       {format("%d KiB", clustercel.MaxLength>>10), format("%d units", clustercel.CostLimit)},
		"a selector":          {format("%d requirements", v1alpha1.MaxRequirements), format("%d values each", v1alpha1.MaxRequirementValues)},
		"a cluster":           {format("%d labels", caches.MaxLabels), format("%d resources", v1alpha1.MaxResources)},
	} {
		_, line, _ := strings.Cut(string(page), "\n| "+row+" | ")
		line, _, _ = strings.Cut(line, "\n")
		for _, limit := range limits {
			if !strings.Contains(line, limit) {
				t.Errorf("docs/performance.md: the row %q does not have %q", row, limit)
			}
		}
	}
}

// grouped writes a number with commas between thousands.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
