// Package chaos breaks, on a real API server, what a hub's life breaks: replicas, the hub itself,
// requests, pages, the clock, old objects, whole namespaces and leases. An observer in another
// process holds what it reads meanwhile to the architecture's laws 1, 2, 5, 7 and 8, and each spec
// ends with a row of the table that the suite prints: faults, writes, violations.
//
// BERTH_CHAOS=long repeats the faults more often; BERTH_SOAK=30m adds that long a run of random
// churn. BERTH_BIN names another berth, KUBEBUILDER_ASSETS another hub.
//
// It may import any package of Berth. Read trial_test.go first.
package chaos
