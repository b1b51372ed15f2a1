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
	settlePeriod  = 500 * time.Millisecond
	settleTimeout = time.Minute
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

// Answer is what a hub shows of a Placement and its decisions.
type Answer struct {
	Placement types.NamespacedName
	// Satisfied and Reason are the condition PlacementSatisfied's; "Unknown" and empty without one.
	Satisfied, Reason string
	// Number is status.numberOfSelectedClusters.
	Number int64
	// Clusters are the names in the pages, in their order.
	Clusters []string
}

// AwaitAnswers waits until each of the Placements has conditions and two reads in a row found the
// same, and returns what was read.
func AwaitAnswers(ctx context.Context, config *rest.Config, placements []types.NamespacedName) ([]Answer, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	var answers []Answer
	err = wait.PollUntilContextTimeout(ctx, settlePeriod, settleTimeout, true, func(ctx context.Context) (bool, error) {
		previous := answers
		var decided bool
		var err error
		answers, decided, err = readAnswers(ctx, client, placements)
		return decided && slices.EqualFunc(answers, previous, sameAnswer), err
	})
	return answers, err
}

func sameAnswer(a, b Answer) bool {
	return a.Placement == b.Placement && a.Satisfied == b.Satisfied && a.Reason == b.Reason && a.Number == b.Number &&
		slices.Equal(a.Clusters, b.Clusters)
}

// readAnswers also returns whether every Placement has conditions.
func readAnswers(ctx context.Context, client dynamic.Interface, placements []types.NamespacedName) (answers []Answer, decided bool, err error) {
	decided = true
	for _, key := range placements {
		placement, err := client.Resource(clusterResource("placements")).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			return nil, false, fmt.Errorf("reading Placement %s: %w", key, err)
		}
		conditions, _, _ := unstructured.NestedSlice(placement.Object, "status", "conditions")
		decided = decided && len(conditions) > 0
		answer := Answer{Placement: key, Satisfied: "Unknown"}
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok && c["type"] == v1alpha1.PlacementConditionSatisfied {
				answer.Satisfied, answer.Reason = fmt.Sprint(c["status"]), fmt.Sprint(c["reason"])
			}
		}
		answer.Number, _, _ = unstructured.NestedInt64(placement.Object, "status", "numberOfSelectedClusters")
		if answer.Clusters, err = readClusters(ctx, client, key); err != nil {
			return nil, false, fmt.Errorf("reading the decisions of %s: %w", key, err)
		}
		answers = append(answers, answer)
	}
	return answers, decided, nil
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
