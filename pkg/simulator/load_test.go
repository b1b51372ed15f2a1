package simulator

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

const group = "apiVersion: cluster.open-cluster-management.io/"

const (
	placementText = group + `v1beta1
kind: Placement
metadata: {name: p1, namespace: ns1}
spec:
  prioritizerPolicy:
    configurations:
    - scoreCoordinate: {builtIn: Steady}
  tolerations:
  - {key: gpu, value: "yes"}
`
	policyText = `apiVersion: berth.dev/v1alpha1
kind: DisruptionPolicy
metadata: {name: all}
spec:
  placementSelector: {}
`
	changeText = `apiVersion: berth.dev/v1alpha1
kind: PlacementChange
metadata: {name: p1-1, namespace: ns1}
spec:
  placement: p1
  revision: 1
  from: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
  to: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
  clusters: 0
  addedCount: 0
  removedCount: 0
  cause: start
  placementGeneration: 1
  profile: default
`
	clusterText = group + `v1
kind: ManagedCluster
metadata: {name: c1, namespace: ignored, labels: {region: eu}}
spec: {hubAcceptsClient: true}
status:
  allocatable: {cpu: 3500m, memory: 16Gi}
`
	setText = group + `v1alpha1
kind: ManagedClusterSet
metadata: {name: all}
`
	placementJSON = `{"apiVersion":"cluster.open-cluster-management.io/v1alpha1","kind":"Placement","metadata":{"name":"p2"},"spec":{}}`
)

// write puts files into a new folder and returns it.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

// names lists what was read, for comparison.
func names(o Objects) []string {
	var all []string
	for _, x := range o {
		id := identityOf(x)
		all = append(all, id.kind+" "+strings.TrimPrefix(id.namespace+"/"+id.name, "/"))
	}
	return all
}

func TestLoad(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"a stream of documents, empty ones among them": {
			files: map[string]string{"fleet.yaml": "# a comment\n---\n" + placementText + "---\n---\n" + clusterText + "--- # the end\n"},
			want:  []string{"Placement ns1/p1", "ManagedCluster c1"},
		},
		"a stream of JSON": {
			files: map[string]string{"fleet.json": placementJSON + "\n" + strings.Replace(placementJSON, "p2", "p3", 1)},
			want:  []string{"Placement default/p2", "Placement default/p3"},
		},
		"JSON between YAML separators": {
			files: map[string]string{"fleet.yaml": placementJSON + "\n---\n" + setText},
			want:  []string{"Placement default/p2", "ManagedClusterSet all"},
		},
		"a byte order mark and Windows line ends": {
			files: map[string]string{"fleet.yaml": "\xef\xbb\xbf" + strings.ReplaceAll(setText+"---\n"+clusterText, "\n", "\r\n")},
			want:  []string{"ManagedClusterSet all", "ManagedCluster c1"},
		},
		"a List": {
			files: map[string]string{"fleet.yaml": "apiVersion: v1\nkind: List\nitems:\n- " + placementJSON},
			want:  []string{"Placement default/p2"},
		},
		"a typed list whose items have no kind": {
			files: map[string]string{"fleet.yaml": group + "v1\nkind: ManagedClusterList\nmetadata: {resourceVersion: '7'}\nitems:\n- metadata: {name: c1}\n- metadata: {name: c2}\n"},
			want:  []string{"ManagedCluster c1", "ManagedCluster c2"},
		},
		"a List without items": {
			files: map[string]string{"fleet.yaml": "apiVersion: v1\nkind: List\n"},
		},
		"a folder and gzip, folders below and whatever is no YAML or JSON left out": {
			files: map[string]string{
				"a.yaml": placementText, "b.json.gz": zipped(t, placementJSON), "c.yml": setText, "deep/er.yaml": "not: an object",
				"README.md": "# not: [yaml", "notes.txt.gz": "", ".hidden/d.yaml": "not: an object", ".e.yaml": "nor: this",
			},
			want: []string{"Placement ns1/p1", "Placement default/p2", "ManagedClusterSet all"},
		},
		"other kinds": {
			files: map[string]string{"all.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns1}\n---\n" +
				"apiVersion: v1\nkind: Namespace\nmetadata: {name: ns1}\n---\n" + group + "v1\nkind: ClusterManagementAddOn\nmetadata: {name: x}\n"},
			want: []string{"Namespace ns1", "Namespace ns1"},
		},
		"Berth's own kinds": {
			files: map[string]string{"all.yaml": policyText + "---\n" + changeText},
			want:  []string{"DisruptionPolicy default/all", "PlacementChange ns1/p1-1"},
		},
		"two files, one name in two namespaces": {
			files: map[string]string{"a.yaml": placementText, "b.yaml": strings.Replace(placementText, "ns1", "ns2", 1)},
			want:  []string{"Placement ns1/p1", "Placement ns2/p1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			input, err := Load([]string{write(t, tc.files)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names(input.Objects)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadDefaults(t *testing.T) {
	input, err := Load([]string{"-"}, strings.NewReader(placementText+"---\n"+clusterText+"---\n"+setText))
	if err != nil {
		t.Fatal(err)
	}
	placement := input.Objects[0].(*v1alpha1.Placement)
	cluster := input.Objects[1].(*v1alpha1.ManagedCluster)
	set := input.Objects[2].(*v1alpha1.ManagedClusterSet)
	config := placement.Spec.PrioritizerPolicy.Configurations[0]
	got := map[string]any{
		"mode": placement.Spec.PrioritizerPolicy.Mode, "weight": *config.Weight, "type": config.ScoreCoordinate.Type,
		"operator": placement.Spec.Tolerations[0].Operator, "sortBy": placement.Spec.SortBy, "scoreRateLimit": placement.Spec.ScoreRateLimit,
		"selectorType": set.Spec.ClusterSelector.SelectorType, "namespace": cluster.Namespace,
		"apiVersion": set.APIVersion,
	}
	want := map[string]any{
		"mode": v1alpha1.PrioritizerPolicyModeType("Additive"), "weight": int32(1), "type": v1alpha1.ScoreCoordinateType("BuiltIn"),
		"operator": v1alpha1.TolerationOperator("Equal"), "sortBy": v1alpha1.DecisionSortBy("ClusterName"), "scoreRateLimit": "1m",
		"selectorType": v1alpha1.SelectorType("ExclusiveClusterSetLabel"), "namespace": "",
		"apiVersion": "cluster.open-cluster-management.io/v1beta2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	cpu := cluster.Status.Allocatable["cpu"]
	if cpu.MilliValue() != 3500 {
		t.Errorf("cpu is %s, want 3500m", cpu.String())
	}
}

func TestLoadErrors(t *testing.T) {
	placement := func(spec string) string {
		return group + "v1beta1\nkind: Placement\nmetadata: {name: p1, namespace: ns1}\nspec: " + spec + "\n"
	}
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"a negative count": {
			files: map[string]string{"fleet.yaml": placement("{numberOfClusters: -1}")},
			want:  "DIR/fleet.yaml: Placement ns1/p1: spec.numberOfClusters: Invalid value: -1: should be greater than or equal to 0",
		},
		"a wrong type": {
			files: map[string]string{"fleet.yaml": placement("{numberOfClusters: three}")},
			want:  `DIR/fleet.yaml: Placement ns1/p1: spec.numberOfClusters: Invalid value: "string": must be of type integer: "string"`,
		},
		"an unknown field": {
			files: map[string]string{"fleet.yaml": placement("{numberOfCluster: 1}")},
			want:  `DIR/fleet.yaml: Placement ns1/p1: unknown field "spec.numberOfCluster"`,
		},
		"an unknown field of the metadata": {
			files: map[string]string{"fleet.yaml": strings.Replace(setText, "{name: all}", "{name: all, label: {}}", 1)},
			want:  `DIR/fleet.yaml: ManagedClusterSet all: unknown field "metadata.label"`,
		},
		"a repeated field of JSON": {
			files: map[string]string{"fleet.json": strings.Replace(placementJSON, `"spec":{}`, `"spec":{"sortBy":"Score","sortBy":"Score"}`, 1)},
			want:  `DIR/fleet.json: Placement default/p2: duplicate field "spec.sortBy"`,
		},
		"a name that is none": {
			files: map[string]string{"fleet.yaml": strings.Replace(setText, "name: all", "name: All_", 1)},
			want:  `DIR/fleet.yaml: ManagedClusterSet All_: metadata.name: Invalid value: "All_": `,
		},
		"no name": {
			files: map[string]string{"fleet.yaml": strings.Replace(setText, "name: all", "", 1)},
			want:  `DIR/fleet.yaml: ManagedClusterSet (no name): metadata.name: Required value`,
		},
		"a label that is none": {
			files: map[string]string{"fleet.yaml": strings.Replace(clusterText, "region: eu", "region: e u", 1)},
			want:  `DIR/fleet.yaml: ManagedCluster c1: metadata.labels: Invalid value: "e u": `,
		},
		"a label that is a number": {
			files: map[string]string{"fleet.yaml": strings.Replace(clusterText, "region: eu", "region: 1", 1)},
			want:  `DIR/fleet.yaml: ManagedCluster c1: metadata: Invalid value: `,
		},
		"a rule across fields": {
			files: map[string]string{"fleet.yaml": placement("{tolerations: [{key: a, operator: Exists, value: b}]}")},
			want:  `DIR/fleet.yaml: Placement ns1/p1: spec.tolerations[0].value: Invalid value: `,
		},
		"a quantity that is none": {
			files: map[string]string{"fleet.yaml": strings.Replace(clusterText, "16Gi", "much", 1)},
			want:  `DIR/fleet.yaml: ManagedCluster c1: status.allocatable.memory: Invalid value: "much": should match `,
		},
		"an unserved version": {
			files: map[string]string{"fleet.yaml": strings.Replace(setText, "v1alpha1", "v1beta1", 1)},
			want: `DIR/fleet.yaml: ManagedClusterSet all: apiVersion: Unsupported value: "cluster.open-cluster-management.io/v1beta1": ` +
				`supported values: "cluster.open-cluster-management.io/v1alpha1", "cluster.open-cluster-management.io/v1beta2"`,
		},
		"one of Berth's own kinds": {
			files: map[string]string{"a.yaml": policyText, "b.yaml": strings.Replace(changeText, "revision: 1", "revision: 0", 1)},
			want:  "DIR/b.yaml: PlacementChange ns1/p1-1: spec.revision: Invalid value: 0: should be greater than or equal to 1",
		},
		"a rule of one of Berth's own kinds": {
			files: map[string]string{"a.yaml": strings.Replace(policyText, "{}", "{}\n  placements: [p1]", 1)},
			want:  "DIR/a.yaml: DisruptionPolicy default/all: spec: Invalid value: ",
		},
		"one object in two files": {
			files: map[string]string{"a.yaml": placementText, "b.yaml": placementText},
			want:  "DIR/b.yaml: Placement ns1/p1: already defined in DIR/a.yaml",
		},
		"no kind": {
			files: map[string]string{"a.yaml": setText + "---\nspec: {}\n"},
			want:  "DIR/a.yaml: document 2: kind: Required value",
		},
		"no version, in a List": {
			files: map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems: [{kind: Placement}]"},
			want:  "DIR/a.yaml: items[0]: apiVersion: Required value",
		},
		"no object": {
			files: map[string]string{"a.yaml": "just words"},
			want:  "DIR/a.yaml: not an object with apiVersion and kind",
		},
		"null in a List": {
			files: map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems: [null]"},
			want:  "DIR/a.yaml: items[0]: kind: Required value",
		},
		"no YAML": {
			files: map[string]string{"a.yaml": setText + "---\nkind: [\n"},
			want:  "DIR/a.yaml: document 2: yaml: line 1: ",
		},
		"no JSON": {
			files: map[string]string{"a.json": placementJSON + "\n{\"kind\":\t?}"},
			want:  "DIR/a.json: document 1: the JSON that begins at line 1: invalid character '?'",
		},
		"content behind the end of a document": {
			files: map[string]string{"a.yaml": setText + "...\nkind: lost\n"},
			want:  "DIR/a.yaml: document 1: a second document must begin with ---",
		},
		"a number that is no quantity": {
			files: map[string]string{"fleet.yaml": strings.Replace(clusterText, "3500m", "3.5", 1)},
			want:  `DIR/fleet.yaml: ManagedCluster c1: status.allocatable.cpu: Invalid value: "number": must be of type integer`,
		},
		"no gzip": {
			files: map[string]string{"a.json.gz": "\x1f\x8bnonsense"},
			want:  "reading DIR/a.json.gz: ",
		},
		"Lists in Lists": {
			files: map[string]string{"a.json": strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 20) + strings.Repeat("]}", 20)},
			want:  "DIR/a.json: items[0]: items[0]: items[0]: items[0]: items[0]: items[0]: items[0]: items[0]: more than 8 nested Lists",
		},
		"a scenario file among objects": {
			files: map[string]string{"a.yaml": setText, "b.json": `{"format":1,"scenarios":[]}`},
			want:  "DIR/b.json: a scenario file cannot be read together with the objects of DIR/a.yaml",
		},
		"objects after a scenario file": {
			files: map[string]string{"a.json": `{"format":1,"scenarios":[]}`, "b.yaml": setText},
			want:  "DIR/b.yaml: objects cannot be read together with a scenario file",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			folder := write(t, tc.files)
			input, err := Load([]string{folder}, nil)
			if err == nil {
				t.Fatalf("no error, but %v", names(input.Objects))
			}
			if got := strings.ReplaceAll(err.Error(), folder, "DIR"); !strings.HasPrefix(got, tc.want) || strings.HasSuffix(tc.want, "0") && got != tc.want {
				t.Errorf("error is\n  %s\nwant\n  %s", got, tc.want)
			}
		})
	}
}

func TestLoadSources(t *testing.T) {
	if _, err := Load(nil, nil); err == nil {
		t.Error("no paths: no error")
	}
	if _, err := Load([]string{"-"}, nil); err == nil {
		t.Error("no standard input: no error")
	}
	if _, err := Load([]string{filepath.Join(t.TempDir(), "missing.yaml")}, nil); err == nil || !strings.Contains(err.Error(), "missing.yaml") {
		t.Errorf("a missing file: %v", err)
	}
	// A file named outright is read whatever it is called, and a link in a folder is followed to a
	// file.
	folder := write(t, map[string]string{"fleet": zipped(t, setText), "mounted/..data/a.yaml": placementText})
	if err := os.Symlink(filepath.Join("..data", "a.yaml"), filepath.Join(folder, "mounted", "a.yaml")); err != nil {
		t.Fatal(err)
	}
	input, err := Load([]string{filepath.Join(folder, "fleet"), filepath.Join(folder, "mounted")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ManagedClusterSet all", "Placement ns1/p1"}, names(input.Objects)); diff != "" {
		t.Error(diff)
	}
}
