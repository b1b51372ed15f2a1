package property

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

func drawWorld(t *rapid.T) *world {
	w := newWorld()
	for range rapid.IntRange(5, 40).Draw(t, "objects") {
		w.put(w.drawObject(t))
	}
	return w
}

// TestOrderOfInput: the same objects give the same reports, byte for byte, in every order of input.
func TestOrderOfInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawWorld(t).all()
		shuffled := make([]client.Object, 0, len(all))
		for _, i := range drawOrder(t, len(all)) {
			shuffled = append(shuffled, all[i])
		}
		if diff := cmp.Diff(reports(t, all), reports(t, shuffled)); diff != "" {
			t.Fatalf("reports (-in order +shuffled):\n%s", diff)
		}
	})
}

func reports(t *rapid.T, all []client.Object) []string {
	s, err := simulator.New(context.Background(), all, fixture.Now, simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, key := range s.Placements() {
		report, err := s.Decide(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(report, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// TestNewClusterDisplacesNone: if all qualifying clusters are selected and no spread is set, a new
// cluster removes none.
func TestNewClusterDisplacesNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, inv := drawWorld(t), inventory.New(inventory.Options{})
		for _, o := range w.all() {
			if p, ok := o.(*v1alpha1.Placement); ok {
				p.Spec.NumberOfClusters, p.Spec.SpreadPolicy = nil, v1alpha1.SpreadPolicy{}
			}
			inv.Update(o)
		}
		s := newScheduler(t, true)
		before := map[inventory.Key][]string{}
		for _, key := range inv.Placements() {
			before[key] = selectedNames(ask(s, inv, key))
		}
		newcomer := drawCluster(t)
		newcomer.Name = "c0"
		inv.Update(newcomer)
		for key, names := range before {
			after := selectedNames(ask(s, inv, key))
			for _, name := range names {
				if !slices.Contains(after, name) {
					t.Fatalf("%s lost %s to a new cluster: %v became %v", key, name, names, after)
				}
			}
		}
	})
}

// selectedNames leaves the scores out, which a new cluster may change.
func selectedNames(a answer) []string {
	names := make([]string, len(a.Selected))
	for i, s := range a.Selected {
		names[i] = s[:2]
	}
	return names
}
