package changes

import (
	"cmp"
	"slices"
	"strconv"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// History lists the records of one Placement, by revision.
type History []*berthv1alpha1.PlacementChange

// HistoryOf returns the records that the Placement's UID controls. Names and labels do not matter.
// A Placement without a UID, as in files, is identified by its name.
func HistoryOf(pl *v1alpha1.Placement, records []*berthv1alpha1.PlacementChange) History {
	var own History
	for _, record := range records {
		if record.Namespace == pl.Namespace && pl.Controls(record) {
			own = append(own, record)
		}
	}
	slices.SortFunc(own, func(a, b *berthv1alpha1.PlacementChange) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	return own
}

// Last returns the highest revision; 0 without records.
func (h History) Last() int64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].Spec.Revision
}

// maxRevisionsAhead limits how far the revision on a page may be ahead of the records, because
// users can edit pages.
const maxRevisionsAhead = 1_000_000

// PageRevision returns the highest revision on pages; 0 if there is none. It ignores invalid
// annotations and revisions more than 1,000,000 ahead of the records.
func (h History) PageRevision(pages []*v1alpha1.PlacementDecision) int64 {
	var highest int64
	for _, page := range pages {
		n, err := strconv.ParseInt(page.Annotations[berthv1alpha1.RevisionAnnotation], 10, 64)
		if err == nil && n <= h.Last()+maxRevisionsAhead {
			highest = max(highest, n)
		}
	}
	return highest
}

// Newest returns the newest record of a phase; nil if there is none.
func (h History) Newest(phase berthv1alpha1.ChangePhase) *berthv1alpha1.PlacementChange {
	for _, record := range slices.Backward(h) {
		if record.Status.Phase == phase {
			return record
		}
	}
	return nil
}

// IsOpen reports whether a record is Held or Progressing, or has no status because its writer
// stopped after creating it.
func IsOpen(record *berthv1alpha1.PlacementChange) bool {
	switch record.Status.Phase {
	case "", berthv1alpha1.PhaseHeld, berthv1alpha1.PhaseProgressing:
		return true
	}
	return false
}

// IsPermitted reports whether a change was permitted, so that it may be published; false without a
// record.
func IsPermitted(record *berthv1alpha1.PlacementChange) bool {
	return record != nil && record.Status.PermittedTime != nil
}

// OnlyForced reports whether a record only removes clusters that the Placement could not keep.
func OnlyForced(record *berthv1alpha1.PlacementChange) bool {
	return record.Spec.AddedCount == 0 && record.Spec.RemovedCount > 0 && len(ForcedOf(record)) == int(record.Spec.RemovedCount)
}

// Open returns the newest open record; nil if there is none. Older open ones were left by a crash
// and will be superseded.
func (h History) Open() *berthv1alpha1.PlacementChange {
	for _, record := range slices.Backward(h) {
		if IsOpen(record) {
			return record
		}
	}
	return nil
}

// Ended returns the newest Rejected or Expired record of the same change: the same sets and the
// same generation of the Placement; nil if there is none. An approval opens it again.
func (h History) Ended(c *Change) *berthv1alpha1.PlacementChange {
	for _, record := range slices.Backward(h) {
		if endedUnpublished(record) && record.Spec.From == c.From && record.Spec.To == c.To && record.Spec.PlacementGeneration == c.Generation {
			return record
		}
	}
	return nil
}

// Applies reports whether a Rejected or Expired record can still be approved: it begins at the
// published clusters and is of the present generation of the Placement.
func (h History) Applies(publishedDigest string, generation int64) bool {
	return slices.ContainsFunc(h, func(record *berthv1alpha1.PlacementChange) bool {
		return applies(record, publishedDigest, generation)
	})
}

func applies(record *berthv1alpha1.PlacementChange, publishedDigest string, generation int64) bool {
	return endedUnpublished(record) && record.Spec.From == publishedDigest && record.Spec.PlacementGeneration == generation
}

func endedUnpublished(record *berthv1alpha1.PlacementChange) bool {
	return record.Status.Phase == berthv1alpha1.PhaseRejected || record.Status.Phase == berthv1alpha1.PhaseExpired
}

// Continues reports whether the open record belongs to this change: the same target, the same
// generation, and the same published clusters apart from its own steps. revision is that of the
// pages: a later one is of another change.
func Continues(record *berthv1alpha1.PlacementChange, c *Change, published []string, revision int64) bool {
	if record.Spec.To != c.To || record.Spec.PlacementGeneration != c.Generation || revision > record.Spec.Revision {
		return false
	}
	permitted := record.Status.Phase == berthv1alpha1.PhaseProgressing || IsPermitted(record)
	if record.Spec.From == c.From || !permitted {
		return record.Spec.From == c.From
	}
	_, errBefore := Before(record, published)
	_, errTarget := Target(record, published)
	return errBefore == nil && errTarget == nil
}

// Gaps returns the revisions before which records are missing, because a crash lost them or they
// were deleted. Records before the oldest one are not considered.
func (h History) Gaps() []int64 {
	var gaps []int64
	published := "" // the digest that the next record starts from; unknown if empty
	for i, record := range h {
		if i > 0 && (firstRevision(record) != h[i-1].Spec.Revision+1 || published != "" && record.Spec.From != published) {
			gaps = append(gaps, record.Spec.Revision)
		}
		switch {
		case record.Status.Phase == berthv1alpha1.PhasePublished:
			published = record.Spec.To
		case IsPermitted(record):
			// It may have been published in part.
			published = ""
		default:
			published = record.Spec.From
		}
	}
	return gaps
}

func firstRevision(record *berthv1alpha1.PlacementChange) int64 {
	return cmp.Or(record.Spec.FirstRevision, record.Spec.Revision)
}

// RemovedInPart returns how many clusters a Superseded record removed: it was published in part.
func RemovedInPart(record *berthv1alpha1.PlacementChange) int {
	status := &record.Status
	if status.Phase != berthv1alpha1.PhaseSuperseded || status.PermittedTime == nil || status.Remaining == nil {
		return 0
	}
	return int(record.Spec.RemovedCount - status.Remaining.Removed)
}
