// Package decisions arranges the clusters chosen for a Placement into decision groups and pages. It
// plans the writes from the published pages to the wanted ones, such that no reader ever misses a
// cluster that stays.
//
// Everything is a pure function: the same inputs give the same plan. Read plan.go first. groups.go
// assigns clusters to groups, layout.go assigns them to pages, and page_names.go names the pages.
// order.go orders the writes; labels.go and slots.go keep the group indexes that readers see
// meanwhile complete. page.go builds the object of a page. profiles.go plans the pages of
// ClusterProfiles. scores.go limits how often scores alone are published.
//
// Inside Berth the package may import only api.
package decisions
