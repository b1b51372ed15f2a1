package config

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// FuzzLoad: no text makes Load panic; what it accepts merges with the defaults and resolves always
// alike, every plugin at most once a point, only where it can run, with a weight in range; and it
// reads the same written out again.
func FuzzLoad(f *testing.F) {
	text, err := os.ReadFile("testdata/mistakes.yaml")
	if err != nil {
		f.Fatal(err)
	}
	var mistakes []struct{ File string }
	if err := yaml.Unmarshal(text, &mistakes); err != nil {
		f.Fatal(err)
	}
	for _, m := range mistakes {
		f.Add([]byte(m.File))
		f.Add([]byte(strings.ReplaceAll(m.File, "name: A", "name: foo")))
	}
	const head = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\nprofiles:\n- plugins:\n"
	f.Add([]byte(head + "    multiPoint: {enabled: [{name: new, weight: 3}, {name: bar}], disabled: [{name: other}]}\n    filter: {enabled: [{name: foo}], disabled: [{name: '*'}]}"))
	f.Add([]byte(head + "    reserve: {enabled: [{name: bar}, {name: foo}], disabled: [{name: foo}]}\n- name: b\n  pluginConfig: [{name: foo, args: {a: [1, null]}}]"))

	known := slices.Sorted(maps.Keys(implemented))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Load(data)
		if err != nil {
			return
		}
		written, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load(written)
		if err != nil {
			t.Fatalf("refused when written out again: %v\n%s", err, written)
		}
		all, err := MergeAll(c, defaults, known)
		anew, _ := MergeAll(again, defaults, known)
		if err != nil {
			return
		}
		for i := range all {
			resolved, err := all[i].Resolve(implements)
			other, otherErr := anew[i].Resolve(implements)
			if (err == nil) != (otherErr == nil) || !cmp.Equal(resolved, other) {
				t.Fatalf("resolves differently a second time: %v %v\n%s", err, otherErr, cmp.Diff(resolved, other))
			}
			if err == nil {
				checkResolved(t, resolved)
			}
		}
	})
}

func checkResolved(t *testing.T, resolved map[Point][]Plugin) {
	for point, plugins := range resolved {
		seen := map[string]bool{}
		for _, plugin := range plugins {
			if seen[plugin.Name] || !implements(plugin.Name, point) {
				t.Fatalf("%s is at %s twice or for nothing", plugin.Name, point)
			}
			seen[plugin.Name] = true
			if weighed := plugin.Weight != nil; weighed != (point == Score) || weighed && (*plugin.Weight < MinWeight || *plugin.Weight > MaxWeight) {
				t.Fatalf("%s has the weight %v at %s", plugin.Name, plugin.Weight, point)
			}
		}
	}
}
