package install

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/config/crd"
)

const (
	// fieldManager is the field manager of everything that berth applies.
	fieldManager = "berth"
	// managedByLabel marks the CRDs that Berth installed and may replace.
	managedByLabel = "app.kubernetes.io/managed-by"

	crdTimeout = time.Minute
)

// CRDs applies Berth's CRDs and returns when the API server serves all of them, also in discovery.
// It does not change CRDs that something else installed; foreign has their names, also with an
// error.
func CRDs(ctx context.Context, config *rest.Config) (foreign []string, err error) {
	crds, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("reading the CRDs: %w", err)
	}
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the client for CRDs: %w", err)
	}
	var installed []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range crds {
		owned, err := applyCRD(ctx, client.CustomResourceDefinitions(), crd)
		if err != nil {
			return foreign, fmt.Errorf("installing CRD %s: %w", crd.Name, err)
		}
		if !owned {
			foreign = append(foreign, crd.Name)
			continue
		}
		installed = append(installed, crd)
	}
	if err := awaitServed(ctx, config, installed); err != nil {
		return foreign, fmt.Errorf("waiting for the CRDs: %w", err)
	}
	return foreign, nil
}

// applyCRD returns false and changes nothing if the CRD exists and is not Berth's.
func applyCRD(ctx context.Context, client apiextensions.CustomResourceDefinitionInterface, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	found, err := client.Get(ctx, crd.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	if err == nil && found.Labels[managedByLabel] != fieldManager {
		return false, nil
	}
	wanted := crd.DeepCopy()
	wanted.TypeMeta = metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"}
	wanted.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	if wanted.Labels == nil {
		wanted.Labels = map[string]string{}
	}
	wanted.Labels[managedByLabel] = fieldManager
	data, err := yaml.Marshal(wanted)
	if err != nil {
		return false, err
	}
	force := true
	_, err = client.Patch(ctx, crd.Name, types.ApplyYAMLPatchType, data, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	return true, err
}

// awaitServed waits for discovery, which follows the Established condition by up to a second. REST
// mappers and the choice of versions read discovery.
func awaitServed(ctx context.Context, config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	var missing sets.Set[string]
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, crdTimeout, true, func(context.Context) (bool, error) {
		missing = sets.New[string]()
		for _, crd := range crds {
			for _, v := range crd.Spec.Versions {
				if v.Served {
					missing.Insert(crd.Spec.Group + "/" + v.Name + " " + crd.Spec.Names.Plural)
				}
			}
		}
		// An error may be about other groups, or temporary. Only the missing kinds matter.
		_, lists, _ := client.ServerGroupsAndResources()
		for _, list := range lists {
			for _, resource := range list.APIResources {
				missing.Delete(list.GroupVersion + " " + resource.Name)
			}
		}
		return missing.Len() == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%w; not served: %v", err, sets.List(missing))
	}
	return nil
}
