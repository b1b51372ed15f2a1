// Package recording writes and reads recordings: the log of everything that decisions depend on,
// and of the decisions. A recording is a folder of segments; each begins with all objects, so that
// replay can begin there. docs/reference/recording.md describes the format.
//
// Read entry.go first: it has the entries. recorder.go takes them from the inventory and the
// scheduler without ever blocking them, segment.go writes them, and reader.go reads them back.
//
// It may import the API types, the framework and the inventory.
package recording
