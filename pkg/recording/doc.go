// Package recording writes and reads recordings: the log of everything that decisions depend on,
// and of the decisions. A recording is a folder of segments; each begins with all objects, so that
// replay can begin there. docs/reference/recording.md describes the format.
//
// Read entry.go first: it has the entries. recorder.go takes them from the inventory and the
// scheduler without ever blocking them, write.go and segment.go write them, and reader.go reads
// them back. prune.go keeps the recording small, and share.go says who loses what.
//
// It may import the API types, boundedfile, the framework and the inventory.
package recording
