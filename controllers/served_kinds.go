package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/lifecycle"
)

// servedKinds describes the kinds that the hub serves.
type servedKinds struct {
	// wholePages is true if v1alpha1 PlacementDecisions have no status subresource, as in Berth's
	// own CRDs.
	wholePages bool
	// ownKinds is true if Berth's own kinds are served; missing names those that are not.
	ownKinds bool
	missing  []string
	// explanations is true if PlacementExplanations are served.
	explanations bool
}

// watched returns the kinds to watch. It includes all of Berth's own kinds, or none of them.
func (s servedKinds) watched() []kinds.Kind {
	return slices.DeleteFunc(kinds.All(), func(k kinds.Kind) bool { return k.Optional() && !s.ownKinds })
}

// discoverKinds asks the hub which kinds it serves. It is an error if the controller may not list
// one of Berth's own: without them, restrictions and holds would not apply.
func discoverKinds(ctx context.Context, cfg *rest.Config) (servedKinds, error) {
	discover, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return servedKinds{}, fmt.Errorf("building the discovery client: %w", err)
	}
	resources := func(version string) (map[string]bool, error) {
		var list *metav1.APIResourceList
		err := atStart(func() (err error) {
			list, err = discover.ServerResourcesForGroupVersion(version)
			return err
		})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("asking for the resources of %s: %w", version, err)
		}
		names := map[string]bool{}
		if err == nil {
			for _, r := range list.APIResources {
				names[r.Name] = true
			}
		}
		return names, nil
	}
	placements, err := resources(v1alpha1.GroupName + "/v1alpha1")
	if err != nil {
		return servedKinds{}, err
	}
	served := servedKinds{wholePages: placements["placementdecisions"] && !placements["placementdecisions/status"]}
	own, err := resources(berthv1alpha1.GroupVersion.String())
	if err == nil {
		err = checkLists(ctx, discover.RESTClient(), own)
	}
	for _, kind := range kinds.All() {
		if kind.Optional() && !own[kind.Plural] {
			served.missing = append(served.missing, kind.Plural)
		}
	}
	served.ownKinds = len(served.missing) == 0
	served.explanations = own["placementexplanations"]
	return served, err
}

// checkLists returns an error that names the served kinds of the group berth.dev that the
// controller reads and may not list.
func checkLists(ctx context.Context, hub rest.Interface, served map[string]bool) error {
	var forbidden []string
	for _, plural := range ownPlurals() {
		if !served[plural] {
			continue
		}
		err := atStart(func() error {
			return hub.Get().AbsPath("apis", berthv1alpha1.GroupName, berthv1alpha1.GroupVersion.Version, plural).Param("limit", "1").Do(ctx).Error()
		})
		switch {
		case apierrors.IsForbidden(err):
			forbidden = append(forbidden, plural)
		case err != nil:
			return fmt.Errorf("listing %s: %w", plural, err)
		}
	}
	if len(forbidden) > 0 {
		return fmt.Errorf("the hub serves %s of %s, and this user may not list them: bind the ClusterRole berth to it",
			strings.Join(forbidden, ", "), berthv1alpha1.GroupVersion)
	}
	return nil
}

// ownPlurals are the resources of the group berth.dev that the controller lists.
func ownPlurals() []string {
	plurals := []string{"placementexplanations"}
	for _, kind := range kinds.All() {
		if kind.Optional() {
			plurals = append(plurals, kind.Plural)
		}
	}
	slices.Sort(plurals)
	return plurals
}

// startBackoff repeats requests at the start: five tries in three seconds.
var startBackoff = wait.Backoff{Steps: 5, Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1}

// atStart repeats a request that nothing else repeats, so that one failed request does not end the
// controller. It returns immediately on an error that a retry would get again.
func atStart(request func() error) error {
	return retry.OnError(startBackoff, func(err error) bool {
		return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && !meta.IsNoMatchError(err)
	}, request)
}

// startManager is a manager whose indexer repeats failed requests, as atStart does.
type startManager struct{ ctrl.Manager }

// GetFieldIndexer implements ctrl.Manager.
func (m startManager) GetFieldIndexer() client.FieldIndexer { return m }

// IndexField implements client.FieldIndexer.
func (m startManager) IndexField(ctx context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	return atStart(func() error { return m.Manager.GetFieldIndexer().IndexField(ctx, o, field, extract) })
}

// informerOf returns the informer of a kind, which may not have synced yet.
func informerOf(ctx context.Context, from cache.Cache, object client.Object) (informer cache.Informer, err error) {
	err = atStart(func() error {
		informer, err = from.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		return err
	})
	return informer, err
}

// holdingPlugins are the plugins that need records. Without records, a held change could not be
// approved, and a restart would forget it.
var holdingPlugins = []string{lifecycle.ApprovalName, lifecycle.BlastRadiusName, lifecycle.MaintenanceWindowName}

// checkKinds logs which kinds of the group berth.dev the hub does not serve. It returns an error if
// the configuration file names a plugin that needs them.
func checkKinds(served servedKinds, o Options) error {
	if served.ownKinds {
		return nil
	}
	for _, name := range o.Config.NamedPlugins() {
		if slices.Contains(holdingPlugins, name) {
			return fmt.Errorf("the configuration names the plugin %s, which needs the CustomResourceDefinitions %s of %s: "+
				"install them with --install-crds", name, strings.Join(served.missing, " and "), berthv1alpha1.GroupVersion)
		}
	}
	o.Log.Info("Changes have no records and need no approval: the hub does not serve all kinds of the group", "group", berthv1alpha1.GroupVersion.Group, "missing", served.missing)
	return nil
}
