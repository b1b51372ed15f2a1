package simulator

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// onlyOnHub are the files of the suite mistakes whose lines do not depend on the object alone.
var onlyOnHub = map[string]string{
	"44-quantity":  "a hub ignores the status of an object and warns, the simulator reads it",
	"45-score-200": "as 44-quantity",
}

// TestRefusesWhatTheHubRefuses compares the words with those that the suite mistakes expects from a
// real hub, for the same files.
func TestRefusesWhatTheHubRefuses(t *testing.T) {
	paths, err := filepath.Glob("../../test/integration/mistakes/files/*.yaml")
	if err != nil || len(paths) < 78 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		if onlyOnHub[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(saidByHub(t, path), refusals(t, path)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// hubsWords are the parts of a line that name the object and the policy.
var hubsWords = regexp.MustCompile(`^# error: (?:.* is invalid: (?:: )?|.*strict decoding error: |Error from server \(\w+\): )(?:Validating\w+ '[^']+' with binding '[^']+' denied request: )?(.*)$`)

// saidByHub returns the causes in the comments of a file, sorted.
func saidByHub(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var causes []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(line, "# error: no matches for kind") {
			return "apiVersion: Unsupported value"
		}
		found := hubsWords.FindStringSubmatch(line)
		if found == nil || strings.HasPrefix(found[1], "<nil>: Invalid value: null") {
			continue
		}
		cause := found[1]
		if field, rest, ok := strings.Cut(cause, ": "); ok {
			cause = field + ": " + strings.Replace(rest, field+" in body ", "", 1)
		}
		causes = append(causes, cause)
	}
	slices.Sort(causes)
	return strings.Join(causes, "; ")
}

// refusals returns the causes for which the simulator refuses a file.
func refusals(t *testing.T, path string) string {
	t.Helper()
	input, err := Load([]string{path}, nil)
	var misconfigured []error
	if err == nil {
		misconfigured, err = input.Refuse(t.Context(), Options{}, nil)
	}
	if err = errors.Join(append(misconfigured, err)...); err == nil {
		return ""
	}
	_, causes, _ := strings.Cut(strings.TrimPrefix(err.Error(), path+": "), ": ")
	if strings.HasPrefix(causes, "apiVersion: Unsupported value") {
		return "apiVersion: Unsupported value"
	}
	return causes
}

// TestStoredObjectsAreNotRefused decides what a hub stores although it would now refuse it: objects
// that it exported, which have a UID.
func TestStoredObjectsAreNotRefused(t *testing.T) {
	text := strings.Replace(placementText, "name: p1,", "name: p1, uid: u1, annotations: {berth.dev/priority: high},", 1)
	for name, tc := range map[string]struct{ text, want string }{
		"stored": {text: text},
		"new": {
			text: strings.Replace(text, "uid: u1,", "", 1),
			want: `standard input: Placement ns1/p1: metadata.annotations[berth.dev/priority]: Invalid value: "high": `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			input, err := Load([]string{"-"}, strings.NewReader(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if _, err := input.Refuse(t.Context(), Options{}, nil); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("error is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestScenariosReportRefusals decides refused objects of scenario files all the same.
func TestScenariosReportRefusals(t *testing.T) {
	text := `{"format":1,"scenarios":[{"id":"s","steps":[{"objects":{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"cluster.open-cluster-management.io/v1beta1","kind":"Placement","metadata":{"name":"p","namespace":"ns","annotations":{"berth.dev/priority":"high"}},"spec":{"numberOfClusters":1}}]}}]}]}`
	input, err := Load([]string{"-"}, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := input.Refuse(t.Context(), Options{}, nil); err != nil {
		t.Fatal(err)
	}
	step := input.Scenarios[0].Steps[0]
	if len(step.Refused) != 1 || len(step.Objects) != 1 || !strings.Contains(step.Refused[0].Error, `Invalid value: "high"`) {
		t.Errorf("refused: %v, objects: %d", step.Refused, len(step.Objects))
	}
}
