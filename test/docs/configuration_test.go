package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// configHead is what most examples leave out.
const configHead = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\n"

// configExample is a configuration in a page, with what the page says of it: what runs at some
// points, or the mistakes in it.
type configExample struct {
	file     string
	runs     map[string]string
	mistakes []string
}

// configExamples are the indented blocks of a page that are configurations. A block that follows
// says more of the last one.
func configExamples(page string) (examples []configExample) {
	for block := range strings.SplitSeq(page, "\n\n") {
		block = strings.Trim(block, "\n")
		if !strings.HasPrefix(block, "    ") {
			continue
		}
		text := strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n    ", "\n"), "\n") + "\n"
		switch {
		case strings.HasPrefix(text, configHead):
			examples = append(examples, configExample{file: text, runs: map[string]string{}})
			continue
		case strings.HasPrefix(text, "profiles:"):
			examples = append(examples, configExample{file: configHead + text, runs: map[string]string{}})
			continue
		case len(examples) == 0:
			continue
		}
		last := &examples[len(examples)-1]
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			point, plugins, _ := strings.Cut(line, ":")
			if mistake, ok := strings.CutPrefix(line, "! "); ok {
				last.mistakes = append(last.mistakes, mistake)
			} else if slices.Contains(config.Points, config.Point(point)) {
				last.runs[point] = strings.TrimSpace(plugins)
			}
		}
	}
	return examples
}

// TestConfigurations runs every configuration in the documentation through berth simulate, and
// holds what runs against what the page says.
func TestConfigurations(t *testing.T) {
	said := 0
	for page, text := range pages(t) {
		for i, tc := range configExamples(text) {
			t.Run(fmt.Sprintf("%s/%d", filepath.Base(page), i), func(t *testing.T) {
				said += len(tc.runs) + len(tc.mistakes)
				_, err := simulate(t, tc.file, "{}")
				if len(tc.mistakes) > 0 {
					want := "conf.yaml: " + strings.Join(tc.mistakes, "\nconf.yaml: ")
					if err == nil || err.Error() != want {
						t.Fatalf("got %v, want:\n%s\nof:\n%s", err, want, tc.file)
					}
					return
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, tc.file)
				}
				got := whatRuns(t, tc.file)
				maps.DeleteFunc(got, func(point, _ string) bool { _, ok := tc.runs[point]; return !ok })
				if diff := cmp.Diff(tc.runs, got); diff != "" {
					t.Errorf("(-said +got):\n%s\n%s", diff, tc.file)
				}
			})
		}
	}
	if said < 20 {
		t.Errorf("the documentation says %d things about its configurations only", said)
	}
}

// TestProfileOfAPlacement decides a Placement by the profiles that the documentation shows, chosen
// by its annotation.
func TestProfileOfAPlacement(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := configExamples(string(page))
	i := slices.IndexFunc(examples, func(e configExample) bool { return strings.Contains(e.file, "name: roomy") })
	tests := map[string]struct{ annotations, want string }{
		"roomy":        {annotations: "{berth.dev/profile: roomy}", want: `"ResourceAllocatableMemory": {"weight": 3,`},
		"spread":       {annotations: "{berth.dev/profile: spread}", want: `"Balance": {"weight": 10,`},
		"none chosen":  {annotations: "{}", want: `"prioritizerScores": {"Balance": {"weight": 1, "scores": {"cluster1": 100, "cluster2": 100, "cluster3": 100}}, "Steady": {"weight": 1,`},
		"there is not": {annotations: "{berth.dev/profile: rommy}", want: `metadata.annotations[berth.dev/profile]: Unsupported value: \"rommy\": supported values: \"default\", \"roomy\", \"spread\"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := simulate(t, examples[i].file, tc.annotations)
			if wantError := name == "there is not"; (err != nil) != wantError {
				t.Fatalf("error %v, want one: %t", err, wantError)
			}
			words := strings.Join(strings.Fields(out), " ")
			if words = strings.ReplaceAll(strings.ReplaceAll(words, "{ ", "{"), " }", "}"); !strings.Contains(words, tc.want) {
				t.Errorf("%s is not in:\n%s", tc.want, out)
			}
		})
	}
}

// TestExtensionPointsAreListed: the table of fields has every extension point.
func TestExtensionPointsAreListed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(page), "\n| `profiles[].plugins` |")
	row, _, _ = strings.Cut(row, "\n")
	for field := range reflect.TypeFor[config.Plugins]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !strings.Contains(row, "`"+name+"`") {
			t.Errorf("the row of profiles[].plugins lacks %s", name)
		}
	}
}

// simulate decides a Placement with some annotations on the sample fleet, configured by the file
// conf.yaml, and returns the report as JSON.
func simulate(t *testing.T, file, annotations string) (string, error) {
	samples, err := filepath.Abs(filepath.Join(root, "config/samples"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("conf.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	command := app.NewCommand()
	command.SetArgs([]string{"simulate", "--config", "conf.yaml", "-o", "json", "-f", filepath.Join(samples, "10-guide-fleet.yaml"), "-f", "-"})
	command.SetIn(strings.NewReader("apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n" +
		"metadata: {name: demo, namespace: ns1, annotations: " + annotations + "}\nspec: {numberOfClusters: 2}\n"))
	var out bytes.Buffer
	command.SetOut(&out)
	err = command.Execute()
	return out.String(), err
}

// whatRuns is by point, in the default profile.
func whatRuns(t *testing.T, file string) map[string]string {
	c, err := config.Load([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := builtin.Profiles(context.Background(), c, builtin.Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	p := profiles[config.DefaultProfile]
	var scores []string
	for _, s := range p.Score {
		scores = append(scores, fmt.Sprintf("%s=%d", s.Name(), s.Weight))
	}
	return map[string]string{
		"queueSort": p.QueueSort.Name(), "preEnqueue": listed(p.PreEnqueue), "preFilter": listed(p.PreFilter), "filter": listed(p.Filter), "postFilter": listed(p.PostFilter),
		"preScore": listed(p.PreScore), "score": strings.Join(scores, ", "), "reserve": listed(p.Reserve), "permit": listed(p.Permit), "transition": listed(p.Transition),
		"preBind": listed(p.PreBind), "bind": listed(p.Bind), "postBind": listed(p.PostBind),
	}
}

func listed[T framework.Plugin](plugins []T) string {
	var names []string
	for _, p := range plugins {
		names = append(names, p.Name())
	}
	return strings.Join(names, ", ")
}

// TestSchemaKnowsThePlugins demands every plugin in the tree, and no other, in the rules for
// arguments of the configuration's schema.
func TestSchemaKnowsThePlugins(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "config/schema/placementschedulerconfiguration.json"))
	if err != nil {
		t.Fatal(err)
	}
	type rule struct {
		If struct {
			Properties struct {
				Name struct {
					Const string
					Enum  []string
				}
			}
		}
	}
	var schema struct {
		Properties struct {
			Profiles struct {
				Items struct {
					Properties struct {
						PluginConfig struct {
							Items struct{ AllOf []rule }
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range schema.Properties.Profiles.Items.Properties.PluginConfig.Items.AllOf {
		names = append(names, r.If.Properties.Name.Enum...)
		if r.If.Properties.Name.Const != "" {
			names = append(names, r.If.Properties.Name.Const)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(builtin.Registry())), names); diff != "" {
		t.Errorf("plugins (-registry +schema, from tools/configschema/table.go):\n%s", diff)
	}
}
