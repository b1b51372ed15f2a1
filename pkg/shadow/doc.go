// Package shadow decides with shadow profiles beside the profiles that count, and compares both.
// It publishes nothing.
//
// It may import api, changes, the framework and the engine. Read shadows.go first: it receives the
// decisions of the controller. worker.go decides, comparison.go keeps what is known of each
// Placement.
package shadow
