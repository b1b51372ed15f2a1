package docs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"

	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/extenders"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

var fences = regexp.MustCompile("(?s)```(yaml|json)\n(.*?)```")

// TestExtendersPage: the configuration of the page builds profiles, its request and answer are
// those of the protocol, and its command selects by the answers of its file.
func TestExtendersPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/extenders.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, found := range fences.FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, found[2])
	}
	if len(blocks) != 4 {
		t.Fatalf("the page has %d blocks", len(blocks))
	}
	configuration, request, answer, answers := blocks[0], blocks[1], blocks[2], blocks[3]
	c, err := config.Load([]byte(configuration))
	if err == nil {
		_, err = scheduler.NewProfiles(t.Context(), c, builtin.DefaultProfile(), builtin.Registry(), &framework.Handle{})
	}
	if err != nil {
		t.Error(err)
	}
	for text, into := range map[string]any{request: &extenders.Request{}, answer: &extenders.Answer{}} {
		if strict, err := kjson.UnmarshalStrict([]byte(text), into); err != nil || len(strict) > 0 {
			t.Errorf("%v %v: %s", err, strict, text)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"berth.yaml": configuration, "answers.yaml": answers, "fleet.yaml": `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: eu}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: eu, namespace: shop}
spec: {clusterSet: eu}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: paris1, labels: {cluster.open-cluster-management.io/clusterset: eu}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: rome1, labels: {cluster.open-cluster-management.io/clusterset: eu}}
spec: {hubAcceptsClient: true}
`, "placement.yaml": `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: shop}
spec: {numberOfClusters: 2}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	_, line, _ := strings.Cut(string(page), "    berth simulate ")
	words := strings.Fields("simulate " + strings.Split(line, "\n")[0] + " -o json")
	var out, stderr bytes.Buffer
	root := app.NewCommand()
	root.SetOut(&out)
	root.SetErr(&stderr)
	if code := app.Run(root, words); code != 0 {
		t.Fatalf("%v ends with %d: %s", words, code, stderr.String())
	}
	var printed struct {
		Results []struct {
			Selected []string
			Verdicts []struct{ Cluster, Plugin, Reason string }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "excluded by the extender: in maintenance") || !strings.Contains(text, `"cost"`) {
		t.Errorf("the output does not name the extender: %s", text)
	}
}

// TestExtenderAnswersFile: mistakes in a file of answers name the file and the extender.
func TestExtenderAnswersFile(t *testing.T) {
	dir := t.TempDir()
	configuration := filepath.Join(dir, "berth.yaml")
	text := configHead + "profiles: [{extenders: [{name: cost, urlPrefix: https://x, filterVerb: f}]}]\n"
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for answers, want := range map[string]string{
		"price: {clusters: {}}":                 "no profile of the configuration has an extender price",
		"cost: {}":                              "cost: clusters is missing",
		"cost: {clusters: {a: {points: 1}}}":    `unknown field "points"`,
		"cost: {clusters: {a: {score: .nan}}}":  "NaN",
		"default/cost: {clusters: {}}\ncost: 1": "cannot unmarshal number",
	} {
		file := filepath.Join(dir, "answers.yaml")
		if err := os.WriteFile(file, []byte(answers), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		root := app.NewCommand()
		root.SetErr(&stderr)
		code := app.Run(root, []string{"simulate", "-f", configuration, "--config", configuration, "--extender-answers", file})
		if code != 1 || !strings.Contains(stderr.String(), want) || !strings.Contains(stderr.String(), "answers.yaml: ") {
			t.Errorf("%s: %d, %s", answers, code, stderr.String())
		}
	}
}
