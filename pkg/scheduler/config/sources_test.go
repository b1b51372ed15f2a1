package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReadinessSources: the mistakes of a source, besides those in expressions.
func TestReadinessSources(t *testing.T) {
	valid := ReadinessSource{Name: "argocd", APIVersion: "argoproj.io/v1alpha1", Kind: "Application", Namespace: PlacementNamespace, Cluster: "object.spec.destination.name", Ready: "true"}
	with := func(change func(*ReadinessSource)) []ReadinessSource {
		s := valid
		change(&s)
		return []ReadinessSource{s}
	}
	for name, tc := range map[string]struct {
		sources []ReadinessSource
		want    []string // the fields with mistakes
	}{
		"none":               {},
		"in the Placement's": {sources: []ReadinessSource{valid}},
		"in the cluster's": {sources: with(func(s *ReadinessSource) {
			s.Namespace, s.Cluster, s.PlacementNamespaceLabel = ClusterNamespace, "", "example.com/for"
		})},
		"in the cluster's, of all": {sources: with(func(s *ReadinessSource) { s.Namespace, s.Cluster = ClusterNamespace, "" }), want: []string{"readinessSources[0].placementNamespaceLabel"}},
		"an invalid label": {sources: with(func(s *ReadinessSource) {
			s.Namespace, s.Cluster, s.PlacementNamespaceLabel = ClusterNamespace, "", "a b"
		}), want: []string{"readinessSources[0].placementNamespaceLabel"}},
		"a label without need":       {sources: with(func(s *ReadinessSource) { s.PlacementNamespaceLabel = "a" }), want: []string{"readinessSources[0].placementNamespaceLabel"}},
		"of the core group":          {sources: with(func(s *ReadinessSource) { s.APIVersion = "v1" })},
		"two of a name":              {sources: []ReadinessSource{valid, valid}, want: []string{"readinessSources[1].name"}},
		"an invalid name":            {sources: with(func(s *ReadinessSource) { s.Name = "Argo CD" }), want: []string{"readinessSources[0].name"}},
		"no name":                    {sources: with(func(s *ReadinessSource) { s.Name = "" }), want: []string{"readinessSources[0].name"}},
		"the built-in one":           {sources: with(func(s *ReadinessSource) { s.Name = ClusterSource }), want: []string{"readinessSources[0].name"}},
		"no version":                 {sources: with(func(s *ReadinessSource) { s.APIVersion = "" }), want: []string{"readinessSources[0].apiVersion"}},
		"two slashes":                {sources: with(func(s *ReadinessSource) { s.APIVersion = "a/b/c" }), want: []string{"readinessSources[0].apiVersion"}},
		"no kind":                    {sources: with(func(s *ReadinessSource) { s.Kind = "" }), want: []string{"readinessSources[0].kind"}},
		"another namespace":          {sources: with(func(s *ReadinessSource) { s.Namespace = "argocd" }), want: []string{"readinessSources[0].namespace"}},
		"no cluster":                 {sources: with(func(s *ReadinessSource) { s.Cluster = "" }), want: []string{"readinessSources[0].cluster"}},
		"a cluster in the cluster's": {sources: with(func(s *ReadinessSource) { s.Namespace, s.PlacementNamespaceLabel = ClusterNamespace, "a" }), want: []string{"readinessSources[0].cluster"}},
		"not ready by anything":      {sources: with(func(s *ReadinessSource) { s.Ready = "" }), want: []string{"readinessSources[0].ready"}},
		"an invalid selector": {sources: with(func(s *ReadinessSource) {
			s.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}), want: []string{"readinessSources[0].labelSelector.matchExpressions[0].operator"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, mistake := range validate(&PlacementSchedulerConfiguration{ReadinessSources: tc.sources}) {
				got = append(got, mistake.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWeightsAndMaps: values at the limits of their types.
func TestWeightsAndMaps(t *testing.T) {
	const head = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\n"
	for name, tc := range map[string]struct{ file, want string }{
		"the highest weight":     {file: "profiles: [{plugins: {score: {enabled: [{name: A, weight: 10}]}}}]"},
		"a label of a number":    {file: "readinessSources: [{name: a, apiVersion: v1, kind: K, namespace: cluster, placementNamespaceLabel: a, ready: 'true', labelSelector: {matchLabels: {a: 1}}}]", want: "must be a string"},
		"labels that are a list": {file: "readinessSources: [{name: a, apiVersion: v1, kind: K, namespace: cluster, placementNamespaceLabel: a, ready: 'true', labelSelector: {matchLabels: [a]}}]", want: "must be an object"},
		"labels":                 {file: "readinessSources: [{name: a, apiVersion: v1, kind: K, namespace: cluster, placementNamespaceLabel: a, ready: 'true', labelSelector: {matchLabels: {a: b}}}]"},
		"two unknown fields":     {file: "b: 1\na: 2", want: "a: Forbidden"},
		"no duration":            {file: "cycleTimeout: 100", want: "must be a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(head + tc.file))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			if err != nil && name == "two unknown fields" && strings.Index(err.Error(), "a: ") > strings.Index(err.Error(), "b: ") {
				t.Errorf("not sorted: %v", err)
			}
		})
	}
}
