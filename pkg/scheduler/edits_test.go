package scheduler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// editedRecord is what a record says of the edit that its change follows.
type editedRecord struct{ Phase, Cause, Before, By string }

func (d *desk) editedRecord() editedRecord {
	var record *berthv1alpha1.PlacementChange
	for _, r := range d.records {
		if record == nil || record.Spec.Revision < r.Spec.Revision {
			record = r
		}
	}
	return editedRecord{string(record.Status.Phase), record.Spec.Cause, record.Spec.Before, record.Spec.By}
}

// number edits numberOfClusters as a user.
func (d *desk) number(n int32, user string) {
	d.edit(func(pl *v1alpha1.Placement) {
		pl.Spec.NumberOfClusters = &n
		metav1.SetMetaDataAnnotation(&pl.ObjectMeta, berthv1alpha1.EditedByAnnotation, "2026-01-01T12:00:00Z "+user)
	})
}

// TestEditsInRecords: the record of a change that an edit of the Placement caused has the spec
// before, what changed, and who edited it.
func TestEditsInRecords(t *testing.T) {
	start := func(t *testing.T) *desk {
		d := newDesk(t, fixture.Placement("ns", "p").Generation(1).Number(3), "c1", "c2", "c3", "c4")
		d.inv.Started()
		d.attemptUntilStable()
		return d
	}
	for name, tc := range map[string]struct {
		do   func(d *desk)
		want editedRecord
	}{
		"an edit": {func(d *desk) { d.number(1, "ann smith") },
			editedRecord{"Published", "Placement: numberOfClusters: 3 → 1", `{"numberOfClusters":3}`, "ann smith"}},
		"another cause": {func(d *desk) {
			d.number(1, "ann")
			d.attemptUntilStable()
			d.remove("c1")
		}, editedRecord{"Published", "ManagedCluster c1: deleted", "", ""}},
		"an edit without effect before it": {func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: "x", Operator: "Exists"}}
			})
			d.attemptUntilStable()
			d.number(1, "ann")
		}, editedRecord{"Published", "Placement: numberOfClusters: 3 → 1", `{"numberOfClusters":3}`, "ann"}},
		"two edits before an attempt": {func(d *desk) {
			d.number(2, "ann")
			d.number(1, "bob")
		}, editedRecord{"Published", "Placement: numberOfClusters: 3 → 1", `{"numberOfClusters":3}`, "bob"}},
		"two edits while it is held": {func(d *desk) {
			d.require()
			d.number(2, "ann")
			d.attemptUntilStable()
			d.number(1, "bob")
		}, editedRecord{"Held", "Placement: numberOfClusters: 3 → 1", `{"numberOfClusters":3}`, "bob"}},
		"a restart while it is held": {func(d *desk) {
			d.require()
			d.number(1, "ann")
			d.attemptUntilStable()
			d.restart()
			d.inv.Started()
			d.attemptUntilStable()
			d.remove("c1")
		}, editedRecord{"Held", "ManagedCluster c1: deleted; Placement: numberOfClusters: 3 → 1", `{"numberOfClusters":3}`, "ann"}},
		"an edit soon after a restart": {func(d *desk) {
			d.restart()
			d.number(1, "ann")
		}, editedRecord{"Published", "Placement: numberOfClusters: 3 → 1", `{"numberOfClusters":3}`, "ann"}},
		"an edit while no controller runs": {func(d *desk) {
			one := int32(1)
			d.placement.Spec.NumberOfClusters, d.placement.Generation = &one, 2
			d.restart()
		}, editedRecord{"Published", "start", "", ""}},
		"the field manager without an annotation": {func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				*pl.Spec.NumberOfClusters = 1
				pl.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "argocd"}}
			})
		}, editedRecord{"Published", "Placement: numberOfClusters: 3 → 1", `{"numberOfClusters":3}`, "field manager argocd"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			tc.do(d)
			d.attemptUntilStable()
			if diff := cmp.Diff(tc.want, d.editedRecord()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
