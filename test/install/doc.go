// Package install renders the kustomizations and the Helm chart and applies them to a real API
// server as a dry run. It runs bin/berth there with the permissions of its service account only.
// The audit log shows that berth uses all of them and needs no others. It also checks that alerts
// and dashboard use metrics that exist, builds the image and runs it, lets krew install from a
// release, and runs the commands of docs/install.md.
//
// It is a separate module because of the dependencies of Helm, kustomize and others. It imports
// nothing of Berth. BERTH_BIN selects another berth binary, KUBEBUILDER_ASSETS another API server.
// go test's cache does not notice that those or the manifests changed: set BERTH_INPUTS to a digest
// of them to make it run again.
//
// Read rights_test.go first.
package install
