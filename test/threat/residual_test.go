package threat

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// The tests in this file hold the section "What remains" of docs/threat-model.md to the code: each
// shows a risk that Berth does not remove, so that the document neither hides nor overstates it.

// decide returns the conditions and clusters of one Placement, given all objects.
func decide(t *testing.T, objects simulator.Objects, name string) (conditions map[string]string, clusters string) {
	t.Helper()
	s, err := simulator.New(t.Context(), objects, fixture.Now, simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var report *simulator.Report
	for _, key := range s.Placements() {
		r, err := s.Decide(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if key == (types.NamespacedName{Namespace: "team", Name: name}) {
			report = r
		}
	}
	if report == nil {
		t.Fatalf("no report for %s", name)
	}
	conditions = map[string]string{}
	for _, c := range report.Conditions {
		conditions[c.Type] = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
	var names []string
	for _, d := range report.Decisions {
		names = append(names, d.Clusters...)
	}
	return conditions, strings.Join(names, " ")
}

// queueConfig is a queue configuration as the ConfigMap that the simulator reads.
func queueConfig(yaml string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "berth-system", "name": "yunikorn-configs"},
		"data":     map[string]any{"queues.yaml": yaml},
	}}
}

// submittedBy stamps a Placement as admission does.
func submittedBy(b fixture.PlacementBuilder, user string, groups ...string) fixture.PlacementBuilder {
	quoted := make([]string, len(groups))
	for i, g := range groups {
		quoted[i] = fmt.Sprintf("%q", g)
	}
	return b.Annotation("yunikorn.apache.org/user.info", fmt.Sprintf(`{"user":%q,"groups":[%s]}`, user, strings.Join(quoted, ",")))
}

func teamObjects(placements ...fixture.PlacementBuilder) simulator.Objects {
	objects := simulator.Objects{
		fixture.Set("dev"), fixture.Binding("team", "dev"),
		fixture.Cluster("dev-1").Set("dev").Obj(), fixture.Cluster("dev-2").Set("dev").Obj(),
	}
	for _, b := range placements {
		objects = append(objects, b.Obj())
	}
	return objects
}

// A cluster joins a set of type LabelSelector by its labels: the right to label clusters is the
// right to join such sets. The right managedclustersets/join guards the label of exclusive sets
// only.
func TestLabelSelectedSetTrustsClusterLabels(t *testing.T) {
	objects := simulator.Objects{
		fixture.SelectorSet("dev", &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "trusted"}}),
		fixture.Binding("team", "dev"), fixture.Placement("team", "web").Obj(),
		fixture.Cluster("known").Label("tier", "trusted").Obj(), fixture.Cluster("self-labelled").Obj(),
	}
	if _, clusters := decide(t, objects, "web"); clusters != "known" {
		t.Fatalf("before the cluster labels itself: %s", clusters)
	}
	objects[len(objects)-1] = fixture.Cluster("self-labelled").Label("tier", "trusted").Obj()
	if _, clusters := decide(t, objects, "web"); clusters != "known self-labelled" {
		t.Fatalf("after the cluster labels itself: %s", clusters)
	}
}

const groupQueues = `
partitions:
- name: default
  queues: [{name: ops}]
  placementrules: [{name: fixed, value: root.ops, filter: {type: allow, groups: [ops]}}]
`

// A stamp keeps the groups that the submitter had when the Placement was created. Losing a group
// later does not change it.
func TestStampKeepsGroupsOfItsTime(t *testing.T) {
	objects := teamObjects(
		submittedBy(fixture.Placement("team", "then"), "alice", "ops"),
		submittedBy(fixture.Placement("team", "now"), "alice"),
	)
	objects = append(objects, queueConfig(groupQueues))
	for name, want := range map[string]string{"then": "True Placed", "now": "False NoRuleMatched"} {
		conditions, _ := decide(t, objects, name)
		if got := conditions[v1alpha1.PlacementConditionQueueAdmitted]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
	}
}

// The queue follows the submitter, not the editor: a user who may edit a Placement in a shared
// namespace can request more clusters in the submitter's queue.
func TestEditorUsesQueueOfSubmitter(t *testing.T) {
	for number, want := range map[int32]string{1: "dev-1", 2: "dev-1 dev-2"} {
		objects := teamObjects(submittedBy(fixture.Placement("team", "web").Number(number), "alice", "ops"))
		objects = append(objects, queueConfig(groupQueues))
		if _, clusters := decide(t, objects, "web"); clusters != want {
			t.Errorf("%d clusters asked for: want %s, got %s", number, want, clusters)
		}
	}
}

// A rule that creates queues from what users choose gives a queue to the first who names it: its
// place is gone for those whose name it bears.
func TestDynamicQueueIsFirstComeFirstServed(t *testing.T) {
	objects := teamObjects(
		submittedBy(fixture.Placement("team", "a-squatter").Annotation("yunikorn.apache.org/queue", "payments"), "mallory"),
		submittedBy(fixture.Placement("team", "b-payments").Annotation("yunikorn.apache.org/queue", "payments"), "payments"),
	)
	objects = append(objects, queueConfig(`
partitions:
- name: default
  queues: [{name: teams, parent: true, childtemplate: {maxapplications: 1}}]
  placementrules: [{name: provided, create: true, parent: {name: fixed, value: root.teams}}]
`))
	for name, want := range map[string]string{"a-squatter": "True Placed", "b-payments": "False QuotaExceeded"} {
		conditions, _ := decide(t, objects, name)
		if got := conditions[v1alpha1.PlacementConditionQueueAdmitted]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
	}
}
