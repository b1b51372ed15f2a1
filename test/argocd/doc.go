// Package argocd runs Argo CD's ApplicationSet controller, the real code of the version in go.mod,
// against decisions that Berth publishes on a real API server: bin/berth runs as a process, the
// generator and the controller as libraries in the test.
//
// It is a module of its own because Argo CD replaces the Kubernetes libraries with older ones than
// Berth's. It imports nothing of Berth. BERTH_BIN names another berth; KUBEBUILDER_ASSETS is obeyed
// by berth itself. go test cannot see that the programs or the samples changed: whoever wants its
// cache respected sets BERTH_INPUTS to a digest of them.
//
// Read following_test.go first.
package argocd
