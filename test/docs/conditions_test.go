package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestConditionsAreDocumented: the pages for users have every condition of a Placement, and every
// reason, that the API names.
func TestConditionsAreDocumented(t *testing.T) {
	names, err := os.ReadFile(filepath.Join(root, "api", "v1alpha1", "names.go"))
	if err != nil {
		t.Fatal(err)
	}
	for comment, page := range map[string]string{
		"Conditions of a Placement.":              "concepts.md",
		"Reasons of PlacementSatisfied":           "user-guide.md",
		"Reasons of DecisionPending.":             "operations.md",
		"Reasons of DecisionProgressing.":         "changes.md",
		"Reasons of ManagedClusterConditionAvail": "report.md",
	} {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		_, block, found := strings.Cut(string(names), "\n// "+comment)
		block, _, ended := strings.Cut(block, "\n)\n")
		if !found || !ended {
			t.Errorf("api/v1alpha1/names.go has no constants %q", comment)
		}
		for _, value := range regexp.MustCompile(`= "(\w+)"`).FindAllStringSubmatch(block, -1) {
			if !strings.Contains(string(text), value[1]) {
				t.Errorf("docs/%s does not have %s", page, value[1])
			}
		}
	}
}
