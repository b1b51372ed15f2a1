package changes

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Change is the step from the published set to the selected set.
type Change struct {
	// From and To are the digests of both sets; Clusters is the size of the selected set.
	From, To string
	Clusters int
	// Added and Removed are the names that lead from one set to the other, sorted.
	Added, Removed []string
	// Forced are those of Removed that the Placement cannot keep, sorted.
	Forced []string
	// Cause is what triggered the attempt, in one line.
	Cause string
	// Generation and Profile are those of the Placement.
	Generation int64
	Profile    string
	// PublishedGeneration is the generation of the Placement for which the set before the change
	// was decided; 0 if unknown.
	PublishedGeneration int64
	// Queue is the text about the Placement's queue; empty without queues.
	Queue string
	// Incomplete is true if Added and Removed are not known.
	Incomplete bool
	// Edited is true if the change follows an edit of the Placement's spec or profile.
	Edited bool
	// Before is spec.before of the record, By spec.by and Comment spec.comment.
	Before, By, Comment string
	// Returned are the clusters that left and came back between merged changes, sorted. Removals
	// are those of each merged change, oldest first.
	Returned []string
	Removals []berthv1alpha1.MergedRemoval
}

// NewChange returns the change from the published to the selected clusters, without cause,
// generation and profile.
func NewChange(published, selected []string) Change {
	added, removed := Between(published, selected)
	return Change{From: berthv1alpha1.Digest(published), To: berthv1alpha1.Digest(selected), Clusters: len(Sorted(selected)), Added: added, Removed: removed}
}

// maxCause is the maximum length of a record's cause, by and comment, in bytes. The schema allows
// as many characters.
const maxCause = 1024

// Name returns the name of the record of a revision.
func Name(placement string, revision int64) string {
	return placement + "-" + strconv.FormatInt(revision, 10)
}

// AnswerCommand returns the command that approves or rejects a change by the name of its record, so
// that no other change of the Placement can get the answer.
func AnswerCommand(verb, namespace, name string) string {
	return fmt.Sprintf("kubectl placement %s placementchange/%s -n %s", verb, name, namespace)
}

// UndoCommand returns the command that undoes the newest edit of a Placement, also if its change is
// not published.
func UndoCommand(namespace, placement string) string {
	return fmt.Sprintf("kubectl placement undo %s -n %s", placement, namespace)
}

// NewRecord returns the record of a change, owned by its Placement and without status. A merged
// record covers the revisions from first to revision; otherwise first is 0.
func NewRecord(pl *v1alpha1.Placement, first, revision int64, c Change) *berthv1alpha1.PlacementChange {
	record := &berthv1alpha1.PlacementChange{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pl.Namespace, Name: Name(pl.Name, revision),
			Labels: map[string]string{v1alpha1.PlacementLabel: pl.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersionV1Beta1.String(), Kind: "Placement", Name: pl.Name, UID: pl.UID,
				Controller: new(true),
			}},
		},
		Spec: berthv1alpha1.PlacementChangeSpec{
			Placement: pl.Name, Revision: revision, FirstRevision: first,
			From: c.From, To: c.To, Clusters: int32(c.Clusters),
			AddedCount: int32(len(c.Added)), RemovedCount: int32(len(c.Removed)),
			Added: firstNames(c.Added), Removed: firstNames(c.Removed),
			Cause: oneLine(c.Cause), PlacementGeneration: c.Generation, PublishedGeneration: c.PublishedGeneration,
			Profile: c.Profile, Queue: c.Queue, Edited: c.Edited, Returned: firstNames(c.Returned), Forced: firstNames(c.Forced),
			Before: c.Before, By: oneLine(c.By), Comment: oneLine(c.Comment),
		},
	}
	if first == revision {
		record.Spec.FirstRevision = 0
	}
	if record.Spec.FirstRevision > 0 {
		record.Spec.Removals = c.Removals
	}
	record.Spec.Truncated = c.Incomplete
	if max(len(c.Added), len(c.Removed), len(c.Returned)) <= berthv1alpha1.MaxListedClusters {
		return record
	}
	// Without forced, the first ones are in spec.forced.
	for _, forced := range [][]string{c.Forced, nil} {
		if delta := compress(delta{c.Added, c.Removed, c.Returned, forced}); len(delta) <= berthv1alpha1.MaxDeltaBytes {
			record.Spec.Delta = delta
			return record
		}
	}
	record.Spec.Truncated = true
	return record
}

func firstNames(names []string) []string {
	return names[:min(len(names), berthv1alpha1.MaxListedClusters)]
}

// oneLine makes a text valid for spec.cause, spec.by and spec.comment: UTF-8, no control
// characters, at most maxCause bytes.
func oneLine(text string) string {
	return v1alpha1.CutText(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")), maxCause)
}

// maxUnpacked is how many names packLists does not compress.
const maxUnpacked = 64

// packLists keeps the lists of a record in the form that needs less memory. Lists reads both forms.
func packLists(record *berthv1alpha1.PlacementChange) {
	s := &record.Spec
	if len(s.Delta) == 0 && !s.Truncated {
		if len(s.Added)+len(s.Removed)+len(s.Returned) <= maxUnpacked {
			return
		}
		s.Delta = compress(delta{s.Added, s.Removed, s.Returned, s.Forced})
	}
	s.Added, s.Removed, s.Returned = nil, nil, nil
}

// ErrIncomplete is the error for a record that does not list all its clusters (spec.truncated).
var ErrIncomplete = errors.New("the record does not list all its clusters")

// Lists returns all names that the record adds and removes, sorted.
func Lists(record *berthv1alpha1.PlacementChange) (added, removed []string, err error) {
	d, err := lists(record)
	return d.Added, d.Removed, err
}

// RemainingOf returns how much of the change of a record is left while clusters are published,
// sorted by name; nil if the lists of the record cannot be read.
func RemainingOf(record *berthv1alpha1.PlacementChange, published []string) *berthv1alpha1.RemainingClusters {
	added, removed, err := Lists(record)
	if err != nil {
		return nil
	}
	return &berthv1alpha1.RemainingClusters{
		Added: int32(len(Minus(added, published))), Removed: int32(len(removed) - len(Minus(removed, published))),
	}
}

// Joined returns all names that the record adds, and those that left and came back, sorted.
func Joined(record *berthv1alpha1.PlacementChange) ([]string, error) {
	d, err := lists(record)
	if len(d.Returned) == 0 {
		return d.Added, err
	}
	return Sorted(slices.Concat(d.Added, d.Returned)), err
}

// ForcedOf returns the names that the record removes because the Placement could not keep them,
// sorted; of a record that does not list all its clusters, the first.
func ForcedOf(record *berthv1alpha1.PlacementChange) []string {
	if forced := record.Spec.Forced; len(forced) < berthv1alpha1.MaxListedClusters {
		return forced
	}
	if d, err := lists(record); err == nil && len(d.Forced) > 0 {
		return d.Forced
	}
	return record.Spec.Forced
}

func lists(record *berthv1alpha1.PlacementChange) (d delta, err error) {
	s := &record.Spec
	switch {
	case s.Truncated:
		return delta{}, fmt.Errorf("PlacementChange %s/%s: %w", record.Namespace, record.Name, ErrIncomplete)
	case len(s.Delta) > 0:
		if d, err = decompress(s.Delta); err != nil {
			return delta{}, fmt.Errorf("PlacementChange %s/%s: spec.delta: %w", record.Namespace, record.Name, err)
		}
	default:
		d = delta{s.Added, s.Removed, s.Returned, s.Forced}
	}
	if len(d.Added) != int(s.AddedCount) || len(d.Removed) != int(s.RemovedCount) {
		return delta{}, fmt.Errorf("PlacementChange %s/%s lists %d added and %d removed clusters, but spec.addedCount is %d and spec.removedCount %d",
			record.Namespace, record.Name, len(d.Added), len(d.Removed), s.AddedCount, s.RemovedCount)
	}
	return d, nil
}

// Target returns the set to which the record leads, given the clusters after any of its steps; an
// error if the record's lists and digests contradict each other.
func Target(record *berthv1alpha1.PlacementChange, published []string) ([]string, error) {
	added, removed, err := Lists(record)
	if err != nil {
		return nil, err
	}
	return verified(record, "to", record.Spec.To, apply(published, added, removed))
}

// Before returns the set from which the record starts, given the clusters after any of its steps.
func Before(record *berthv1alpha1.PlacementChange, published []string) ([]string, error) {
	added, removed, err := Lists(record)
	if err != nil {
		return nil, err
	}
	return verified(record, "from", record.Spec.From, apply(published, removed, added))
}

func verified(record *berthv1alpha1.PlacementChange, field, digest string, names []string) ([]string, error) {
	if berthv1alpha1.Digest(names) != digest {
		return nil, fmt.Errorf("PlacementChange %s/%s: its clusters do not have the digest in spec.%s", record.Namespace, record.Name, field)
	}
	return names, nil
}

// delta is the content of spec.delta.
type delta struct {
	Added    []string `json:"added"`
	Removed  []string `json:"removed"`
	Returned []string `json:"returned,omitempty"`
	Forced   []string `json:"forced,omitempty"`
}

// maxDelta is the maximum uncompressed size of spec.delta, in bytes: about a million names.
const maxDelta = 64 << 20

func compress(d delta) []byte {
	var out bytes.Buffer
	// Nothing here can fail: the level is known, and neither a buffer nor texts refuse anything.
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_ = json.NewEncoder(w).Encode(d)
	_ = w.Close()
	return out.Bytes()
}

func decompress(data []byte) (d delta, err error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return delta{}, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxDelta+1))
	if err != nil {
		return delta{}, err
	}
	if len(text) > maxDelta {
		return delta{}, fmt.Errorf("more than %d bytes uncompressed", maxDelta)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return delta{}, err
	}
	if !strictlySorted(d.Added) || !strictlySorted(d.Removed) || !strictlySorted(d.Returned) || !strictlySorted(d.Forced) {
		return delta{}, errors.New("the names are not sorted, or one is listed twice")
	}
	return d, nil
}

func strictlySorted(names []string) bool {
	return slices.IsSorted(names) && len(slices.Compact(slices.Clone(names))) == len(names)
}

// Merge returns one change for two consecutive ones: from the start of the first to the target of
// the second, with the cause, generation and profile of the second.
func Merge(first, second Change) Change {
	merged := second
	merged.From, merged.PublishedGeneration = first.From, first.PublishedGeneration
	merged.Before = mergeBefore(first, second)
	if second.By == "" {
		merged.By, merged.Comment = first.By, first.Comment
	}
	merged.Added = Sorted(slices.Concat(Minus(first.Added, second.Removed), Minus(second.Added, first.Removed)))
	merged.Removed = Sorted(slices.Concat(Minus(first.Removed, second.Added), Minus(second.Removed, first.Added)))
	merged.Forced = Both(merged.Removed, Sorted(slices.Concat(first.Forced, second.Forced)))
	back := Both(first.Removed, second.Added)
	merged.Returned = Sorted(slices.Concat(Minus(first.Returned, second.Removed), second.Returned, back))
	merged.Removals = addUp(slices.Concat(first.Removals, second.Removals))
	return merged
}

// maxMergedRemovals is the maximum length of spec.removals.
const maxMergedRemovals = 100

// addUp adds up the oldest removals, as if they were made at the time of the last of them, until at
// most maxMergedRemovals are left.
func addUp(removals []berthv1alpha1.MergedRemoval) []berthv1alpha1.MergedRemoval {
	for len(removals) > maxMergedRemovals {
		oldest := removals[0]
		removals = removals[1:]
		removals[0].Clusters += oldest.Clusters
		removals[0].Edited = removals[0].Edited && oldest.Edited
	}
	return removals
}

// ApprovalOf returns the answer that a record names: its own or, without one, the approval of an
// earlier record of the same change, which permitted it; nil if there is none.
func ApprovalOf(record *berthv1alpha1.PlacementChange) *berthv1alpha1.ChangeApproval {
	return cmp.Or(record.Spec.Approval, record.Status.Approval)
}
