package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/readers"
	"github.com/berth-dev/berth/test/testhub"
)

// Difference compares the published decisions with those of berth simulate for the fleet's objects.
// It is empty if they agree. If the objects include the pages, every page must agree, otherwise
// only the selected clusters.
func (f *Fleet) Difference(ctx context.Context) (string, error) {
	var objects []client.Object
	in := client.InNamespace(f.Name)
	for list, of := range map[client.ObjectList]client.ListOption{
		&v1alpha1.ManagedClusterList{}:           client.MatchingLabels{v1alpha1.ClusterSetLabel: f.Name},
		&v1alpha1.ManagedClusterSetList{}:        client.MatchingFields{"metadata.name": f.Name},
		&v1alpha1.ManagedClusterSetBindingList{}: in,
		&v1alpha1.PlacementList{}:                in,
	} {
		if err := f.Hub.List(ctx, list, of); err != nil {
			return "", err
		}
		objects = append(objects, f.items(list)...)
	}
	pages := &v1alpha1.PlacementDecisionList{}
	if err := f.Hub.List(ctx, pages, in); err != nil {
		return "", err
	}
	published := map[string][]readers.Page{}
	for i := range pages.Items {
		p := readers.PageOf(&pages.Items[i])
		name := p.Labels[v1alpha1.PlacementLabel]
		published[name] = append(published[name], p)
	}
	fresh, err := simulate(ctx, objects)
	if err != nil {
		return "", err
	}
	again, err := simulate(ctx, append(objects, f.items(pages)...))
	if err != nil {
		return "", err
	}
	for name := range again {
		byName := func(a, b readers.Page) int { return strings.Compare(a.Name, b.Name) }
		slices.SortFunc(again[name], byName)
		slices.SortFunc(published[name], byName)
		if want, got := fmt.Sprint(again[name]), fmt.Sprint(published[name]); want != got {
			return fmt.Sprintf("%s: simulated from the pages: %s, published: %s", name, want, got), nil
		}
		if want, got := fmt.Sprint(selected(fresh[name])), fmt.Sprint(selected(published[name])); want != got {
			return fmt.Sprintf("%s: simulated: %s, published: %s", name, want, got), nil
		}
	}
	return "", nil
}

func selected(pages []readers.Page) []string {
	var names []string
	for _, p := range pages {
		names = append(names, p.Clusters...)
	}
	slices.Sort(names)
	return names
}

// simulate runs berth simulate and returns the pages by Placement.
func simulate(ctx context.Context, objects []client.Object) (map[string][]readers.Page, error) {
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(GinkgoT().TempDir(), "objects.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, testhub.Binary(), "simulate", "-f", file, "-o", "json").Output()
	// 4 says only that a Placement is misconfigured.
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 4) {
		return nil, fmt.Errorf("berth simulate: %w", err)
	}
	var result struct {
		Results []struct {
			Placement string         `json:"placement"`
			Decisions []readers.Page `json:"decisions"`
		} `json:"results"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return nil, err
	}
	answers := map[string][]readers.Page{}
	for _, r := range result.Results {
		answers[filepath.Base(r.Placement)] = r.Decisions
	}
	return answers, nil
}

// items returns the objects of a list with their kinds, as in files.
func (f *Fleet) items(list client.ObjectList) []client.Object {
	GinkgoHelper()
	objects, err := meta.ExtractList(list)
	Expect(err).NotTo(HaveOccurred())
	var out []client.Object
	for _, o := range objects {
		object, ok := o.(client.Object)
		Expect(ok).To(BeTrue())
		kind, err := apiutil.GVKForObject(object, f.Hub.Scheme())
		Expect(err).NotTo(HaveOccurred())
		object.GetObjectKind().SetGroupVersionKind(kind)
		object.SetManagedFields(nil)
		out = append(out, object)
	}
	return out
}

// Counts prints the entries in the order of their keys.
func Counts(of map[string]int) string {
	var texts []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		texts = append(texts, fmt.Sprintf("%s: %d", kind, of[kind]))
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// Seconds rounds a duration for reports.
func Seconds(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
