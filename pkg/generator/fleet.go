package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/client"
	"github.com/berth-dev/berth/pkg/client/view"
)

// lostAfter is how long a connection to the hub may be lost until nothing is answered. The server
// of a hub ends each watch after some minutes; the next one begins at once.
const lostAfter = 5 * time.Second

// Argo CD's cluster secrets have this label, and the keys name and server.
const (
	clusterSecretLabel = "argocd.argoproj.io/secret-type"
	clusterSecretType  = "cluster"
)

// errIncomplete means that the hub must be asked first, or cannot be reached.
var errIncomplete = errors.New("the view of the hub is not complete")

// fleet follows what answers depend on.
type fleet struct {
	now        func() time.Time
	followed   []follower                                 // all that follow
	pages      *view.View[*v1alpha1.PlacementDecision]    // by namespace/name of the Placement
	placements *view.View[*metav1.PartialObjectMetadata]  // all in one group
	clusters   *view.View[*v1alpha1.ManagedCluster]       // all in one group
	policies   *view.View[*berthv1alpha1.SelectionPolicy] // by namespace/name of the Placement; nil if not served
	secrets    *view.View[*corev1.Secret]                 // by the cluster's name; nil without Argo CD
}

// follower is one view.
type follower interface {
	Run(ctx context.Context)
	Complete() bool
	Lost() (since time.Time, err error)
}

// connect returns the client for newFleet.
func connect(config *rest.Config) (ctrlclient.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	hub, err := ctrlclient.NewWithWatch(config, ctrlclient.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the hub: %w", err)
	}
	return hub, nil
}

// newFleet returns a fleet with the permissions of hub. argoCD is the namespace of Argo CD's
// cluster secrets; empty for none.
func newFleet(hub ctrlclient.WithWatch, argoCD string) (*fleet, error) {
	f := &fleet{now: time.Now}
	f.pages = view.New(hub, view.Options[*v1alpha1.PlacementDecision]{
		List: func() ctrlclient.ObjectList { return &v1alpha1.PlacementDecisionList{} },
		GroupOf: func(page *v1alpha1.PlacementDecision) string {
			return page.Namespace + "/" + page.Labels[v1alpha1.PlacementLabel]
		},
		Strip: strip[*v1alpha1.PlacementDecision]("PlacementDecision"),
	})
	f.placements = view.New(hub, view.Options[*metav1.PartialObjectMetadata]{
		List:  view.Metadata(v1alpha1.GroupVersionV1Beta1.WithKind("Placement")),
		Strip: strip[*metav1.PartialObjectMetadata]("Placement"),
	})
	f.clusters = view.New(hub, view.Options[*v1alpha1.ManagedCluster]{
		List:  func() ctrlclient.ObjectList { return &v1alpha1.ManagedClusterList{} },
		Strip: strip[*v1alpha1.ManagedCluster]("ManagedCluster"),
	})
	policy := schema.GroupKind{Group: berthv1alpha1.GroupName, Kind: "SelectionPolicy"}
	switch _, err := hub.RESTMapper().RESTMapping(policy, berthv1alpha1.GroupVersion.Version); {
	case err == nil:
		f.policies = view.New(hub, view.Options[*berthv1alpha1.SelectionPolicy]{
			List:    func() ctrlclient.ObjectList { return &berthv1alpha1.SelectionPolicyList{} },
			GroupOf: func(p *berthv1alpha1.SelectionPolicy) string { return p.Namespace + "/" + p.Spec.Placement },
			Strip:   strip[*berthv1alpha1.SelectionPolicy]("SelectionPolicy"),
		})
	case !meta.IsNoMatchError(err):
		return nil, fmt.Errorf("asking the hub for its kinds: %w", err)
	}
	if argoCD != "" {
		f.secrets = view.New(hub, view.Options[*corev1.Secret]{
			List:    func() ctrlclient.ObjectList { return &corev1.SecretList{} },
			Select:  []ctrlclient.ListOption{ctrlclient.InNamespace(argoCD), ctrlclient.MatchingLabels{clusterSecretLabel: clusterSecretType}},
			GroupOf: func(s *corev1.Secret) string { return string(s.Data["name"]) },
			Strip:   strip[*corev1.Secret]("Secret"),
		})
	}
	f.followed = []follower{f.pages, f.placements, f.clusters}
	if f.policies != nil {
		f.followed = append(f.followed, f.policies)
	}
	if f.secrets != nil {
		f.followed = append(f.followed, f.secrets)
	}
	return f, nil
}

// strip removes from objects of a kind what the generator need not keep.
func strip[O ctrlclient.Object](kind string) func(O) {
	trim := caches.Trim(caches.Generator, kind)
	return func(object O) { trim(object) }
}

// run follows the hub until ctx ends.
func (f *fleet) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, v := range f.followed {
		running.Go(func() { v.Run(ctx) })
	}
	running.Wait()
}

// check returns errIncomplete unless all views are complete and follow the hub.
func (f *fleet) check() error {
	for _, v := range f.followed {
		since, _ := v.Lost()
		switch {
		case !v.Complete():
			return errIncomplete
		case !since.IsZero() && f.now().Sub(since) > lostAfter:
			return fmt.Errorf("%w: the connection to the hub is lost", errIncomplete)
		}
	}
	return nil
}

// decision returns the clusters of a Placement, or why there are none.
func (f *fleet) decision(key types.NamespacedName) ([]client.Cluster, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	placed, ok := f.placements.Get(key)
	if !ok {
		return nil, client.ErrNoPlacement
	}
	pl := &v1alpha1.Placement{ObjectMeta: placed.ObjectMeta}
	return client.Clusters(pl.PublishedPages(f.pages.Group(key.String())))
}

// server returns the server of a cluster in Argo CD; empty for none.
func (f *fleet) server(cluster string) string {
	if f.secrets == nil {
		return ""
	}
	secrets := f.secrets.Group(cluster)
	if len(secrets) == 0 {
		return ""
	}
	first := slices.MinFunc(secrets, func(a, b *corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	return string(first.Data["server"])
}

// policy returns the SelectionPolicy of a Placement; nil for none, and for several, which are a
// mistake.
func (f *fleet) policy(key types.NamespacedName) *berthv1alpha1.SelectionPolicy {
	if f.policies == nil {
		return nil
	}
	if policies := f.policies.Group(key.String()); len(policies) == 1 {
		return policies[0]
	}
	return nil
}
