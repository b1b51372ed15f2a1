// Package caches is the table of all objects that Berth's processes keep in memory: who writes
// them, what is kept of them, and how much that can be. Every cache uses it.
//
// It may import api and the framework. Read table.go first.
package caches
