package housekeeping

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TaintTime is the name of the loop that stamps timeAdded on taints.
const TaintTime = "cluster-taint-time"

// Options select and configure the loops.
type Options struct {
	// Names are those of --housekeeping. OwnCRDs is true if the hub has Berth's CRDs; otherwise "*"
	// adds none.
	Names           []string
	OwnCRDs         bool
	ClusterProfiles ClusterProfileOptions
	// Event sends an event about a ClusterProfile.
	Event func(regarding corev1.ObjectReference, eventType, reason, action, note string)
	// OnReadFailed is called when ClusterProfiles cannot be read. Retry are the pauses then.
	OnReadFailed func(err error)
	Retry        wait.Backoff
	Now          func() time.Time
	Log          logr.Logger
}

// setUpLoop adds a loop to a manager.
type setUpLoop func(ctx context.Context, mgr ctrl.Manager) error

// SetUp adds the selected loops to a manager and returns their names, sorted:
//
//	clusterset             creates the default and global sets; condition ClusterSetEmpty
//	clustersetbinding      condition Bound
//	cluster-default-set    puts new clusters into the default set
//	cluster-taint-time     stamps timeAdded on taints
//	cluster-availability   turns an Available condition of False or Unknown into a NoSelect taint
//	cluster-lease          turns Available to Unknown when a cluster's lease is no longer renewed
//	cluster-profile        makes a ManagedCluster of each ClusterProfile; only its name selects it
func SetUp(ctx context.Context, mgr ctrl.Manager, cfg *rest.Config, o Options) ([]string, error) {
	profiles, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building the client of ClusterProfiles: %w", err)
	}
	selected, err := selectLoops(loops(mgr.GetClient(), mgr.GetAPIReader(), profiles, o), o.Names, o.OwnCRDs)
	if err != nil {
		return nil, err
	}
	if err := o.ClusterProfiles.check(selected[clusterProfileLoop] != nil); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(selected))
	o.Log.Info("Housekeeping", "controllers", names)
	for _, name := range names {
		if err := selected[name](ctx, mgr); err != nil {
			return nil, fmt.Errorf("setting up %s: %w", name, err)
		}
	}
	return names, nil
}

// loops returns all loops by name.
func loops(c client.Client, hub client.Reader, profiles dynamic.Interface, o Options) map[string]setUpLoop {
	ofProfiles := &ClusterProfileReconciler{Options: o, Client: c, Hub: hub, Profiles: profiles}
	ofProfiles.Log = o.Log.WithName(clusterProfileLoop)
	all := map[string]setUpLoop{
		"clusterset":        (&ClusterSetReconciler{Client: c}).SetUp,
		"clustersetbinding": (&BindingReconciler{Client: c}).SetUp,
		"cluster-lease":     (&ClusterLeaseReconciler{Client: c, Hub: hub}).SetUp,
		clusterProfileLoop:  ofProfiles.SetUp,
	}
	for _, r := range []*ClusterReconciler{newDefaultSetReconciler(c), newTaintTimeReconciler(c, o.Now), newAvailabilityReconciler(c, o.Now)} {
		all[r.Name] = r.SetUp
	}
	return all
}

// selectLoops returns the loops that the names select.
func selectLoops(all map[string]setUpLoop, names []string, ownCRDs bool) (map[string]setUpLoop, error) {
	if len(names) > 0 && strings.HasPrefix(names[0], "-") {
		names = append([]string{"*"}, names...)
	}
	chosen := map[string]setUpLoop{}
	for _, name := range names {
		plain := strings.TrimPrefix(name, "-")
		switch {
		case name == "*" && ownCRDs:
			for name, one := range all {
				if name != clusterProfileLoop {
					chosen[name] = one
				}
			}
		case name == "*":
		case all[plain] == nil:
			return nil, fmt.Errorf("--housekeeping: unknown controller %q; allowed are *, -NAME and the names %s", plain, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		case plain != name:
			delete(chosen, plain)
		default:
			chosen[name] = all[name]
		}
	}
	return chosen, nil
}
