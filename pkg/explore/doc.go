// Package explore serves the page of `berth explore`: the fleet as a matrix of clusters and
// Placements, with the reason for each cell.
//
// Read server.go first: it defines the requests and which clients may make them. view.go converts
// the simulator's reports into the page's data; it decides nothing. page/ is the page itself,
// embedded as it is written: no build step and no external resources.
//
// resilience.go computes which domains Placements can lose, in the background.
//
// It may import api, the framework, resilience and simulator.
package explore
