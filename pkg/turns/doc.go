// Package turns runs functions of namespaces in turn, so that one namespace with many functions, or
// with long ones, delays others by at most one. Attempts, the validation webhook and the explorer
// use it.
//
// Read turns.go. It imports nothing of Berth.
package turns
