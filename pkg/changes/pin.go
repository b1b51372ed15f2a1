package changes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// PinnedRevision returns the revision to which a Placement is pinned; 0 if it is not pinned. It
// returns an error if the annotation is not a positive number.
func PinnedRevision(pl *v1alpha1.Placement) (int64, error) {
	text, pinned := pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation]
	if !pinned {
		return 0, nil
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 1 {
		return 0, errors.New("must be the number of a revision, such as \"16\"")
	}
	return revision, nil
}

// At returns the clusters that were published after a revision, sorted, given those that are
// published now. The error says why they cannot be computed.
func (h History) At(revision int64, published []string) ([]string, error) {
	i := slices.IndexFunc(h, func(record *berthv1alpha1.PlacementChange) bool { return record.Spec.Revision == revision })
	if i < 0 {
		for _, record := range h {
			if firstRevision(record) <= revision && revision < record.Spec.Revision {
				return nil, fmt.Errorf("one record covers the revisions %d to %d", firstRevision(record), record.Spec.Revision)
			}
		}
		return nil, errors.New("it has no record")
	}
	switch phase := h[i].Status.Phase; phase {
	case berthv1alpha1.PhasePublished:
	case "":
		return nil, errors.New("it is not published yet")
	default:
		return nil, fmt.Errorf("it is %s, not %s", phase, berthv1alpha1.PhasePublished)
	}
	back := newBackwards(published)
	for _, record := range slices.Backward(h[i+1:]) {
		back.undo(record)
	}
	return back.after(h[i])
}

// Computable returns the revisions whose clusters At can compute, newest first.
func (h History) Computable(published []string) []int64 {
	var revisions []int64
	back := newBackwards(published)
	for _, record := range slices.Backward(h) {
		if record.Status.Phase == berthv1alpha1.PhasePublished {
			if _, err := back.after(record); err == nil {
				revisions = append(revisions, record.Spec.Revision)
			}
		}
		back.undo(record)
	}
	return revisions
}

// backwards computes what was published before records, from the newest one on.
type backwards struct {
	published []string
	digest    string
	// set has the clusters before the last undone record; err is why they are not known.
	set map[string]bool
	err error
}

func newBackwards(published []string) *backwards {
	b := &backwards{published: published, digest: berthv1alpha1.Digest(published), set: make(map[string]bool, len(published))}
	for _, name := range published {
		b.set[name] = true
	}
	return b
}

// undo goes back before a record.
func (b *backwards) undo(record *berthv1alpha1.PlacementChange) {
	if b.err == nil {
		b.err = undo(record, b.set)
	}
}

// after returns the clusters after a Published record, sorted. All later records are undone.
func (b *backwards) after(record *berthv1alpha1.PlacementChange) ([]string, error) {
	if record.Spec.To == b.digest {
		return Sorted(b.published), nil
	}
	if b.err != nil {
		return nil, b.err
	}
	names := slices.Sorted(maps.Keys(b.set))
	if berthv1alpha1.Digest(names) != record.Spec.To {
		return nil, errors.New("records of later changes are missing")
	}
	return names, nil
}

// undo removes from a set what a record added, and adds what it removed, whether all of it was
// published or only a part.
func undo(record *berthv1alpha1.PlacementChange, set map[string]bool) error {
	if !mayBePublished(record) {
		return nil
	}
	added, removed, err := Lists(record)
	if err != nil {
		return err
	}
	for _, name := range added {
		delete(set, name)
	}
	for _, name := range removed {
		set[name] = true
	}
	return nil
}

// mayBePublished is true for a record whose change may have been published, at least in part.
func mayBePublished(record *berthv1alpha1.PlacementChange) bool {
	switch record.Status.Phase {
	case "", berthv1alpha1.PhaseProgressing, berthv1alpha1.PhasePublished:
		return true
	}
	return IsPermitted(record)
}

// maxListedRevisions is how many revisions a message lists.
const maxListedRevisions = 20

// RevisionList is a text that lists revisions.
func RevisionList(revisions []int64) string {
	if len(revisions) == 0 {
		return "none"
	}
	texts := make([]string, 0, maxListedRevisions)
	for _, revision := range revisions[:min(len(revisions), maxListedRevisions)] {
		texts = append(texts, strconv.FormatInt(revision, 10))
	}
	if more := len(revisions) - maxListedRevisions; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}
