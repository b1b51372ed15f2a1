package changes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

// stored is a Published record as the API server returns it.
func stored(t *testing.T, before, after []string) *berthv1alpha1.PlacementChange {
	t.Helper()
	pl := fixture.Placement("n", "p").Obj()
	pl.UID = "5a0c9a3e-7a64-4f5a-9a39-0d4a55a5f3a1"
	record := changes.NewRecord(pl, 2, 3, changes.NewChange(before, after))
	record.UID, record.ResourceVersion, record.Generation = types.UID("0e6f3e0b-32a7-4f7c-8f0b-6f6a1b8f2a10"), "4711", 2
	record.CreationTimestamp = metav1.NewTime(fixture.Now)
	record.Spec.Cause, record.Spec.Profile, record.Spec.Queue, record.Spec.PlacementGeneration, record.Spec.PublishedGeneration = "start", "default", `{"queue":"root.q"}`, 4, 3
	at := metav1.NewTime(fixture.Now.Truncate(time.Second))
	record.Status = berthv1alpha1.PlacementChangeStatus{
		Phase: berthv1alpha1.PhasePublished, StartTime: &at, PermittedTime: &at, LastProgressTime: &at, CompletionTime: &at, Message: "m",
	}
	return record
}

// TestPackRecord: a packed record keeps all that is read of an ended record. Others, and those that
// would lose something, are not packed.
func TestPackRecord(t *testing.T) {
	many := make([]string, 1500)
	for i := range many {
		many[i] = fmt.Sprintf("cluster-%04d", i)
	}
	for name, tc := range map[string]struct {
		before, after []string
		change        func(*berthv1alpha1.PlacementChange)
		wantWhole     bool
	}{
		"published":        {before: []string{"a", "b"}, after: []string{"b", "c", "d"}},
		"without clusters": {},
		"many clusters":    {after: many[:900]},
		"more than listed": {after: many},
		"the first change": {after: []string{"a"}, change: func(r *berthv1alpha1.PlacementChange) { r.Spec.FirstRevision = 0 }},
		"approved":         {after: []string{"a"}, change: func(r *berthv1alpha1.PlacementChange) { r.Spec.Approval = &berthv1alpha1.ChangeApproval{By: "ann"} }},
		"truncated":        {after: many, change: func(r *berthv1alpha1.PlacementChange) { r.Spec.Delta, r.Spec.Truncated = nil, true }},
		"merged": {before: []string{"a"}, change: func(r *berthv1alpha1.PlacementChange) {
			r.Spec.Edited, r.Spec.Returned, r.Spec.Removals = true, []string{"b"}, []berthv1alpha1.MergedRemoval{{Clusters: 1}}
		}},
		"many came back": {change: func(r *berthv1alpha1.PlacementChange) { r.Spec.Returned = many[:900] }},
		"published by others while it was disabled": {after: []string{"a"}, change: func(r *berthv1alpha1.PlacementChange) { r.Spec.Cause = changes.CauseDisabled }},
		"without times": {change: func(r *berthv1alpha1.PlacementChange) { r.Status.PermittedTime, r.Status.CompletionTime = nil, nil }},
		"superseded": {before: []string{"a"}, change: func(r *berthv1alpha1.PlacementChange) {
			r.Status.Phase, r.Status.Remaining = berthv1alpha1.PhaseSuperseded, &berthv1alpha1.RemainingClusters{Removed: 1}
		}},
		"another controller wrote it": {after: []string{"a"}, wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) {
			r.OwnerReferences[0].BlockOwnerDeletion = new(true)
		}},
		"no owner":       {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.OwnerReferences = nil }},
		"another name":   {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.Name = "other" }},
		"no UID":         {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.UID = "" }},
		"uppercase UID":  {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.UID = types.UID(strings.ToUpper(string(r.UID))) }},
		"no version":     {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.ResourceVersion = "" }},
		"a short digest": {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.Spec.To = "abc" }},
		"a long digest":  {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.Spec.From += "00" }},
		"a broken name":  {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.Spec.Added = []string{"a\nb"} }},
		"an empty name":  {change: func(r *berthv1alpha1.PlacementChange) { r.Spec.Added = []string{""} }},
		"half a second": {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) {
			r.Status.CompletionTime.Time = fixture.Now.Add(time.Second / 2)
		}},
		"held":             {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.Status.Phase = berthv1alpha1.PhaseHeld }},
		"without a status": {wantWhole: true, change: func(r *berthv1alpha1.PlacementChange) { r.Status = berthv1alpha1.PlacementChangeStatus{} }},
	} {
		t.Run(name, func(t *testing.T) {
			record := stored(t, tc.before, tc.after)
			if tc.change != nil {
				tc.change(record)
			}
			whole := record.DeepCopy()
			packed := changes.PackRecord(record)
			if (packed == nil) != tc.wantWhole {
				t.Fatalf("packed: %v", packed)
			}
			got := record
			if packed != nil {
				got = packed.Record()
				meta := packed.GetObjectMeta()
				if meta.GetNamespace() != whole.Namespace || meta.GetName() != whole.Name || meta.GetUID() != whole.UID || meta.GetResourceVersion() != whole.ResourceVersion {
					t.Errorf("metadata: %v", meta)
				}
			}
			added, removed, err := changes.Lists(got)
			wantAdded, wantRemoved, wantErr := changes.Lists(whole)
			if fmt.Sprint(added, removed, err) != fmt.Sprint(wantAdded, wantRemoved, wantErr) {
				t.Errorf("lists %v, %v, %v", added, removed, err)
			}
			joined, _ := changes.Joined(got)
			if wantJoined, _ := changes.Joined(whole); !slices.Equal(joined, wantJoined) {
				t.Errorf("joined %v", joined)
			}
			if changes.IsOpen(whole) || whole.Status.Phase == berthv1alpha1.PhaseHeld {
				if diff := cmp.Diff(whole, got); diff != "" {
					t.Errorf("an open record changed (-want +got):\n%s", diff)
				}
				return
			}
			// What nothing reads goes, and lists may be in the other form.
			for _, r := range []*berthv1alpha1.PlacementChange{whole, got} {
				r.Spec.Added, r.Spec.Removed, r.Spec.Returned, r.Spec.Delta = nil, nil, nil, nil
			}
			if whole.Labels, whole.CreationTimestamp, whole.Generation = nil, (metav1.Time{}), 0; whole.Spec.Cause != changes.CauseDisabled {
				whole.Spec.Cause = ""
			}
			whole.Status.LastProgressTime, whole.Status.Message = nil, ""
			if diff := cmp.Diff(whole, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPackedListsAreSmall: long lists are compressed.
func TestPackedListsAreSmall(t *testing.T) {
	added := make([]string, 900)
	for i := range added {
		added[i] = fmt.Sprintf("cluster-%04d", i)
	}
	got := changes.PackRecord(stored(t, nil, added)).Record()
	if len(got.Spec.Added) > 0 || len(got.Spec.Delta) == 0 || len(got.Spec.Delta) > 5000 {
		t.Errorf("%d names are kept beside %d bytes", len(got.Spec.Added), len(got.Spec.Delta))
	}
}
