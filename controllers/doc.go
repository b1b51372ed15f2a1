// Package controllers connects the engine to a hub. It feeds the inventory from watches, reconciles
// Placements and other objects, and writes status, events and records.
//
// It may import api, config and pkg. Read setup.go first: NewManager lists every loop and watch.
package controllers
