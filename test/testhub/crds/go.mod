module github.com/berth-dev/berth/test/testhub/crds

go 1.26.3

// For their CRDs. Nothing imports them, so go mod tidy would remove them.
require (
	open-cluster-management.io/api v1.3.0
	sigs.k8s.io/cluster-inventory-api v0.1.0
)
