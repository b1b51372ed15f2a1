// Package install renders what a hub is given, kustomizations and the Helm chart, has a real API
// server try it, and runs bin/berth there as the Deployment would, with the rights of its service
// account and no others, which the audit log shows to be neither more nor less than it uses. It
// also holds alerts and dashboard to metrics that exist.
//
// It is a module of its own because of what Helm, kustomize and Prometheus bring. It imports
// nothing of Berth. BERTH_BIN names another berth, KUBEBUILDER_ASSETS another API server. go test
// cannot see that those or the manifests changed: whoever wants its cache respected sets
// BERTH_INPUTS to a digest of them.
//
// Read rights_test.go first.
package install
