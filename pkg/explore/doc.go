// Package explore serves the page of `berth explore`: the fleet as a matrix of clusters by
// Placements, and why each cell is what it is.
//
// Read server.go first: who may ask, and for what. view.go turns the simulator's reports into what
// the page reads; nothing is decided here. page/ is the page itself, embedded as it is written: no
// build step, nothing from elsewhere.
//
// It may import, of pkg, simulator and the plugin contract.
package explore
