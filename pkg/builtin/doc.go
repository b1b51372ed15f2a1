// Package builtin is the table of contents: the plugins in the tree, and the default profile.
//
// It may import the plugin packages and the configuration.
package builtin
