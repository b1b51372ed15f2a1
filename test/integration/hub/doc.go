// Package hub tests `berth up` from outside. bin/berth and the programs in bin/hub run as processes
// on their own data directories, and the tests interrupt and kill them. BERTH_BIN selects another
// berth binary; berth reads KUBEBUILDER_ASSETS itself.
//
// It may import any package of Berth. Read hub_test.go first.
package hub
