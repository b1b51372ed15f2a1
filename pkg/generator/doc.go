// Package generator serves decisions to tools that ask for them over HTTP: to Argo CD's plugin
// generator and to the Flux Operator. It only reads the hub, and answers only users who may get
// PlacementDecisions there.
//
// Read server.go first: it checks the permission and the limits of a request. fleet.go follows the
// hub and refuses to answer from an incomplete view, entries.go makes one entry for each cluster,
// tiers.go finds its tier, and slots.go bounds the answers of one user, and about one namespace.
//
// It may import api, access, caches and client.
package generator
