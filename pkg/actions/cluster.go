package actions

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// evict prepares Evict.
func (p *Prepared) evict(ctx context.Context, hub client.Client) error {
	pl, err := ReadPlacement(ctx, hub, p.Placement)
	if err != nil {
		return err
	}
	published, err := publishedClusters(ctx, hub, pl)
	if err != nil {
		return err
	}
	if !slices.Contains(published, p.Cluster) {
		return fmt.Errorf("nothing to evict: the published decision of Placement %s does not have cluster %s", p.Placement, p.Cluster)
	}
	seconds := int64(p.ExcludeFor / time.Second)
	if seconds == 0 {
		seconds = berthv1alpha1.DefaultExcludeForSeconds
	}
	eviction := &berthv1alpha1.PlacementEviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: pl.Name + "-new"},
		Spec:       berthv1alpha1.PlacementEvictionSpec{Placement: pl.Name, Cluster: p.Cluster, ExcludeForSeconds: seconds},
	}
	p.addComment(eviction)
	p.Object = eviction
	p.Question = fmt.Sprintf("Evict cluster %s from Placement %s?", p.Cluster, p.Placement)
	p.Declined = fmt.Sprintf("cluster %s was not evicted from Placement %s", p.Cluster, p.Placement)
	p.Done = fmt.Sprintf("cluster %s is being evicted from Placement %s", p.Cluster, p.Placement)
	p.write = func(ctx context.Context) (client.Object, error) {
		created := eviction.DeepCopy()
		created.Name, created.GenerateName = "", pl.Name+"-"
		if err := hub.Create(ctx, created); err != nil {
			return nil, fmt.Errorf("creating a PlacementEviction in namespace %s: %w", pl.Namespace, err)
		}
		return created, nil
	}
	return nil
}

// drain prepares Drain and Undrain.
func (p *Prepared) drain(ctx context.Context, hub client.Client) error {
	cluster, undo := &v1alpha1.ManagedCluster{}, p.Verb == Undrain
	if err := hub.Get(ctx, types.NamespacedName{Name: p.Cluster}, cluster); err != nil {
		return fmt.Errorf("reading ManagedCluster %s: %w", p.Cluster, err)
	}
	verb, done, now := "Drain", "drained", "is being drained"
	changed := cluster.DeepCopy()
	if undo {
		verb, done, now = "End the drain of", "undrained", "undrained"
		changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, v1alpha1.Taint.Drains)
	} else {
		changed.Spec.Taints = append(changed.Spec.Taints, v1alpha1.Taint{Key: v1alpha1.DrainTaint, Effect: v1alpha1.TaintEffectNoSelect})
	}
	p.addComment(changed)
	p.Done = fmt.Sprintf("managedcluster.%s/%s %s", v1alpha1.GroupName, p.Cluster, now)
	switch drained := cluster.Drained(); {
	case undo && !drained:
		p.Nothing = fmt.Errorf("nothing to undrain: ManagedCluster %s is not drained", p.Cluster)
		return nil
	case !undo && drained:
		p.Nothing = fmt.Errorf("nothing to drain: ManagedCluster %s is drained already", p.Cluster)
		return nil
	}
	p.Object = changed
	p.Question = fmt.Sprintf("%s ManagedCluster %s?", verb, p.Cluster)
	p.Declined = fmt.Sprintf("ManagedCluster %s was not %s", p.Cluster, done)
	p.write = func(ctx context.Context) (client.Object, error) {
		// It fails if the cluster was changed since it was read.
		written := changed.DeepCopy()
		if err := hub.Patch(ctx, written, client.MergeFromWithOptions(cluster, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, fmt.Errorf("writing the taints of ManagedCluster %s: %w", p.Cluster, err)
		}
		return written, nil
	}
	return nil
}
