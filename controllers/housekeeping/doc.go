// Package housekeeping has the loops that a hub needs without Open Cluster Management's
// registration controller: they maintain clusters, their leases, sets and bindings, and make
// clusters of ClusterProfiles.
//
// It may import api and decisions. Read setup.go first: SetUp lists the loops.
package housekeeping
