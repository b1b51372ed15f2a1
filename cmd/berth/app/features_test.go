package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/pkg/builtin"
)

// TestFeatures: each kind, command and plugin belongs to exactly one feature, and a feature says
// what may change unless it is stable.
func TestFeatures(t *testing.T) {
	want := map[string]int{}
	crds, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range crds {
		want["kind "+c.Spec.Names.Kind] = 1
	}
	for _, cmd := range NewCommand().Commands() {
		want["command "+cmd.Name()] = 1
	}
	for name := range builtin.Registry() {
		want["plugin "+name] = 1
	}
	got := map[string]int{}
	stages := []Stage{Stable, Beta, Alpha}
	last := 0
	for _, f := range Features() {
		for what, names := range map[string][]string{"kind ": f.Kinds, "command ": f.Commands, "plugin ": f.Plugins} {
			for _, name := range names {
				got[what+name]++
			}
		}
		stage := slices.Index(stages, f.Stage)
		if stage < last || (f.MayChange == "") != (f.Stage == Stable) {
			t.Errorf("%s: stage %q after %q, may change: %q", f.Name, f.Stage, stages[last], f.MayChange)
		}
		last = stage
		if _, err := os.Stat(filepath.Join("..", "..", "..", "docs", f.Docs)); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	for name := range want {
		if got[name] != 1 {
			t.Errorf("%s is in %d features, want 1", name, got[name])
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("a feature has the %s, which does not exist", name)
	}
}

// TestStageInHelp: the help of a command says its stage, unless it is stable.
func TestStageInHelp(t *testing.T) {
	for _, root := range []string{"berth", kubectlPlugin} {
		command := NewCommand()
		if root == kubectlPlugin {
			command = NewKubectlCommand()
		}
		for _, f := range Features() {
			for _, name := range f.Commands {
				cmd, _, err := command.Find([]string{name})
				if err != nil || cmd == command {
					continue // only berth has it
				}
				if shown := strings.Contains(cmd.Long, "Stage: "+string(f.Stage)+". May change: "); shown != (f.Stage != Stable) {
					t.Errorf("%s %s: the stage is shown: %v", root, name, shown)
				}
			}
		}
	}
}

// TestVersionJSON: scripts can read the stages.
func TestVersionJSON(t *testing.T) {
	var out bytes.Buffer
	command := NewCommand()
	command.SetOut(&out)
	command.SetArgs([]string{"version", "-o", "json"})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version, Commit, Go string
		Kinds               []struct {
			Kind, Group, Stored string
			Served              []string
		}
		Features []Feature
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Commit == "" || got.Go == "" || len(got.Kinds) < 11 || got.Kinds[0].Stored == "" || len(got.Features) != len(Features()) {
		t.Errorf("version -o json: %+v", got)
	}
}
