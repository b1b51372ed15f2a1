package scheduler_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestForgedAnnotationsOfAPage: whatever another client writes into the annotations of a page that
// Berth reads, now or while no controller runs, the decision stays, and what Berth published is
// restored. The queue has a quota that was lowered, so that a Placement that loses its queue loses
// clusters.
func TestForgedAnnotationsOfAPage(t *testing.T) {
	forge := map[string]func(annotations map[string]string){
		"another queue": func(a map[string]string) {
			a[v1alpha1.QueueAnnotation] = strings.ReplaceAll(a[v1alpha1.QueueAnnotation], "root.team", "root.other")
		},
		"no queue":                 func(a map[string]string) { delete(a, v1alpha1.QueueAnnotation) },
		"a text of no queue":       func(a map[string]string) { a[v1alpha1.QueueAnnotation] = "{" },
		"a later revision":         func(a map[string]string) { a[berthv1alpha1.RevisionAnnotation] = "1000" },
		"no revision":              func(a map[string]string) { delete(a, berthv1alpha1.RevisionAnnotation) },
		"a revision of no number":  func(a map[string]string) { a[berthv1alpha1.RevisionAnnotation] = "x" },
		"an annotation of another": func(a map[string]string) { a["example.com/x"] = "y" },
	}
	for name, forge := range forge {
		for when, restarts := range map[string]bool{"while a controller runs": false, "while none runs": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				f := newFleetAtRest(t, true, nil, nil)
				f.store(fixture.Placement("ns", "p").Number(2).Obj())
				f.run(20)
				lowered := "partitions: [{name: default, queues: [{name: team, resources: {max: {clusters: 1}}}, {name: other}], placementrules: [{name: fixed, value: root.team}]}]"
				lower := func() {
					if _, err := f.queues.Configure(&corev1.ConfigMap{Data: map[string]string{admission.QueuesKey: lowered}}); err != nil {
						t.Fatal(err)
					}
				}
				lower()
				f.run(20)
				published := f.page("p-decision-1")
				forged := published.DeepCopy()
				forge(forged.Annotations)
				f.record(published)
				forged.ResourceVersion = "100000"
				f.pages.pages[inventory.Key{Namespace: "ns", Name: forged.Name}] = forged
				if restarts {
					f.start()
					lower()
				} else {
					f.update(forged)
				}
				f.run(20)
				got := f.page("p-decision-1")
				if diff := cmp.Diff(published.Status.Decisions, got.Status.Decisions); diff != "" {
					t.Errorf("decisions (-published +got):\n%s", diff)
				}
				want := maps.Clone(published.Annotations)
				if restarts && forged.Annotations[berthv1alpha1.RevisionAnnotation] != want[berthv1alpha1.RevisionAnnotation] {
					return // After a start it is not known which revision Berth wrote.
				}
				if value := forged.Annotations["example.com/x"]; value != "" {
					want["example.com/x"] = value
				}
				if diff := cmp.Diff(want, got.Annotations); diff != "" {
					t.Errorf("annotations (-published +got):\n%s", diff)
				}
			})
		}
	}
}

// page returns a page as it is on the hub.
func (f *fleetAtRest) page(name string) *v1alpha1.PlacementDecision {
	f.t.Helper()
	page := f.pages.pages[inventory.Key{Namespace: "ns", Name: name}]
	if page == nil {
		f.t.Fatal(fmt.Sprint("there is no page ", name))
	}
	return page
}

// record writes the record of the change that published the only page of p.
func (f *fleetAtRest) record(page *v1alpha1.PlacementDecision) {
	names, _ := framework.Listed([]*v1alpha1.PlacementDecision{page})
	change := changes.NewChange(nil, names)
	change.Queue = page.Annotations[v1alpha1.QueueAnnotation]
	record := changes.NewRecord(f.inv.Placement(inventory.Key{Namespace: "ns", Name: "p"}), 0, 1, change)
	record.UID, record.ResourceVersion, record.Status.Phase = types.UID(record.Name), "1", berthv1alpha1.PhasePublished
	f.records[record.Name] = record
}
