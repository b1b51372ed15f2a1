// Package generator serves decisions to tools that ask for them over HTTP: to Argo CD's plugin
// generator and to the Flux Operator. It only reads the hub, and answers only users who may get
// PlacementDecisions there.
//
// Read server.go first: it checks the permission and the limits of a request. fleet.go follows the
// hub and refuses to answer from an incomplete view, entries.go makes one entry for each cluster,
// and tiers.go finds its tier.
//
// It may import api, access, client and clustercel.
package generator
