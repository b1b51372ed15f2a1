package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// changeReader reads every write of pages and records of a namespace, whose Placements have one
// page each.
type changeReader struct {
	mu sync.Mutex
	// steps are the published sets of each Placement, in order, without writes that change none.
	steps map[string][]step
	// records has the last state of every record that ever existed.
	records map[types.UID]*berthv1alpha1.PlacementChange
	deleted map[types.UID]bool
	ended   []string
}

// step is a published set, and the revision of its change.
type step struct {
	revision int64
	clusters []string
}

// watchChanges starts a reader of a namespace that is still empty.
func watchChanges(ctx context.Context, namespace string) *changeReader {
	GinkgoHelper()
	r := &changeReader{
		steps: map[string][]step{}, records: map[types.UID]*berthv1alpha1.PlacementChange{}, deleted: map[types.UID]bool{},
	}
	follow := func(list client.ObjectList, read func(watch.EventType, any)) {
		events, err := hub.Watch(ctx, list, client.InNamespace(namespace))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(events.Stop)
		go func() {
			for event := range events.ResultChan() {
				r.mu.Lock()
				read(event.Type, event.Object)
				r.mu.Unlock()
			}
			r.mu.Lock()
			r.ended = append(r.ended, fmt.Sprintf("the watch of %T has ended", list))
			r.mu.Unlock()
		}()
	}
	follow(&v1alpha1.PlacementDecisionList{}, r.readPage)
	follow(&berthv1alpha1.PlacementChangeList{}, r.readRecord)
	return r
}

func (r *changeReader) readPage(event watch.EventType, object any) {
	page, ok := object.(*v1alpha1.PlacementDecision)
	if !ok {
		r.ended = append(r.ended, fmt.Sprintf("the watch of pages sent %s", event))
		return
	}
	s := step{clusters: []string{}}
	s.revision, _ = strconv.ParseInt(page.Annotations[berthv1alpha1.RevisionAnnotation], 10, 64)
	for _, d := range page.Status.Decisions {
		s.clusters = append(s.clusters, d.ClusterName)
	}
	if event == watch.Deleted {
		s.clusters = []string{}
	}
	slices.Sort(s.clusters)
	placement := page.Labels[v1alpha1.PlacementLabel]
	if !slices.Equal(last(r.steps[placement]).clusters, s.clusters) {
		r.steps[placement] = append(r.steps[placement], s)
	}
}

// last returns the last published set; nothing was published before the first.
func last(steps []step) step {
	if len(steps) == 0 {
		return step{clusters: []string{}}
	}
	return steps[len(steps)-1]
}

func (r *changeReader) readRecord(event watch.EventType, object any) {
	record, ok := object.(*berthv1alpha1.PlacementChange)
	if !ok {
		r.ended = append(r.ended, fmt.Sprintf("the watch of records sent %s", event))
		return
	}
	r.records[record.UID] = record
	r.deleted[record.UID] = event == watch.Deleted
}

// caughtUp reports how the last events differ from what the hub lists now.
func (r *changeReader) caughtUp(ctx context.Context, namespace, placement string) (string, error) {
	names, err := answer(ctx, namespace, placement)
	if err != nil {
		return "", err
	}
	list := &berthv1alpha1.PlacementChangeList{}
	if err := hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list.Items {
		known := r.records[list.Items[i].UID]
		if known == nil || known.ResourceVersion != list.Items[i].ResourceVersion {
			return "the last state of " + list.Items[i].Name, nil
		}
	}
	if !slices.Equal(last(r.steps[placement]).clusters, names) {
		return "the page of " + placement, nil
	}
	return "", nil
}

// history returns all records of a Placement that ever existed, by revision, without those that
// were deleted before they had a status.
func (r *changeReader) history(placement string) changes.History {
	var history changes.History
	for _, record := range r.records {
		if record.Spec.Placement == placement && (!r.deleted[record.UID] || record.Status.Phase != "") {
			history = append(history, record)
		}
	}
	slices.SortFunc(history, func(a, b *berthv1alpha1.PlacementChange) int { return int(a.Spec.Revision - b.Spec.Revision) })
	return history
}

// covers reports whether a record is about a revision.
func covers(record *berthv1alpha1.PlacementChange, revision int64) bool {
	first := record.Spec.FirstRevision
	if first == 0 {
		first = record.Spec.Revision
	}
	return first <= revision && revision <= record.Spec.Revision
}

// written is what a reader knows about one Placement at the end.
type written struct {
	steps, revisions, records, merged, inParts, rejected int
	// gaps are the revisions before which records are missing; lost are the published revisions
	// without a record.
	gaps, lost []int64
	// fewest is the least that was listed since wanted clusters were listed first.
	fewest, most int
	problems     []string
}

// String returns the figures for reports.
func (w written) String() string {
	return fmt.Sprintf("%d steps of %d published revisions in %d records (%d merged, %d in part, %d rejected), %d without a record in %d gaps; from %d to %d listed",
		w.steps, w.revisions, w.records, w.merged, w.inParts, w.rejected, len(w.lost), len(w.gaps), w.fewest, w.most)
}

// check compares everything that was published of a Placement with its records.
func (r *changeReader) check(placement string, wanted int, approvals bool) written {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps, history := r.steps[placement], r.history(placement)
	w := written{steps: len(steps), records: len(history), gaps: history.Gaps(), problems: slices.Clone(r.ended), fewest: wanted}
	problem := func(format string, args ...any) {
		w.problems = append(w.problems, placement+": "+fmt.Sprintf(format, args...))
	}
	reached := false
	published := map[int64]bool{}
	for i, s := range steps {
		reached = reached || len(s.clusters) >= wanted
		if reached {
			w.fewest, w.most = min(w.fewest, len(s.clusters)), max(w.most, len(s.clusters))
		}
		if i > 0 && s.revision < steps[i-1].revision {
			problem("revision %d was published after %d", s.revision, steps[i-1].revision)
		}
		published[s.revision] = true
	}
	w.revisions = len(published)
	for _, revision := range slices.Sorted(maps.Keys(published)) {
		var about []string
		for _, record := range history {
			if covers(record, revision) {
				about = append(about, record.Name)
				if approvals && (record.Spec.Approval == nil || record.Spec.Approval.Decision != berthv1alpha1.Approved) {
					problem("revision %d was published without an approval", revision)
				}
			}
		}
		switch {
		case len(about) > 1:
			problem("revision %d is in %d records: %v", revision, len(about), about)
		case len(about) == 0:
			w.lost = append(w.lost, revision)
			if !visible(history, w.gaps, revision) {
				problem("revision %d is in no record and in no gap", revision)
			}
		}
	}
	for _, record := range history {
		r.checkRecord(record, steps, &w, problem)
	}
	return w
}

// visible reports whether history shows a gap before the first record after a revision, or begins
// with that record.
func visible(history changes.History, gaps []int64, revision int64) bool {
	for i, record := range history {
		if record.Spec.Revision > revision {
			return i == 0 || slices.Contains(gaps, record.Spec.Revision)
		}
	}
	return false
}

// checkRecord compares a record with the published steps of its revisions.
func (r *changeReader) checkRecord(record *berthv1alpha1.PlacementChange, steps []step, w *written, problem func(string, ...any)) {
	first := slices.IndexFunc(steps, func(s step) bool { return covers(record, s.revision) })
	rejected := record.Spec.Approval != nil && record.Spec.Approval.Decision == berthv1alpha1.Rejected
	if rejected {
		w.rejected++
	}
	if record.Spec.FirstRevision > 0 {
		w.merged++
	}
	if first < 0 {
		if record.Status.Phase == berthv1alpha1.PhasePublished {
			problem("%s is Published, but was not", record.Name)
		}
		return
	}
	before, end := last(steps[:first]).clusters, first
	for end < len(steps) && covers(record, steps[end].revision) {
		end++
	}
	after := steps[end-1].clusters
	switch {
	case rejected:
		problem("%s was rejected, and published", record.Name)
	case berthv1alpha1.Digest(before) != record.Spec.From:
		problem("%s begins with other clusters than %v", record.Name, before)
	case record.Status.Phase == berthv1alpha1.PhasePublished && berthv1alpha1.Digest(after) != record.Spec.To:
		problem("%s ends with other clusters than %v", record.Name, after)
	case record.Status.Phase == berthv1alpha1.PhaseSuperseded:
		w.inParts++
		added, removed, err := changes.Lists(record)
		left := berthv1alpha1.RemainingClusters{
			Added: int32(len(changes.Minus(added, after))), Removed: int32(len(removed) - len(changes.Minus(removed, after))),
		}
		if err != nil || record.Status.Remaining == nil || *record.Status.Remaining != left {
			problem("%s was published in part: %v remain, but status.remaining is %v (%v)", record.Name, left, record.Status.Remaining, err)
		}
	case record.Status.Phase != berthv1alpha1.PhasePublished:
		problem("%s was published, but its phase is %q", record.Name, record.Status.Phase)
	}
	added, removed, err := changes.Lists(record)
	for i := first; i < end && err == nil && record.Spec.FirstRevision == 0; i++ {
		joined, gone := changes.Between(last(steps[:i]).clusters, steps[i].clusters)
		if other := slices.Concat(changes.Minus(joined, added), changes.Minus(gone, removed)); len(other) > 0 {
			problem("%s does not list %v, which a step changed", record.Name, other)
		}
	}
}
