package simulator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// scenarioOf is a scenario file of one step with these objects.
func scenarioOf(items ...string) string {
	return fmt.Sprintf(`{"format":1,"note":"ignored","scenarios":[{"id":"s1","inputForm":"served","apiValid":true,"steps":[
		{"now":"2026-08-01T12:00:00Z","expected":[],"objects":{"apiVersion":"v1","kind":"List","items":[%s]}}]}]}`, strings.Join(items, ","))
}

func placementOf(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"cluster.open-cluster-management.io/v1beta1","kind":"Placement","metadata":{"name":%q,"namespace":"ns1"},"spec":%s}`, name, spec)
}

func TestScenario(t *testing.T) {
	long := strings.Repeat("a", 70)
	tests := map[string]struct {
		item        string
		wantRefused []Refusal
		wantNames   []string
	}{
		"a good object":    {item: placementOf("p1", "{}"), wantNames: []string{"Placement ns1/p1"}},
		"an unknown field": {item: placementOf("p1", `{"later":true}`), wantNames: []string{"Placement ns1/p1"}},
		"a negative count": {
			item:        placementOf("p1", `{"numberOfClusters":-1}`),
			wantRefused: []Refusal{{"Placement ns1/p1", "spec.numberOfClusters: Invalid value: -1: should be greater than or equal to 0"}},
			wantNames:   []string{"Placement ns1/p1"},
		},
		"two faults": {
			item: placementOf("p1", `{"numberOfClusters":-1,"prioritizerPolicy":{"configurations":[{"weight":11}]}}`),
			wantRefused: []Refusal{{"Placement ns1/p1", "spec.numberOfClusters: Invalid value: -1: should be greater than or equal to 0; " +
				"spec.prioritizerPolicy.configurations[0].scoreCoordinate: Required value; " +
				"spec.prioritizerPolicy.configurations[0].weight: Invalid value: 11: should be less than or equal to 10"}},
			wantNames: []string{"Placement ns1/p1"},
		},
		"a long name": {
			item:        placementOf(long, "{}"),
			wantRefused: []Refusal{{"Placement ns1/" + long, "metadata.name: Too long: may not be more than 63 bytes"}},
			wantNames:   []string{"Placement ns1/" + long},
		},
		"a cluster-scoped object": {
			item:        `{"apiVersion":"cluster.open-cluster-management.io/v1","kind":"ManagedCluster","metadata":{"name":"c1"},"spec":{"taints":[{"key":"a"}]}}`,
			wantRefused: []Refusal{{"ManagedCluster c1", "spec.taints[0].effect: Required value"}},
			wantNames:   []string{"ManagedCluster c1"},
		},
		"an unserved version": {
			item: strings.Replace(placementOf("p1", "{}"), "v1beta1", "v2", 1),
			wantRefused: []Refusal{{"Placement ns1/p1", `apiVersion: Unsupported value: "cluster.open-cluster-management.io/v2": ` +
				`supported values: "cluster.open-cluster-management.io/v1alpha1", "cluster.open-cluster-management.io/v1beta1"`}},
			wantNames: []string{"Placement ns1/p1"},
		},
		"a value no client could hold": {
			item:        placementOf("p1", `{"numberOfClusters":"three"}`),
			wantRefused: []Refusal{{"Placement ns1/p1", `spec.numberOfClusters: Invalid value: "string": must be of type integer: "string"`}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			input, err := Load([]string{"-"}, strings.NewReader(scenarioOf(tc.item)))
			if err != nil {
				t.Fatal(err)
			}
			scenario := input.Scenarios[0]
			step := scenario.Steps[0]
			if scenario.ID != "s1" || scenario.InputForm != "served" || !step.Now.Equal(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)) {
				t.Errorf("read %+v", scenario)
			}
			if diff := cmp.Diff(tc.wantRefused, step.Refused); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.wantNames, names(step.Objects)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScenarioErrors(t *testing.T) {
	good := placementOf("p1", "{}")
	tests := map[string]struct{ text, want string }{
		"another format":    {`{"format":2,"scenarios":[]}`, "standard input: format: Unsupported value: 2: supported values: 1"},
		"another form":      {strings.Replace(scenarioOf(), "served", "cooked", 1), `standard input: scenario s1: inputForm: Unsupported value: "cooked"`},
		"no time":           {strings.Replace(scenarioOf(), "2026-08-01T", "yesterday", 1), `standard input: scenario s1: steps[0]: now: Invalid value: "yesterday`},
		"an object twice":   {scenarioOf(good, good), "standard input: scenario s1: steps[0]: objects: items[1]: Placement ns1/p1: already defined in this step"},
		"something strange": {scenarioOf(good, "{}"), "standard input: scenario s1: steps[0]: objects: items[1]: kind: Required value"},
		"a wrong type":      {`{"format":1,"scenarios":{}}`, "standard input: json: cannot unmarshal object"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]string{"-"}, strings.NewReader(tc.text))
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error is\n  %v\nwant\n  %s", err, tc.want)
			}
		})
	}
}

// TestScenarioSteps: what a step repeats is the same object, and what it changes is another.
func TestScenarioSteps(t *testing.T) {
	step := func(items ...string) string {
		return `{"objects":{"apiVersion":"v1","kind":"List","items":[` + strings.Join(items, ",") + `]}}`
	}
	text := `{"format":1,"scenarios":[{"id":"s","steps":[` +
		step(placementOf("p1", "{}"), placementOf("p2", "{}")) + "," + step(placementOf("p1", "{}"), placementOf("p2", `{"numberOfClusters":1}`)) + `]}]}`
	input, err := Load([]string{"-"}, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	placements := func(step int) []*v1alpha1.Placement {
		return List[*v1alpha1.Placement](input.Scenarios[0].Steps[step].Objects)
	}
	first, second := placements(0), placements(1)
	if first[0] != second[0] {
		t.Error("p1 was read twice")
	}
	if first[1] == second[1] || first[1].Spec.NumberOfClusters != nil || *second[1].Spec.NumberOfClusters != 1 {
		t.Error("p2 did not change")
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		placementText, clusterText + "---\n" + setText, placementJSON, scenarioOf(placementOf("p", `{"numberOfClusters":-1}`)),
		"apiVersion: v1\nkind: List\nitems:\n- " + placementJSON,
		group + "v1\nkind: ManagedClusterList\nitems: [{metadata: [1]}, {spec: {taints: {}}}]",
		"\x1f\x8b\x08", "{", "---\n- &a [*a]", "kind: .nan",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		input, err := Load([]string{"-"}, strings.NewReader(string(data)))
		if err != nil && err.Error() == "" {
			t.Error("an error says nothing")
		}
		if err == nil && input.Scenarios == nil {
			for _, name := range names(input.Objects) {
				if strings.HasSuffix(name, "/") {
					t.Errorf("%q has no name", name)
				}
			}
		}
	})
}
