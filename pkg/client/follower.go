package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/client/view"
)

// Follower follows the decision of one Placement. It works on the union of all its pages, which
// never lacks a cluster that stays. Its user must be permitted to list and watch placements and
// placementdecisions in the namespace.
type Follower struct {
	placement types.NamespacedName
	pages     *view.View[*v1alpha1.PlacementDecision]
	placed    *view.View[*metav1.PartialObjectMetadata]
	onChange  func(added, removed []Cluster)
	wake      chan struct{}
}

// Connect returns a client for NewFollower.
func Connect(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	hub, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the hub: %w", err)
	}
	return hub, nil
}

// NewFollower returns a Follower of a Placement that need not exist. Run starts it.
func NewFollower(hub client.WithWatch, namespace, placement string) *Follower {
	f := &Follower{placement: types.NamespacedName{Namespace: namespace, Name: placement}, wake: make(chan struct{}, 1)}
	f.pages = view.New(hub, view.Options[*v1alpha1.PlacementDecision]{
		List:    func() client.ObjectList { return &v1alpha1.PlacementDecisionList{} },
		Select:  []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: placement}},
		Changed: f.changed,
	})
	f.placed = view.New(hub, view.Options[*metav1.PartialObjectMetadata]{
		List:    view.Metadata(v1alpha1.GroupVersionV1Beta1.WithKind("Placement")),
		Select:  []client.ListOption{client.InNamespace(namespace), client.MatchingFields{"metadata.name": placement}},
		Changed: f.changed,
	})
	return f
}

// OnChange sets the function that receives changes; call it before Run. The first call comes with
// the first complete decision, which is empty if no cluster is selected. A later call comes when
// clusters were added or removed, sorted by name; changes while the function runs come together. A
// cluster that moves to another page or decision group is neither. After the Placement and all its
// pages are deleted, its clusters are removed; as long as the Placement exists, they stay without
// pages, too. The function is never called concurrently.
func (f *Follower) OnChange(change func(added, removed []Cluster)) { f.onChange = change }

// Run follows the Placement until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.pages.Run(ctx) })
	running.Go(func() { f.placed.Run(ctx) })
	var known map[string]Cluster // nil before the first decision
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
			known = f.report(known)
		}
	}
}

func (f *Follower) changed() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// report calls the function if the clusters are not the known ones, and returns the current ones.
func (f *Follower) report(known map[string]Cluster) map[string]Cluster {
	clusters, err := f.Clusters()
	switch {
	case errors.Is(err, ErrNoPlacement) && known != nil:
	case err != nil:
		return known
	}
	now := make(map[string]Cluster, len(clusters))
	for _, c := range clusters {
		now[c.Name] = c
	}
	added, removed := missing(known, now), missing(now, known)
	if f.onChange != nil && (known == nil || len(added)+len(removed) > 0) {
		f.onChange(added, removed)
	}
	return now
}

// missing returns the clusters that a has not, sorted by name.
func missing(a, b map[string]Cluster) []Cluster {
	var out []Cluster
	for name, c := range b {
		if _, ok := a[name]; !ok {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(x, y Cluster) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// Clusters returns the current decision, in the published order. The error is ErrUnknown,
// ErrNoPlacement or ErrNoDecision.
func (f *Follower) Clusters() ([]Cluster, error) {
	if !f.pages.Complete() || !f.placed.Complete() {
		_, err := f.pages.Lost()
		if err == nil {
			_, err = f.placed.Lost()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		return nil, ErrUnknown
	}
	// The pages of a deleted Placement count until they are deleted.
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: f.placement.Namespace, Name: f.placement.Name}}
	placed, exists := f.placed.Get(f.placement)
	if exists {
		pl.UID = placed.UID
	}
	pages := pl.PublishedPages(f.pages.Group(""))
	if !exists && len(pages) == 0 {
		return nil, ErrNoPlacement
	}
	return Clusters(pages)
}
