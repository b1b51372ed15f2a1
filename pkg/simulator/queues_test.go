package simulator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

func other(kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: fields}
	o.SetAPIVersion("v1")
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// fleetOfTwo has two sets of two clusters each, and two Placements of team ns1 that want two
// clusters.
func fleetOfTwo() Objects {
	o := Objects{}
	for _, set := range []string{"dev", "prod"} {
		o = append(o, fixture.Set(set))
		o = append(o, fixture.Binding("ns1", set))
		for _, i := range []string{"1", "2"} {
			o = append(o, fixture.Cluster(set+i).Set(set).Obj())
		}
	}
	for _, name := range []string{"p1", "p2"} {
		o = append(o, fixture.Placement("ns1", name).Number(2).Obj())
	}
	return o
}

func decideAll(t *testing.T, o Objects) []byte {
	t.Helper()
	s, err := New(t.Context(), o, time.Unix(0, 0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var reports []*Report
	for _, key := range s.Placements() {
		report, err := s.Decide(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, report)
	}
	text, err := json.Marshal(reports)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestQueuesAreHonoured(t *testing.T) {
	const queues = `
partitions:
- name: default
  queues: [{name: team, parent: true, resources: {max: {clusters: 3}}, properties: {clustersets: "dev,prod"}, childtemplate: {properties: {clustersets: prod}}}]
  placementrules: [{name: user, create: true, parent: {name: tag, value: namespace.parentqueue}}]
`
	o := fleetOfTwo()
	namespace := other("Namespace", "", "ns1", map[string]any{})
	namespace.SetAnnotations(map[string]string{"yunikorn.apache.org/parentqueue": "root.team"})
	o = append(o, namespace, other("ConfigMap", "berth-system", "yunikorn-configs", map[string]any{"data": map[string]any{"queues.yaml": queues}}))
	text := string(decideAll(t, o))
	for words, want := range map[string]int{`root.team.nobody by rule user`: 2, "by quota: root.team clusters 3": 1, `"prod1"`: -1, `"dev1"`: 0} {
		if got := strings.Count(text, words); want >= 0 && got != want || want < 0 && got == 0 {
			t.Errorf("%s: want %d, got %d in %s", words, want, got, text)
		}
	}
	o = append(o, other("ConfigMap", "elsewhere", "yunikorn-configs", map[string]any{}))
	if _, err := New(t.Context(), o, time.Unix(0, 0), Options{}); err == nil || !strings.Contains(err.Error(), "exists twice") {
		t.Errorf("two configurations: %v", err)
	}
}

// TestQuotaOfPublished: clusters that a held change would remove use the quota, also if another
// client removed them from a page: the record says that they were published.
func TestQuotaOfPublished(t *testing.T) {
	const queues = `
partitions:
- name: default
  queues: [{name: a, resources: {max: {clusters: 2}}}]
  placementrules: [{name: fixed, value: root.a}]
`
	for name, listed := range map[string][]string{"as published": {"c1", "c2"}, "damaged": {"c1"}, "emptied": {}} {
		t.Run(name, func(t *testing.T) {
			p1, page := fixture.Placement("ns1", "p1").Number(1).Obj(), fixture.Page("ns1", "p1-decision-1").Of("p1").OwnedBy("p1").Lists(listed...).Obj()
			page.Annotations = map[string]string{berthv1alpha1.RevisionAnnotation: "1"}
			record := changes.NewRecord(p1, 0, 1, changes.NewChange(nil, []string{"c1", "c2"}))
			record.Status.Phase = berthv1alpha1.PhasePublished
			o := Objects{
				fixture.Set("s"), fixture.Binding("ns1", "s"), fixture.Cluster("c1").Set("s").Obj(), fixture.Cluster("c2").Set("s").Obj(),
				p1, page, record, fixture.ApprovalPolicy("ns1", "held", "p1"), fixture.Placement("ns1", "p2").Number(1).Obj(),
				other("ConfigMap", "berth-system", "yunikorn-configs", map[string]any{"data": map[string]any{"queues.yaml": queues}}),
			}
			alone, err := New(t.Context(), o, time.Unix(0, 0), Options{})
			if err != nil {
				t.Fatal(err)
			}
			report, err := alone.Decide(t.Context(), types.NamespacedName{Namespace: "ns1", Name: "p2"})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(report)
			if err != nil {
				t.Fatal(err)
			}
			for what, text := range map[string]string{"all": string(decideAll(t, o)), "p2 alone": string(text)} {
				if !strings.Contains(text, "by quota: root.a clusters 2 (2 used by others, in this namespace by p1 2)") {
					t.Errorf("%s: %s", what, text)
				}
			}
		})
	}
}

// TestQuotaOfHeldChange: the clusters that a held change adds use the quota, also while its
// Placement is invalid, or decided later.
func TestQuotaOfHeldChange(t *testing.T) {
	const queues = `
partitions:
- name: default
  queues: [{name: a, resources: {max: {clusters: 2}}}]
  placementrules: [{name: fixed, value: root.a}]
`
	for _, invalid := range []bool{false, true} {
		p2 := fixture.Placement("ns1", "p2").Number(2).Obj()
		if invalid {
			p2.Annotations = map[string]string{berthv1alpha1.PinnedRevisionAnnotation: "7"}
		}
		record := changes.NewRecord(p2, 0, 1, changes.NewChange(nil, []string{"c1", "c2"}))
		record.Status.Phase = berthv1alpha1.PhaseHeld
		o := Objects{
			fixture.Set("s"), fixture.Binding("ns1", "s"), fixture.Cluster("c1").Set("s").Obj(), fixture.Cluster("c2").Set("s").Obj(),
			fixture.Placement("ns1", "p1").Number(1).Obj(), p2, record, fixture.ApprovalPolicy("ns1", "held", "p2"),
			other("ConfigMap", "berth-system", "yunikorn-configs", map[string]any{"data": map[string]any{"queues.yaml": queues}}),
		}
		if text := string(decideAll(t, o)); !strings.Contains(text, "by quota: root.a clusters 2 (2 used by others, in this namespace by p2 2)") {
			t.Errorf("invalid %t: %s", invalid, text)
		}
	}
}

func TestReportWithoutQueuesDoesNotMentionThem(t *testing.T) {
	plain := decideAll(t, fleetOfTwo())
	o := fleetOfTwo()
	o = append(o, other("Namespace", "", "ns1", map[string]any{}), other("ConfigMap", "berth-system", "others", map[string]any{"data": map[string]any{"queues.yaml": "x"}}))
	if diff := cmp.Diff(string(plain), string(decideAll(t, o))); diff != "" {
		t.Errorf("(-without +with):\n%s", diff)
	}
	for _, word := range []string{"Queue", v1alpha1.QueueAnnotation} {
		if strings.Contains(string(plain), word) {
			t.Errorf("%s in %s", word, plain)
		}
	}
}
