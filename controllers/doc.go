// Package controllers connects the engine to a hub: what feeds the inventory, what is reconciled,
// who writes status and events.
//
// It may import everything but the commands. Read setup.go first: the census of every loop and
// watch.
package controllers
