package readers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// page makes a page from "name/index: clusters".
func page(text string) Page {
	group, clusters, _ := strings.Cut(text, ":")
	name, index, _ := strings.Cut(group, "/")
	return Page{Clusters: strings.Fields(clusters), Labels: map[string]string{
		v1alpha1.DecisionGroupNameLabel: name, v1alpha1.DecisionGroupIndexLabel: index,
	}}
}

func TestByGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		pages []string
		want  string
	}{
		"nothing":                             {},
		"one name for each index":             {pages: []string{"canary/0: a", "/1: b", "/1: c"}, want: "a b c"},
		"one name with two indexes":           {pages: []string{"x/0: a", "x/1: b"}, want: "a b"},
		"two names for an index":              {pages: []string{"canary/0: a", "/0: b c"}},
		"a cluster under both names":          {pages: []string{"canary/0: a b", "/0: b c"}, want: "b"},
		"a cluster under another index, too":  {pages: []string{"canary/0: a", "/0: b", "x/1: a"}, want: "a"},
		"a gap hides the highest group":       {pages: []string{"x/0: a", "y/2: b"}, want: "a"},
		"a gap at the start hides everything": {pages: []string{"/1: a"}},
		"an index that is no number":          {pages: []string{"x/0: a", "y/: b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var pages []Page
			for _, text := range tc.pages {
				pages = append(pages, page(text))
			}
			got := slices.Sorted(maps.Keys(ByGroups(pages)))
			if diff := cmp.Diff(strings.Fields(tc.want), got, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}
