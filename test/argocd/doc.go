// Package argocd runs Argo CD's ApplicationSet controller, in the version of go.mod, against
// decisions that Berth publishes on a real API server. bin/berth runs as a process. The generator
// and the controller run as libraries in the test.
//
// It is a separate module because Argo CD needs older Kubernetes libraries than Berth. It imports
// nothing of Berth. BERTH_BIN selects another berth binary; berth reads KUBEBUILDER_ASSETS itself.
// go test's cache does not notice changed programs or samples: set BERTH_INPUTS to a digest of them
// to make it run again.
//
// Read following_test.go first.
package argocd
