package actions

import (
	"context"
	"fmt"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// pin prepares Undo and Unpin.
func (p *Prepared) pin(ctx context.Context, hub client.Client) error {
	pl, err := ReadPlacement(ctx, hub, p.Placement)
	if err != nil {
		return err
	}
	changed, done := pl.DeepCopy(), "unpinned"
	p.Question = fmt.Sprintf("Unpin Placement %s?", p.Placement)
	if p.Verb == Unpin {
		if _, pinned := pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation]; !pinned {
			return fmt.Errorf("nothing to unpin: Placement %s is not pinned", p.Placement)
		}
		delete(changed.Annotations, berthv1alpha1.PinnedRevisionAnnotation)
	} else {
		revision, err := findRevision(ctx, hub, pl, p.Revision)
		if err != nil {
			return err
		}
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[berthv1alpha1.PinnedRevisionAnnotation] = strconv.FormatInt(revision, 10)
		done, p.Revision = fmt.Sprintf("pinned to revision %d", revision), revision
		p.Question = fmt.Sprintf("Return Placement %s to revision %d and pin it?", p.Placement, revision)
	}
	p.Object = changed
	p.Declined = fmt.Sprintf("Placement %s was not changed", p.Placement)
	p.Done = fmt.Sprintf("placement.%s/%s %s", v1alpha1.GroupName, pl.Name, done)
	p.write = func(ctx context.Context) (client.Object, error) {
		written := changed.DeepCopy()
		if err := hub.Patch(ctx, written, client.MergeFrom(pl)); err != nil {
			return nil, fmt.Errorf("writing the annotation of Placement %s: %w", p.Placement, err)
		}
		return written, nil
	}
	return nil
}

// findRevision returns the revision to return to. Its clusters must be known. wanted is 0 for the
// newest one with other clusters.
func findRevision(ctx context.Context, hub client.Client, pl *v1alpha1.Placement, wanted int64) (int64, error) {
	key := client.ObjectKeyFromObject(pl)
	_, history, err := ReadHistory(ctx, hub, key)
	if err != nil {
		return 0, err
	}
	published, err := publishedClusters(ctx, hub, pl)
	if err != nil {
		return 0, err
	}
	if wanted > 0 {
		if _, err := history.At(wanted, published); err != nil {
			possible := changes.RevisionList(history.Computable(published))
			return 0, fmt.Errorf("the clusters of revision %d of Placement %s are not known: %w; possible revisions are %s", wanted, key, err, possible)
		}
		return wanted, nil
	}
	if revision := ToUndo(key, history, published); revision > 0 {
		return revision, nil
	}
	return 0, fmt.Errorf("nothing to undo: no revision of Placement %s with other clusters is known", key)
}

// ToUndo returns the newest revision with other clusters than the published ones; 0 if none is
// known.
func ToUndo(key client.ObjectKey, history changes.History, published []string) int64 {
	digest := berthv1alpha1.Digest(published)
	for _, revision := range history.Computable(published) {
		if record, err := RecordOf(history, key, revision); err == nil && record.Spec.To != digest {
			return revision
		}
	}
	return 0
}
