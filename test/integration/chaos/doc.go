// Package chaos causes faults on a real API server: in replicas, the hub itself, requests, old
// objects and leases. An observer in another process checks laws 1, 2,
// 5, 7 and 8 of the architecture against the objects that it reads. Each spec adds a row to the
// table that the suite prints: faults, writes, violations.
//
// BERTH_CHAOS=long repeats the faults more often. BERTH_SOAK=30m adds a run of that length with
// random churn. BERTH_BIN selects another berth binary, KUBEBUILDER_ASSETS another hub.
//
// It may import any package of Berth. Read trial_test.go first.
package chaos
