module github.com/berth-dev/berth/test/flux

go 1.26.3

// For its CRD. Nothing imports it, so go mod tidy would remove it.
require github.com/fluxcd/kustomize-controller v1.9.6
