package hub

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func newConfigMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func newPlacement(namespace, name string) *unstructured.Unstructured {
	return newObject("cluster.open-cluster-management.io/v1beta1", "Placement", namespace, name, map[string]any{})
}

func newPage(namespace, name string) *unstructured.Unstructured {
	return newObject("cluster.open-cluster-management.io/v1beta1", "PlacementDecision", namespace, name, nil)
}

func newBoat(namespace, name string) *unstructured.Unstructured {
	return newObject("harbour.example.com/v1", "Boat", namespace, name, nil)
}

func newBoatCRD() *unstructured.Unstructured {
	return newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "boats.harbour.example.com", map[string]any{
		"group": "harbour.example.com",
		"scope": "Namespaced",
		"names": map[string]any{"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
		}},
	})
}

func newObject(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	object.SetName(name)
	if namespace != "" {
		object.SetNamespace(namespace)
	}
	if spec != nil {
		object.Object["spec"] = spec
	}
	return object
}

// etcdURL is where the hub remembers to have put etcd.
func etcdURL(dataDir string) string {
	GinkgoHelper()
	data, err := os.ReadFile(filepath.Join(dataDir, "ports.json"))
	Expect(err).NotTo(HaveOccurred())
	var ports struct{ Etcd int }
	Expect(json.Unmarshal(data, &ports)).To(Succeed())
	return fmt.Sprintf("https://127.0.0.1:%d", ports.Etcd)
}
