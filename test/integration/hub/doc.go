// Package hub tests `berth up` from outside: bin/berth and the programs in bin/hub run as processes
// on data directories of their own, and are interrupted and killed. BERTH_BIN names another berth;
// KUBEBUILDER_ASSETS is obeyed by berth itself.
//
// It may import any package of Berth. Read hub_test.go first.
package hub
