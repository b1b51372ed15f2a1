package install

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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/config/admission"
)

// AdmissionPolicies applies the admission policies of a hub, which must serve
// MutatingAdmissionPolicies. The CRDs must exist. AwaitAdmissionPolicies waits until they work.
func AdmissionPolicies(ctx context.Context, config *rest.Config) error {
	editor, err := fs.Sub(admission.Editor, "editor")
	if err == nil {
		err = applyFiles(ctx, config, admission.FS)
	}
	if err == nil {
		err = applyFiles(ctx, config, editor)
	}
	if err != nil {
		return fmt.Errorf("installing the admission policies: %w", err)
	}
	return nil
}

// applyFiles applies the objects in the YAML files in the top folder of fsys, in order. It takes
// over fields of other field managers, so that applying again restores the files.
func applyFiles(ctx context.Context, config *rest.Config, fsys fs.FS) error {
	return forEachObject(config, fsys, func(resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		return apply(ctx, resource, object)
	})
}

// forEachObject calls do for the objects in the YAML files in the top folder of fsys, in order,
// until it returns an error. resource is the client of the object's kind and namespace.
func forEachObject(config *rest.Config, fsys fs.FS, do func(resource dynamic.ResourceInterface, object *unstructured.Unstructured) error) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("building the discovery client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))

	entries, err := fs.ReadDir(fsys, ".") // sorted
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if ext := path.Ext(entry.Name()); entry.IsDir() || ext != ".yaml" && ext != ".yml" || strings.HasPrefix(entry.Name(), "kustomization.") {
			continue
		}
		objects, err := readObjects(fsys, entry.Name())
		if err != nil {
			return fmt.Errorf("%s: %w", entry.Name(), err)
		}
		for _, object := range objects {
			resource, err := resourceFor(client, mapper, object)
			if err == nil {
				err = do(resource, object)
			}
			if err != nil {
				return fmt.Errorf("%s: %s %s: %w", entry.Name(), object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}

func resourceFor(client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
	}
	return client.Resource(mapping.Resource), nil
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

// apply applies an object, then its status, because the API server ignores status in the first
// request.
func apply(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
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
