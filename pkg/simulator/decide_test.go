package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// FuzzDecide: whatever specs and states of the six kinds a hub holds, admitted by Berth's schemas
// or let in by others, every Placement gets an answer that keeps the laws, the same in any order of
// arrival.
func FuzzDecide(f *testing.F) {
	// The fields are those of a Placement's spec, a cluster's spec and status and labels, a set's
	// spec, a score's status and a decision's status, and a page's labels.
	for _, seed := range [][6]string{
		{`{}`, `{"spec":{}}`, `{}`, `{}`, `{}`, `{}`},
		{`{"numberOfClusters":1,"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"a":"b"}}}}]}`,
			`{"metadata":{"labels":{"a":"b"}},"status":{"allocatable":{"cpu":"1e-999"},"capacity":{"cpu":1}}}`, `{}`, `{}`, `{"decisions":[]}`, `{}`},
		{`{"numberOfClusters":-1,"sortBy":"Score","decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":"7%","decisionGroups":[{"groupName":"g1","groupClusterSelector":{}}]}}}`,
			`{"spec":{"taints":[{"key":"k","effect":"NoSelect"}]}}`, `{"clusterSelector":{"selectorType":"LabelSelector","labelSelector":{}}}`,
			`{"scores":[{"name":"s","value":-7}],"validUntil":"2026-01-01T00:00:00Z"}`, `{"decisions":[{"clusterName":"c001","reason":""},{"clusterName":"gone","reason":""}]}`, `{"a":"b"}`},
		{`{"prioritizerPolicy":{"mode":"Exact","configurations":[{"scoreCoordinate":{"type":"AddOn","addOn":{"resourceName":"r","scoreName":"s"}},"weight":10}]}}`,
			`{"status":{"clusterClaims":[{"name":"z","value":"1"}]}}`, `{"clusterSelector":{"selectorType":"LabelSelector"}}`, `{"scores":[{"name":"s","value":2147483647}]}`, `{}`, `{}`},
		{`{"spreadPolicy":{"spreadConstraints":[{"topologyKey":"z","topologyKeyType":"Claim","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]},"tolerations":[{"operator":"Exists","tolerationSeconds":-9223372036854775808}]}`,
			`{"spec":{"taints":[{"key":"k","effect":"NoSelectIfNew","timeAdded":"2026-06-01T09:00:00Z"}]}}`, `{}`, `{}`, `{}`, `{}`},
		{`{"predicates":[{"requiredClusterSelector":{"celSelector":{"celExpressions":["managedCluster.metadata.name > 'c005' && managedCluster.scores('r').size() == 0"]}}}]}`,
			`{"status":{"version":{"kubernetes":"v1"}}}`, `{}`, `{"scores":[]}`, `{}`, `{}`},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5])
	}
	f.Fuzz(func(t *testing.T, placement, cluster, set, score, decision, labels string) {
		items, ok := hubOf(placement, cluster, set, score, decision, labels)
		if !ok {
			return
		}
		first := reportsOn(t, items)
		slices.Reverse(items)
		if diff := cmp.Diff(first, reportsOn(t, items)); diff != "" {
			t.Errorf("the order of arrival matters: %s", diff)
		}
	})
}

// hubOf is a hub of two Placements, with some hundred clusters, of which the one in hand is every
// other one; false when a part is no JSON object.
func hubOf(placement, cluster, set, score, decision, labels string) ([]json.RawMessage, bool) {
	parts := make([]map[string]any, 6)
	for i, text := range []string{placement, cluster, set, score, decision, labels} {
		if json.Unmarshal([]byte(text), &parts[i]) != nil || parts[i] == nil {
			return nil, false
		}
	}
	var items []json.RawMessage
	add := func(kind, version, namespace, name string, object map[string]any) {
		metadata, _ := object["metadata"].(map[string]any)
		named := map[string]any{"name": name, "namespace": namespace}
		for _, key := range []string{"labels", "annotations"} {
			if metadata[key] != nil {
				named[key] = metadata[key]
			}
		}
		whole := map[string]any{"apiVersion": "cluster.open-cluster-management.io/" + version, "kind": kind}
		for _, key := range []string{"spec", "status"} {
			if object[key] != nil {
				whole[key] = object[key]
			}
		}
		whole["metadata"] = named
		text, err := json.Marshal(whole)
		if err == nil {
			items = append(items, text)
		}
	}
	member := map[string]any{"labels": map[string]any{"cluster.open-cluster-management.io/clusterset": "s", "z": "1"}}
	for i := range 120 {
		object := map[string]any{"spec": map[string]any{}, "metadata": member}
		if i%2 == 0 {
			object = parts[1]
		}
		add("ManagedCluster", "v1", "", fmt.Sprintf("c%03d", i), object)
	}
	add("ManagedClusterSet", "v1beta2", "", "s", map[string]any{"spec": parts[2]})
	add("ManagedClusterSetBinding", "v1beta2", "n", "s", map[string]any{"spec": map[string]any{"clusterSet": "s"}})
	add("AddOnPlacementScore", "v1alpha1", "c001", "r", map[string]any{"status": parts[3]})
	page := map[string]any{"labels": map[string]any{"cluster.open-cluster-management.io/placement": "p"}}
	add("PlacementDecision", "v1beta1", "n", "p-decision-1", map[string]any{"status": parts[4], "metadata": page})
	add("PlacementDecision", "v1beta1", "n", "p-decision-2", map[string]any{"status": parts[4], "metadata": map[string]any{"labels": parts[5]}})
	add("Placement", "v1beta1", "n", "p", map[string]any{"spec": parts[0]})
	add("Placement", "v1beta1", "n", "q", map[string]any{"spec": map[string]any{}})
	return items, true
}

// reportsOn decides every Placement of a hub, and holds the answers to the laws.
func reportsOn(t *testing.T, items []json.RawMessage) []string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"format": scenarioFormat, "scenarios": []any{map[string]any{"id": "s", "steps": []any{
		map[string]any{"now": "2026-06-01T10:00:00Z", "objects": map[string]any{"apiVersion": "v1", "kind": "List", "items": items}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	input, err := Load([]string{"-"}, strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("the objects are well-formed: %v", err)
	}
	step := input.Scenarios[0].Steps[0]
	s, err := New(t.Context(), step.Objects, time.Date(2026, 6, 1, 10, 0, 0, 0, time.UTC), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var reports []string
	for _, key := range s.Placements() {
		report, err := s.Explain(t.Context(), key, "c000")
		if err != nil {
			t.Fatal(err)
		}
		lawful(t, step.Objects, report)
		written, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, string(written))
	}
	return reports
}

// lawful: pages have at most a hundred clusters; none is chosen twice, and none that is no
// candidate; a failure leaves what is published, and whatever is decided has a page.
func lawful(t *testing.T, objects Objects, report *Report) {
	t.Helper()
	if report.Skipped != "" {
		return
	}
	failed := len(report.Conditions) > 0 && report.Conditions[0].Status == "True" && len(report.Ranking) == 0
	if failed {
		published := 0
		for _, page := range List[*v1alpha1.PlacementDecision](objects) {
			if page.Labels["cluster.open-cluster-management.io/placement"] == strings.TrimPrefix(report.Placement, "n/") {
				published += len(page.Status.Decisions)
			}
		}
		if report.NumberOfSelectedClusters != published {
			t.Errorf("%s: a failure publishes %d clusters, not the %d that were", report.Placement, report.NumberOfSelectedClusters, published)
		}
		return
	}
	seen := map[string]bool{}
	for _, page := range report.Decisions {
		if len(page.Clusters) > 100 {
			t.Errorf("%s has %d clusters", page.Name, len(page.Clusters))
		}
		for _, cluster := range page.Clusters {
			if seen[cluster] || !slices.Contains(report.AvailableClusters, cluster) {
				t.Errorf("%s: %s is chosen twice, or no candidate", page.Name, cluster)
			}
			seen[cluster] = true
		}
	}
}
