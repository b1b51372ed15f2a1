// Package extender is the plugin that uses the answers of an extender: a server that filters and
// scores clusters. The plugin decides only by the answers in the Snapshot, so that a decision never
// waits for a server, and a recording can be replayed. If answers are missing or too old, it asks
// through the Handle; pkg/extenders sends the requests.
//
// It may import the API types, the framework and the configuration.
package extender
