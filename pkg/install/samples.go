package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/samples"
)

const (
	decisionPeriod  = 500 * time.Millisecond
	decisionTimeout = time.Minute
)

// Samples applies the sample fleet and Placements. It returns the number of objects and the keys of
// the Placements among them.
func Samples(ctx context.Context, config *rest.Config) (objects int, placements []types.NamespacedName, err error) {
	applied, err := applyFiles(ctx, config, samples.FS)
	if err != nil {
		return 0, nil, fmt.Errorf("applying the samples: %w", err)
	}
	for _, object := range applied {
		if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: v1alpha1.GroupName, Kind: "Placement"}) {
			placements = append(placements, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
		}
	}
	return len(applied), placements, nil
}

// Decision is the published decision of a Placement.
type Decision struct {
	Placement types.NamespacedName
	// Wanted is spec.numberOfClusters; nil if all clusters that qualify are wanted.
	Wanted *int64
	// Selected is status.numberOfSelectedClusters.
	Selected int64
	// Satisfied and Reason are from the condition PlacementSatisfied; "Unknown" and empty without
	// it.
	Satisfied, Reason string
	// Clusters are the names in the pages, in their order.
	Clusters []string
}

// AwaitDecisions waits until each of the Placements has conditions and two reads in a row return
// the same decisions. It returns them.
func AwaitDecisions(ctx context.Context, config *rest.Config, placements []types.NamespacedName) ([]Decision, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	var published []Decision
	err = wait.PollUntilContextTimeout(ctx, decisionPeriod, decisionTimeout, true, func(ctx context.Context) (bool, error) {
		previous := published
		var complete bool
		var err error
		published, complete, err = readDecisions(ctx, client, placements)
		return complete && slices.EqualFunc(published, previous, sameDecision), err
	})
	return published, err
}

func sameDecision(a, b Decision) bool {
	return a.Placement == b.Placement && a.Satisfied == b.Satisfied && a.Reason == b.Reason && a.Selected == b.Selected &&
		slices.Equal(a.Clusters, b.Clusters)
}

// readDecisions reads the decisions. complete is true if every Placement has conditions.
func readDecisions(ctx context.Context, client dynamic.Interface, placements []types.NamespacedName) (published []Decision, complete bool, err error) {
	complete = true
	for _, key := range placements {
		placement, err := client.Resource(clusterResource("placements")).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			return nil, false, fmt.Errorf("reading Placement %s: %w", key, err)
		}
		conditions, _, _ := unstructured.NestedSlice(placement.Object, "status", "conditions")
		complete = complete && len(conditions) > 0
		decision := Decision{Placement: key, Satisfied: "Unknown"}
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok && c["type"] == v1alpha1.PlacementConditionSatisfied {
				decision.Satisfied, decision.Reason = fmt.Sprint(c["status"]), fmt.Sprint(c["reason"])
			}
		}
		if wanted, found, _ := unstructured.NestedInt64(placement.Object, "spec", "numberOfClusters"); found {
			decision.Wanted = &wanted
		}
		decision.Selected, _, _ = unstructured.NestedInt64(placement.Object, "status", "numberOfSelectedClusters")
		if decision.Clusters, err = readClusters(ctx, client, key); err != nil {
			return nil, false, fmt.Errorf("reading the decisions of %s: %w", key, err)
		}
		published = append(published, decision)
	}
	return published, complete, nil
}

func readClusters(ctx context.Context, client dynamic.Interface, key types.NamespacedName) ([]string, error) {
	pages, err := client.Resource(clusterResource("placementdecisions")).Namespace(key.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PlacementLabel + "=" + key.Name})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, page := range pages.Items {
		decisions, _, _ := unstructured.NestedSlice(page.Object, "status", "decisions")
		for _, item := range decisions {
			if decision, ok := item.(map[string]any); ok {
				names = append(names, fmt.Sprint(decision["clusterName"]))
			}
		}
	}
	return names, nil
}

func clusterResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1beta1", Resource: plural}
}
