package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

const (
	clusterGroup   = "cluster.open-cluster-management.io"
	placementLabel = clusterGroup + "/placement"

	settlePeriod  = 500 * time.Millisecond
	settleTimeout = time.Minute
	// shownClusters is how many cluster names of a decision the table shows.
	shownClusters = 5
)

type placementKey struct{ namespace, name string }

// applySamples applies the YAML files in the top folder of fsys, sorted by name, and returns the Placements among them. Fields that
// others own are taken over, so that applying again restores the samples.
func applySamples(ctx context.Context, config *rest.Config, fsys fs.FS, out io.Writer) ([]placementKey, error) {
	objects, err := applyFiles(ctx, config, fsys)
	if err != nil {
		return nil, err
	}
	var placements []placementKey
	for _, object := range objects {
		if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: clusterGroup, Kind: "Placement"}) {
			placements = append(placements, placementKey{object.GetNamespace(), object.GetName()})
		}
	}
	say(out, "Applied %d sample objects.\n", len(objects))
	return placements, nil
}

// applyFiles applies the objects in the YAML files in the top folder of fsys, in order, and returns them.
func applyFiles(ctx context.Context, config *rest.Config, fsys fs.FS) ([]*unstructured.Unstructured, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the discovery client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))

	entries, err := fs.ReadDir(fsys, ".") // sorted
	if err != nil {
		return nil, err
	}
	var applied []*unstructured.Unstructured
	for _, entry := range entries {
		if ext := path.Ext(entry.Name()); entry.IsDir() || ext != ".yaml" && ext != ".yml" || strings.HasPrefix(entry.Name(), "kustomization.") {
			continue
		}
		objects, err := readObjects(fsys, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		for _, object := range objects {
			if err := apply(ctx, client, mapper, object); err != nil {
				return nil, fmt.Errorf("%s: %s %s: %w", entry.Name(), object.GetKind(), object.GetName(), err)
			}
		}
		applied = append(applied, objects...)
	}
	return applied, nil
}

func readObjects(fsys fs.FS, name string) ([]*unstructured.Unstructured, error) {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			return nil, fmt.Errorf("document %d: %w", len(objects)+1, err)
		}
		if len(content) > 0 { // else only comments
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
}

// apply writes an object and then its status, which the API server drops from the first of the two writes.
func apply(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	status, hasStatus := object.Object["status"]
	delete(object.Object, "status")
	if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil || !hasStatus {
		return err
	}
	withStatus := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": object.GetAPIVersion(),
		"kind":       object.GetKind(),
		"metadata":   map[string]any{"name": object.GetName()},
		"status":     status,
	}}
	if object.GetNamespace() != "" {
		withStatus.SetNamespace(object.GetNamespace())
	}
	if _, err := resource.ApplyStatus(ctx, object.GetName(), withStatus, options); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}

// printSettled prints the decisions of the Placements once each has conditions and two looks in a row found the same.
func printSettled(ctx context.Context, config *rest.Config, placements []placementKey, out io.Writer) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	previous := ""
	return wait.PollUntilContextTimeout(ctx, settlePeriod, settleTimeout, true, func(ctx context.Context) (bool, error) {
		table, decided, err := decisionTable(ctx, client, placements)
		if err != nil || !decided || table != previous {
			previous = table
			return false, err
		}
		_, err = io.WriteString(out, "\n"+table)
		return true, err
	})
}

// decisionTable also tells whether every Placement has conditions.
func decisionTable(ctx context.Context, client dynamic.Interface, placements []placementKey) (text string, decided bool, err error) {
	var buffer bytes.Buffer
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "SATISFIED", "REASON", "NUMBER", "CLUSTERS"}}
	decided = true
	for _, key := range placements {
		placement, err := client.Resource(clusterResource("placements")).Namespace(key.namespace).Get(ctx, key.name, metav1.GetOptions{})
		if err != nil {
			return "", false, fmt.Errorf("reading Placement %s/%s: %w", key.namespace, key.name, err)
		}
		conditions, _, _ := unstructured.NestedSlice(placement.Object, "status", "conditions")
		decided = decided && len(conditions) > 0
		satisfied, reason := "Unknown", ""
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok && c["type"] == "PlacementSatisfied" {
				satisfied, reason = fmt.Sprint(c["status"]), fmt.Sprint(c["reason"])
			}
		}
		number, _, _ := unstructured.NestedInt64(placement.Object, "status", "numberOfSelectedClusters")
		clusters, err := decidedClusters(ctx, client, key)
		if err != nil {
			return "", false, fmt.Errorf("reading the decisions of %s/%s: %w", key.namespace, key.name, err)
		}
		t.add(cell{text: key.namespace}, cell{text: key.name}, cell{text: satisfied}, cell{text: reason},
			cell{text: fmt.Sprint(number)}, cell{text: shorten(clusters)})
	}
	if err := t.print(&buffer, false); err != nil {
		return "", false, err
	}
	return buffer.String(), decided, nil
}

func decidedClusters(ctx context.Context, client dynamic.Interface, key placementKey) ([]string, error) {
	pages, err := client.Resource(clusterResource("placementdecisions")).Namespace(key.namespace).
		List(ctx, metav1.ListOptions{LabelSelector: placementLabel + "=" + key.name})
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
	return schema.GroupVersionResource{Group: clusterGroup, Version: "v1beta1", Resource: plural}
}

func shorten(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	if len(names) <= shownClusters {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, … %d more", strings.Join(names[:shownClusters], ", "), len(names)-shownClusters)
}
