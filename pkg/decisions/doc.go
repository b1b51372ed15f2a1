// Package decisions arranges the clusters chosen for a Placement into decision groups and pages,
// and plans the writes that take the published pages there without a reader ever missing a cluster
// that stays.
//
// Everything is a pure function of its arguments: the same inputs give the same plan. Read plan.go
// first; groups.go says which group claims which cluster, layout.go where each cluster goes,
// order.go in which order pages are written, indexes.go which group indexes readers see meanwhile,
// page.go what a page looks like as an object, profiles.go how the same answer is planned as pages
// of ClusterProfiles, and scores.go how often scores alone may be published.
//
// Inside Berth the package may import api only.
package decisions
