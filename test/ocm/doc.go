// Package ocm tests Berth on a hub of Open Cluster Management: Berth starts under the command line
// and with the permissions of OCM's placement controller, takes over that controller's pages and
// hands them back, and OCM's own decision tracker and rollout read every single write.
//
// It is a separate module, because it needs OCM's modules, and it imports nothing of Berth.
// BERTH_BIN selects another berth binary. Read suite_test.go first.
package ocm
