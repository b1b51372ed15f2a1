package readiness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/pkg/clustercel"
	"github.com/berth-dev/berth/pkg/scheduler/config"
)

// Source is a compiled readiness source whose objects are watched. It is immutable.
type Source struct {
	Name string
	Kind schema.GroupVersionKind
	// Selector limits which objects are watched.
	Selector labels.Selector
	// InClusterNamespace is true if the objects are in the namespace with their cluster's name;
	// otherwise they are in the namespace of the Placement.
	InClusterNamespace bool

	// namespaceLabel has the namespace of the Placements for which such an object counts.
	namespaceLabel string
	cluster, ready *clustercel.ObjectExpression
}

// builtIn are the sources that no configuration needs to define.
var builtIn = []config.ReadinessSource{
	{
		Name: "argocd", APIVersion: "argoproj.io/v1alpha1", Kind: "Application", Namespace: config.PlacementNamespace,
		Cluster: "object.spec.destination.name",
		Ready:   "object.status.health.status == 'Healthy' && object.status.sync.status == 'Synced'",
	},
	{
		Name: "manifestwork", APIVersion: "work.open-cluster-management.io/v1", Kind: "ManifestWork", Namespace: config.ClusterNamespace,
		// Its value is <namespace>.<name> of the ManifestWorkReplicaSet, which reads Placements of
		// its own namespace.
		PlacementNamespaceLabel: "work.open-cluster-management.io/manifestworkreplicaset",
		Ready:                   "object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True' && c.?observedGeneration.orValue(object.metadata.generation) >= object.metadata.generation)",
	},
}

// Sources compiles the built-in sources and those of a configuration, which may be nil. They are
// sorted by name. The source "cluster" is not among them: it needs no watch.
func Sources(c *config.PlacementSchedulerConfiguration) ([]*Source, error) {
	byName := map[string]*Source{}
	for _, s := range builtIn {
		source, err := compile(s, field.NewPath("built-in source").Key(s.Name))
		if err != nil {
			return nil, err
		}
		byName[s.Name] = source
	}
	if c != nil {
		for i, s := range c.ReadinessSources {
			source, err := compile(s, field.NewPath("readinessSources").Index(i))
			if err != nil {
				return nil, err
			}
			byName[s.Name] = source
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *Source) int { return strings.Compare(a.Name, b.Name) }), nil
}

func compile(s config.ReadinessSource, at *field.Path) (*Source, error) {
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.Child("labelSelector"), err)
	}
	if s.LabelSelector == nil {
		selector = labels.Everything()
	}
	source := &Source{
		Name: s.Name, Kind: schema.FromAPIVersionAndKind(s.APIVersion, s.Kind), Selector: selector,
		InClusterNamespace: s.Namespace == config.ClusterNamespace, namespaceLabel: s.PlacementNamespaceLabel,
	}
	if !source.InClusterNamespace {
		if source.cluster, err = clustercel.CompileString(s.Cluster); err != nil {
			return nil, fmt.Errorf("%s: %w", at.Child("cluster"), err)
		}
	}
	if source.ready, err = clustercel.CompileBool(s.Ready); err != nil {
		return nil, fmt.Errorf("%s: %w", at.Child("ready"), err)
	}
	return source, nil
}

// PlacementNamespace returns the namespace of the Placements for which an object with this
// namespace and these labels counts; empty if it counts for none.
func (s *Source) PlacementNamespace(namespace string, of map[string]string) string {
	if !s.InClusterNamespace {
		return namespace
	}
	// A namespace has no dot.
	placements, _, _ := strings.Cut(of[s.namespaceLabel], ".")
	return placements
}

// Read returns the cluster of an object, empty if it has none, and whether it is ready. An object
// that is being deleted is not ready. content is the unstructured content of the object.
func (s *Source) Read(ctx context.Context, content map[string]any) (cluster string, ready bool) {
	metadata, _ := content["metadata"].(map[string]any)
	if s.InClusterNamespace {
		cluster, _ = metadata["namespace"].(string)
	} else {
		// A failed expression names no cluster.
		cluster, _ = s.cluster.String(ctx, content)
	}
	if cluster == "" || metadata["deletionTimestamp"] != nil {
		return cluster, false
	}
	// A failed expression is not ready.
	ready, _ = s.ready.Bool(ctx, content)
	return cluster, ready
}
