package argocd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	namespace = "argocd"
	placement = "local-cluster"
	group     = "cluster.open-cluster-management.io"
)

// samples is the folder of the manifests that the user guide applies.
var samples = filepath.Join("..", "..", "config", "samples", "argocd")

// parse reads YAML documents.
func parse(manifests string) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(bytes.TrimSpace(document), &object.Object)).To(Succeed())
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// read returns the objects of a sample.
func read(file string) []*unstructured.Unstructured {
	GinkgoHelper()
	data, err := os.ReadFile(filepath.Join(samples, file))
	Expect(err).NotTo(HaveOccurred())
	return parse(string(data))
}

func apply(ctx context.Context, object *unstructured.Unstructured) {
	GinkgoHelper()
	Expect(hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership)).To(Succeed())
}

// applyFile applies the objects of a file, into the namespace if one is given.
func applyFile(ctx context.Context, file, namespace string) {
	GinkgoHelper()
	data, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	for _, object := range parse(string(data)) {
		if namespace != "" {
			object.SetNamespace(namespace)
			if subjects, ok, _ := unstructured.NestedSlice(object.Object, "subjects"); ok {
				subjects[0].(map[string]any)["namespace"] = namespace
				Expect(unstructured.SetNestedSlice(object.Object, subjects, "subjects")).To(Succeed())
			}
		}
		apply(ctx, object)
	}
}

// patch merges JSON into an object.
func patch(ctx context.Context, object client.Object, format string, args ...any) {
	GinkgoHelper()
	Expect(hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))).To(Succeed())
}

func named(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func placementObject() *unstructured.Unstructured {
	return named(group+"/v1beta1", "Placement", namespace, placement)
}

func cluster(name string) *unstructured.Unstructured {
	return named(group+"/v1", "ManagedCluster", "", name)
}

// join makes a cluster of the Placement's set, with the label ring.
func join(ctx context.Context, name, ring string) {
	GinkgoHelper()
	object := cluster(name)
	object.SetLabels(map[string]string{group + "/clusterset": "clusterset1", "ring": ring})
	Expect(hub.Create(ctx, object)).To(Succeed())
}

// addSecret makes a cluster known to Argo CD.
func addSecret(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cluster-" + name,
			Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster"}},
		StringData: map[string]string{"name": name, "server": server(name), "config": "{}"},
	})).To(Succeed())
}

func server(name string) string { return "https://" + name + ".example.com" }

// page is a published page.
type page struct {
	object   *unstructured.Unstructured
	name     string
	group    string
	clusters []string
}

// pages are the published pages by name.
func pages(ctx context.Context) []page {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(group + "/v1beta1")
	list.SetKind("PlacementDecisionList")
	Expect(hub.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{group + "/placement": placement})).To(Succeed())
	var published []page
	for _, item := range list.Items {
		p := page{object: &item, name: item.GetName(), group: item.GetLabels()[group+"/decision-group-name"]}
		decisions, _, err := unstructured.NestedSlice(item.Object, "status", "decisions")
		Expect(err).NotTo(HaveOccurred())
		for _, decision := range decisions {
			p.clusters = append(p.clusters, decision.(map[string]any)["clusterName"].(string))
		}
		published = append(published, p)
	}
	slices.SortFunc(published, func(a, b page) int { return strings.Compare(a.name, b.name) })
	return published
}

// contents are the pages' clusters by page name.
func contents(published []page) map[string][]string {
	clusters := map[string][]string{}
	for _, p := range published {
		clusters[p.name] = p.clusters
	}
	return clusters
}

// sizes is a check for Eventually: how many clusters the pages hold, by page name.
func sizes(ctx context.Context) func() []int {
	return func() []int {
		var sizes []int
		for _, p := range pages(ctx) {
			sizes = append(sizes, len(p.clusters))
		}
		return sizes
	}
}

// inGroup is a check for Eventually: the clusters on the pages of a decision group.
func inGroup(ctx context.Context, name string) func() []string {
	return func() []string {
		clusters := []string{}
		for _, p := range pages(ctx) {
			if p.group == name {
				clusters = append(clusters, p.clusters...)
			}
		}
		return clusters
	}
}

// pause makes Berth leave the Placement and its pages alone, resume ends that.
func pause(ctx context.Context) {
	GinkgoHelper()
	patch(ctx, placementObject(), `{"metadata":{"annotations":{"%s/experimental-scheduling-disable":"true"}}}`, group)
}

func resume(ctx context.Context) {
	GinkgoHelper()
	patch(ctx, placementObject(), `{"metadata":{"annotations":{"%s/experimental-scheduling-disable":null}}}`, group)
}

// add puts a cluster on the first page of a decision group by hand; if it is there, the page stays
// as it is.
func add(ctx context.Context, g Gomega, group, name string) {
	GinkgoHelper()
	published := pages(ctx)
	at := slices.IndexFunc(published, func(p page) bool { return p.group == group })
	g.Expect(at).NotTo(Equal(-1))
	if slices.Contains(published[at].clusters, name) {
		return
	}
	object := published[at].object
	decisions, _, err := unstructured.NestedSlice(object.Object, "status", "decisions")
	g.Expect(err).NotTo(HaveOccurred())
	decisions = append(decisions, map[string]any{"clusterName": name, "reason": ""})
	g.Expect(unstructured.SetNestedSlice(object.Object, decisions, "status", "decisions")).To(Succeed())
	g.Expect(hub.Status().Update(ctx, object)).To(Succeed())
}
