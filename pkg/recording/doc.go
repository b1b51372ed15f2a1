// Package recording writes and reads recordings: the log of everything that decisions depend on,
// and of the decisions. A recording is a folder of segments; each begins with all objects, so that
// replay can begin there.
//
// # Files
//
// <time>-<run>-<number>.<part>.jsonl.zst: when the file begins, in UTC; eight characters for one
// start of the program; the number of the segment in this run, from 1; its part, from 0. Files have
// mode 0600, the folder 0700. Each is one stream of JSON lines (Entry), compressed with zstd,
// flushed every second, with a checksum at its end. A segment ends after an hour in which something
// was recorded; its next part begins after 64 MiB of text, or an eighth of the size of the
// recording if that is less. After the stream, a frame that zstd skips has the bytes of each share.
// Values are read back bit for bit: cpu 0.3 is not written as 300m.
//
// # Order
//
// A file begins with a header. In the first part of a segment, a gap follows if entries were lost,
// then a checkpoint: the next entries are the contents of the inventory. A segment continues the
// one before it if both are of the same run with numbers that follow each other, the earlier one
// has an end, and there is no gap. Then come decisions and inputs: changes of the contents that a
// decision could read, with a number, from 1 in each run.
//
// # Shares
//
// An entry is in the share of its namespace or cluster (ShareOf). If the folder is larger than
// seven eighths of its size, the share that uses the most loses its oldest entries, until the
// folder has three quarters: its objects are reduced to what decisions about other shares read,
// then its decisions are removed, then its other inputs, and no decision is made again until the
// next checkpoint.
//
// Read entry.go first: it has the entries. recorder.go takes them from the inventory and the
// scheduler without ever blocking them, write.go and segment.go write them, and reader.go reads
// them back. prune.go keeps the recording small, and share.go says who loses what.
//
// It may import the API types, boundedfile, the framework and the inventory.
package recording
