// Package notifications sends CloudEvents over HTTP when a Placement gets into a state that a
// person should know, and when it leaves the state. docs/notifications.md describes the events.
//
// Read event.go first: it compares two states of a Placement. sender.go sends in the background,
// with a bounded queue for each receiver, so that nothing waits for a receiver.
//
// It may import the API types, the configuration and pkg/outbound.
package notifications
