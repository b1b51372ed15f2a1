package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReasonsInControllersAreDocumented: the pages have the reasons of conditions and events that
// the controllers and the queues name.
func TestReasonsInControllersAreDocumented(t *testing.T) {
	pages := ""
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages += string(text)
	}
	code := []string{filepath.Join(root, "pkg", "tenancy", "assignment", "assignments.go")}
	for _, folder := range []string{"controllers", "controllers/housekeeping"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, files...)
	}
	found := 0
	for _, file := range code {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, reason := range regexp.MustCompile(`Reason(?:\w+ += |: |, \w+\.Message = | = |, c\.Message = )"(\w+)"`).FindAllStringSubmatch(string(text), -1) {
			if found++; !strings.Contains(pages, "`"+reason[1]+"`") {
				t.Errorf("%s: no page has the reason %s", filepath.Base(file), reason[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d reasons found", found)
	}
}

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
