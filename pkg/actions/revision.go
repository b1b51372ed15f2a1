package actions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// undo prepares Undo: the spec for which the clusters of a revision were decided.
func (p *Prepared) undo(ctx context.Context, hub client.Client) error {
	pl, history, err := p.readRevisions(ctx, hub)
	if err != nil {
		return err
	}
	if revision := pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation]; revision != "" {
		return fmt.Errorf("nothing was undone: Placement %s is pinned to revision %s, and a pin does not depend on the spec; end it with unpin", p.Placement, revision)
	}
	if p.Revision == 0 {
		if p.Revision, err = revisionToUndo(history, pl, p.published); err != nil {
			return fmt.Errorf("nothing to undo: %w", err)
		}
	}
	if err := p.findWanted(history); err != nil {
		return err
	}
	spec, err := history.SpecAt(p.Revision, &pl.Spec)
	if err != nil {
		return fmt.Errorf("nothing was undone: %w", err)
	}
	edit, err := changes.EditOf(&pl.Spec, spec)
	if err != nil {
		return err
	}
	if len(edit.Lines) == 0 {
		return fmt.Errorf("nothing to undo: the spec of Placement %s is that of revision %d already; pin keeps the clusters of a revision", p.Placement, p.Revision)
	}
	changed := pl.DeepCopy()
	changed.Spec = *spec
	p.SpecChanges, p.number = edit.Lines, spec.NumberOfClusters
	p.Question = fmt.Sprintf("Restore the spec of Placement %s from revision %d?", p.Placement, p.Revision)
	p.change(hub, pl, changed, fmt.Sprintf("has the spec of revision %d", p.Revision))
	return nil
}

// pin prepares Pin.
func (p *Prepared) pin(ctx context.Context, hub client.Client) error {
	pl, history, err := p.readRevisions(ctx, hub)
	if err != nil {
		return err
	}
	if p.Revision == 0 {
		if p.Revision = publishedRevision(history, p.published); p.Revision == 0 {
			return fmt.Errorf("nothing to pin: no revision of Placement %s has the published clusters; name one with --revision", p.Placement)
		}
	}
	if err := p.findWanted(history); err != nil {
		return err
	}
	if len(p.wanted) == 0 {
		return fmt.Errorf("nothing was pinned: revision %d of Placement %s has no clusters", p.Revision, p.Placement)
	}
	changed := pl.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[berthv1alpha1.PinnedRevisionAnnotation] = strconv.FormatInt(p.Revision, 10)
	p.number = pl.Spec.NumberOfClusters
	p.Question = fmt.Sprintf("Pin Placement %s to revision %d?", p.Placement, p.Revision)
	p.change(hub, pl, changed, fmt.Sprintf("pinned to revision %d", p.Revision))
	return nil
}

// unpin prepares Unpin.
func (p *Prepared) unpin(ctx context.Context, hub client.Client) error {
	pl, err := ReadPlacement(ctx, hub, p.Placement)
	if err != nil {
		return err
	}
	if _, pinned := pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation]; !pinned {
		return fmt.Errorf("nothing to unpin: Placement %s is not pinned", p.Placement)
	}
	changed := pl.DeepCopy()
	delete(changed.Annotations, berthv1alpha1.PinnedRevisionAnnotation)
	p.Question = fmt.Sprintf("Unpin Placement %s?", p.Placement)
	p.change(hub, pl, changed, "unpinned")
	return nil
}

// readRevisions reads a Placement, its published clusters and its records.
func (p *Prepared) readRevisions(ctx context.Context, hub client.Client) (*v1alpha1.Placement, changes.History, error) {
	pl, history, err := ReadHistory(ctx, hub, p.Placement)
	if err != nil {
		return nil, nil, err
	}
	p.published, err = publishedClusters(ctx, hub, pl)
	p.published = changes.Sorted(p.published)
	p.least = len(p.published)
	if open := history.Open(); open != nil && open.Status.Phase == berthv1alpha1.PhaseProgressing {
		// It may publish more than before and after it.
		p.least = min(p.least, int(open.Spec.Clusters+max(0, open.Spec.RemovedCount-open.Spec.AddedCount)))
	}
	return pl, history, err
}

// findWanted sets wanted. The clusters of the revision must be known.
func (p *Prepared) findWanted(history changes.History) (err error) {
	if p.wanted, err = history.At(p.Revision, p.published); err != nil {
		return fmt.Errorf("the clusters of revision %d of Placement %s are not known: %w; possible revisions are %s",
			p.Revision, p.Placement, err, changes.RevisionList(history.Computable(p.published)))
	}
	return nil
}

// writeTries is how often a write is tried if the status of the Placement changes meanwhile.
const writeTries = 5

// change sets what is written. If the Placement was edited since it was read, nothing is written.
func (p *Prepared) change(hub client.Client, read, changed *v1alpha1.Placement, done string) {
	p.addComment(changed)
	p.Object = changed
	p.Declined = fmt.Sprintf("Placement %s was not changed", p.Placement)
	p.Done = fmt.Sprintf("placement.%s/%s %s", v1alpha1.GroupName, read.Name, done)
	p.write = func(ctx context.Context) (client.Object, error) {
		var err error
		for range writeTries {
			var now *v1alpha1.Placement
			now, err = ReadPlacement(ctx, hub, p.Placement)
			if err != nil {
				return nil, err
			}
			if now.UID != read.UID || !equality.Semantic.DeepEqual(now.Spec, read.Spec) || !equality.Semantic.DeepEqual(now.Annotations, read.Annotations) {
				return nil, fmt.Errorf("nothing was written: Placement %s was edited meanwhile; look again", p.Placement)
			}
			written := now.DeepCopy()
			written.Spec, written.Annotations = changed.Spec, changed.Annotations
			err = hub.Patch(ctx, written, client.MergeFromWithOptions(now, client.MergeFromWithOptimisticLock{}))
			if err == nil {
				return written, nil
			}
			if !apierrors.IsConflict(err) {
				break
			}
			// Perhaps only the status changed.
		}
		return nil, fmt.Errorf("writing Placement %s: %w", p.Placement, err)
	}
}

// ToUndo returns the revision to which Undo returns by itself; 0 if there is none.
func ToUndo(pl *v1alpha1.Placement, history changes.History, published []string) int64 {
	revision, err := revisionToUndo(history, pl, published)
	if err != nil {
		return 0
	}
	return revision
}

// revisionToUndo returns the revision that was published before the newest edit of the spec. It
// must have clusters.
func revisionToUndo(history changes.History, pl *v1alpha1.Placement, published []string) (int64, error) {
	key, edit := client.ObjectKeyFromObject(pl), history.Undoable(pl.Generation)
	if edit == nil {
		return 0, fmt.Errorf("no change of Placement %s follows an edit of its spec; pin keeps the clusters of a revision", key)
	}
	before, computable := history.BeforeEdit(edit), history.Computable(published)
	switch {
	case before == nil && len(computable) == 0:
		return 0, fmt.Errorf("no revision of Placement %s before the edit (%s) is recorded", key, edit.Spec.Cause)
	case before == nil:
		return 0, fmt.Errorf("no revision of Placement %s was published between the last two edits; name a revision: %s", key, changes.RevisionList(computable))
	case before.Spec.Clusters == 0:
		return 0, fmt.Errorf("revision %d of Placement %s, before the edit (%s), has no clusters; name another revision: %s",
			before.Spec.Revision, key, edit.Spec.Cause, changes.RevisionList(computable))
	case !slices.Contains(computable, before.Spec.Revision):
		return 0, fmt.Errorf("the record of Placement %s before revision %d is missing; name a revision: %s",
			key, edit.Spec.Revision, changes.RevisionList(computable))
	}
	return before.Spec.Revision, nil
}

// RevisionToPin returns the newest Published revision with the published clusters; 0 if there is
// none, it cannot be read, or the Placement is pinned already.
func RevisionToPin(ctx context.Context, hub client.Client, key client.ObjectKey) int64 {
	p := Prepared{Request: Request{Placement: key}}
	pl, history, err := p.readRevisions(ctx, hub)
	if err != nil || pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation] != "" {
		return 0
	}
	return publishedRevision(history, p.published)
}

// publishedRevision returns the newest Published revision with the published clusters; 0 without
// one.
func publishedRevision(history changes.History, published []string) int64 {
	newest := history.Newest(berthv1alpha1.PhasePublished)
	if newest == nil || newest.Spec.To != berthv1alpha1.Digest(published) {
		return 0
	}
	return newest.Spec.Revision
}

// NeedsPreview reports whether a verb may be done only after Check has seen its effect.
func NeedsPreview(verb string) bool { return verb == Undo || verb == Pin }

// Preview decides a Placement as it would be with Prepared.Object.
type Preview interface {
	// Selected returns the clusters that would be selected, sorted, or why none would be decided.
	Selected(ctx context.Context, key client.ObjectKey) (names []string, undecided string, err error)
	// WhyNot returns why a cluster would not be selected; empty if it is not known.
	WhyNot(ctx context.Context, key client.ObjectKey, cluster string) string
}

// maxNamed is how many clusters a message names.
const maxNamed = 3

// Check returns why Undo or Pin must not be done: the preview does not have the clusters of the
// revision, or fewer than are published. It returns nil for other verbs.
func (p *Prepared) Check(ctx context.Context, preview Preview) error {
	if !NeedsPreview(p.Verb) {
		return nil
	}
	selected, undecided, err := preview.Selected(ctx, p.Placement)
	if err != nil {
		return err
	}
	if undecided != "" {
		return fmt.Errorf("%s is refused: Placement %s would not be decided: %s", p.Verb, p.Placement, undecided)
	}
	missing, more := changes.Minus(p.wanted, selected), changes.Minus(selected, p.wanted)
	part := p.Verb == Pin && p.AllowFewer && len(more) == 0 && len(selected) > 0
	if len(missing)+len(more) > 0 && !part && !p.AllowOthers {
		hint := ""
		if p.Verb == Undo {
			hint = "; --allow-others permits that"
		}
		return fmt.Errorf("%s is refused: Placement %s would not have the clusters of revision %d but %d of its %d%s%s",
			p.Verb, p.Placement, p.Revision, len(p.wanted)-len(missing), len(p.wanted), p.difference(ctx, preview, missing, more), hint)
	}
	if len(selected) < p.least && !p.AllowFewer {
		return fmt.Errorf("%s is refused: Placement %s would have %d clusters, and %d are published; --allow-fewer permits that",
			p.Verb, p.Placement, len(selected), len(p.published))
	}
	return nil
}

// difference says why clusters are missing, and which others there are.
func (p *Prepared) difference(ctx context.Context, preview Preview, missing, more []string) string {
	var text strings.Builder
	if p.number != nil && int(*p.number) < len(p.wanted) {
		fmt.Fprintf(&text, "; numberOfClusters is %d", *p.number)
	}
	for _, name := range missing[:min(len(missing), maxNamed)] {
		text.WriteString("; without " + name)
		if why := preview.WhyNot(ctx, p.Placement, name); why != "" {
			text.WriteString(" (" + why + ")")
		}
	}
	if n := len(missing) - maxNamed; n > 0 {
		fmt.Fprintf(&text, " and %d more", n)
	}
	for _, name := range more[:min(len(more), maxNamed)] {
		text.WriteString("; with " + name)
	}
	if n := len(more) - maxNamed; n > 0 {
		fmt.Fprintf(&text, " and %d more", n)
	}
	return text.String()
}

// ErrNoPreview is the error for a user who may neither read the whole fleet nor ask the controller.
// Undo and Pin are refused then.
var ErrNoPreview = errors.New("what is decided cannot be shown without the role berth-fleet-viewer, or berth-explainer in the namespace")
