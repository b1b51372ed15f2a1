package changes

import (
	"errors"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// TestNewest: the last record of a phase, in the order of the history.
func TestNewest(t *testing.T) {
	of := func(revision int64, phase berthv1alpha1.ChangePhase) *berthv1alpha1.PlacementChange {
		r := &berthv1alpha1.PlacementChange{}
		r.Spec.Revision, r.Status.Phase = revision, phase
		return r
	}
	published, held := berthv1alpha1.PhasePublished, berthv1alpha1.PhaseHeld
	h := History{of(1, published), of(2, held), of(3, published), of(4, held)}
	for phase, want := range map[berthv1alpha1.ChangePhase]int64{published: 3, held: 4} {
		if got := h.Newest(phase); got == nil || got.Spec.Revision != want {
			t.Errorf("%s: got %v, want %d", phase, got, want)
		}
	}
	if got := h.Newest(berthv1alpha1.PhaseExpired); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestMergedRecord: a record covers more than one revision only if the first differs from the last.
func TestMergedRecord(t *testing.T) {
	for first, want := range map[int64]int64{0: 0, 5: 5, 7: 0} {
		record := NewRecord(placement("uid"), first, 7, NewChange(nil, []string{"a"}))
		if record.Spec.FirstRevision != want || record.Spec.Revision != 7 {
			t.Errorf("from %d: %+v", first, record.Spec)
		}
	}
}

// TestBeforeRefuses: what is before a record that is incomplete, or whose digest is another, is not
// known.
func TestBeforeRefuses(t *testing.T) {
	record := NewRecord(placement("uid"), 0, 1, NewChange([]string{"a"}, []string{"b"}))
	if got, err := Before(record, []string{"b", "c"}); err == nil || got != nil {
		t.Errorf("other clusters: %v, %v", got, err)
	}
	record.Spec.Truncated = true
	if got, err := Before(record, []string{"b"}); !errors.Is(err, ErrIncomplete) || got != nil {
		t.Errorf("incomplete: %v, %v", got, err)
	}
}

// TestDeltaIsCutShort: a delta that ends in the middle, or has no header.
func TestDeltaIsCutShort(t *testing.T) {
	whole := compress(delta{Added: someNames("c", 100), Removed: []string{"d"}, Returned: []string{"e"}})
	d, err := decompress(whole)
	if err != nil || len(d.Added) != 100 || len(d.Removed) != 1 || len(d.Returned) != 1 {
		t.Errorf("whole: %d added, %d removed, %d returned, %v", len(d.Added), len(d.Removed), len(d.Returned), err)
	}
	for _, n := range []int{0, 5, len(whole) / 2, len(whole) - 1} {
		if d, err := decompress(whole[:n]); err == nil || d.Added != nil || d.Removed != nil || d.Returned != nil {
			t.Errorf("%d bytes: %v, %v", n, d, err)
		}
	}
}
