package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// AppliedSamples is what Samples did. Total is the number of all samples.
type AppliedSamples struct {
	Applied, Total int
	// Kept are the objects that exist and differ from the samples, as "Kind name" or "Kind
	// namespace/name".
	Kept []string
	// Placements are the keys of all Placements among the samples.
	Placements []types.NamespacedName
}

// Samples applies the sample fleet and Placements. It does not change objects that exist.
func Samples(ctx context.Context, config *rest.Config) (AppliedSamples, error) {
	var result AppliedSamples
	err := forEachObject(config, samples.FS, func(resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		result.Total++
		if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: v1alpha1.GroupName, Kind: "Placement"}) {
			result.Placements = append(result.Placements, key)
		}
		existing, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && isIncomplete(existing, object):
			result.Applied++
			return apply(ctx, resource, object)
		case err != nil:
			return err
		}
		differs, err := differsFromSample(existing, object)
		if differs {
			result.Kept = append(result.Kept, object.GetKind()+" "+strings.TrimPrefix(key.String(), "/"))
		}
		return err
	})
	if err != nil {
		return result, fmt.Errorf("applying the samples: %w", err)
	}
	return result, nil
}

// isIncomplete is true if an earlier start ended between the two requests of apply.
func isIncomplete(existing, sample *unstructured.Unstructured) bool {
	_, wantsStatus := sample.Object["status"]
	_, hasStatus := existing.Object["status"]
	return wantsStatus && !hasStatus && !managedByOthers(existing)
}

// differsFromSample is true if a field of the sample is missing or different, or if something else
// than Berth wrote a field. Fields that the API server or the controller add are no difference.
func differsFromSample(existing, sample *unstructured.Unstructured) (bool, error) {
	text, err := sample.MarshalJSON()
	if err != nil {
		return false, err
	}
	// YAML and JSON numbers have different types before this.
	var wanted unstructured.Unstructured
	if err := wanted.UnmarshalJSON(text); err != nil {
		return false, err
	}
	return managedByOthers(existing) || !contains(existing.Object, wanted.Object) || hasOtherTaints(existing, &wanted), nil
}

// hasOtherTaints is true if the cluster has a taint that neither the sample has nor the controller
// adds. The controller takes over the field when it stamps the time of a new taint.
func hasOtherTaints(cluster, sample *unstructured.Unstructured) bool {
	taints, _, _ := unstructured.NestedSlice(cluster.Object, "spec", "taints")
	wanted, _, _ := unstructured.NestedSlice(sample.Object, "spec", "taints")
	return slices.ContainsFunc(taints, func(taint any) bool {
		fields, _ := taint.(map[string]any)
		key := fields["key"]
		return key != v1alpha1.ManagedClusterTaintUnavailable && key != v1alpha1.ManagedClusterTaintUnreachable &&
			!slices.ContainsFunc(wanted, func(item any) bool { return contains(taint, item) })
	})
}

// managedByOthers is true if something else than Berth wrote a field of the object.
func managedByOthers(object *unstructured.Unstructured) bool {
	// The controller's requests have the default field manager: the program's name.
	program, _, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/")
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager != fieldManager && entry.Manager != program
	})
}

// contains is true if every field and item of wanted is in object.
func contains(object, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		fields, ok := object.(map[string]any)
		for name, value := range wanted {
			found, exists := fields[name]
			ok = ok && exists && contains(found, value)
		}
		return ok
	case []any:
		items, ok := object.([]any)
		for _, value := range wanted {
			ok = ok && slices.ContainsFunc(items, func(item any) bool { return contains(item, value) })
		}
		return ok
	default:
		return equality.Semantic.DeepEqual(object, wanted)
	}
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

// Decisions are the decisions of Placements.
type Decisions struct {
	Published []Decision
	// Undecided are the Placements without a first published decision. Deleted are those that do
	// not exist.
	Undecided, Deleted []types.NamespacedName
}

// AwaitDecisions waits until the Placements that exist have a published decision and two reads in a
// row return the same, for a minute at most. It returns the last read.
func AwaitDecisions(ctx context.Context, config *rest.Config, placements []types.NamespacedName) (Decisions, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return Decisions{}, fmt.Errorf("building the client: %w", err)
	}
	var last Decisions
	err = wait.PollUntilContextTimeout(ctx, decisionPeriod, decisionTimeout, true, func(ctx context.Context) (bool, error) {
		next, err := readDecisions(ctx, client, placements)
		if err != nil {
			return false, err
		}
		same := slices.EqualFunc(next.Published, last.Published, sameDecision) && slices.Equal(next.Deleted, last.Deleted)
		last = next
		return same && len(next.Undecided) == 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return last, nil
	}
	return last, err
}

func sameDecision(a, b Decision) bool {
	return a.Placement == b.Placement && a.Satisfied == b.Satisfied && a.Reason == b.Reason && a.Selected == b.Selected &&
		slices.Equal(a.Clusters, b.Clusters)
}

func readDecisions(ctx context.Context, client dynamic.Interface, placements []types.NamespacedName) (read Decisions, err error) {
	for _, key := range placements {
		placement, err := client.Resource(clusterResource("placements")).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			read.Deleted = append(read.Deleted, key)
			continue
		}
		if err != nil {
			return read, fmt.Errorf("reading Placement %s: %w", key, err)
		}
		conditions, _, _ := unstructured.NestedSlice(placement.Object, "status", "conditions")
		decision := Decision{Placement: key, Satisfied: "Unknown"}
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok && c["type"] == v1alpha1.PlacementConditionSatisfied {
				decision.Satisfied, decision.Reason = fmt.Sprint(c["status"]), fmt.Sprint(c["reason"])
			}
		}
		if len(conditions) == 0 || decision.Reason == v1alpha1.ReasonDecisionPending {
			read.Undecided = append(read.Undecided, key)
		}
		if wanted, found, _ := unstructured.NestedInt64(placement.Object, "spec", "numberOfClusters"); found {
			decision.Wanted = &wanted
		}
		decision.Selected, _, _ = unstructured.NestedInt64(placement.Object, "status", "numberOfSelectedClusters")
		if decision.Clusters, err = readClusters(ctx, client, placement); err != nil {
			return read, fmt.Errorf("reading the decisions of %s: %w", key, err)
		}
		read.Published = append(read.Published, decision)
	}
	return read, nil
}

func readClusters(ctx context.Context, client dynamic.Interface, placement *unstructured.Unstructured) ([]string, error) {
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: placement.GetNamespace(), Name: placement.GetName(), UID: placement.GetUID()}}
	list, err := client.Resource(clusterResource("placementdecisions")).Namespace(pl.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PlacementLabel + "=" + pl.Name})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, item := range list.Items {
		page := &v1alpha1.PlacementDecision{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, page); err != nil {
			return nil, err
		}
		if !pl.Publishes(page) {
			continue
		}
		for _, decision := range page.Status.Decisions {
			names = append(names, decision.ClusterName)
		}
	}
	return names, nil
}

func clusterResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1beta1", Resource: plural}
}
