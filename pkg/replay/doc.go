// Package replay makes recorded decisions again, with the engine that the controller runs. It
// compares them with the recorded ones, explains one of them, or makes them under another
// configuration.
//
// Read player.go first: it applies the entries of a recording in their order. It may import
// recording and, of pkg, scheduler, builtin and inventory.
package replay
