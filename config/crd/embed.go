// Package crd has the CRDs of Open Cluster Management's six kinds and of Berth's own, generated
// into bases from the types in api. It imports nothing else of Berth.
package crd

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed bases/*.yaml
var bases embed.FS

// All returns the CRDs, ordered by name. The caller owns them: every call parses them again.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := bases.ReadDir("bases")
	if err != nil {
		return nil, err
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, file := range files {
		body, err := bases.ReadFile("bases/" + file.Name())
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(body, crd); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", file.Name(), err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
