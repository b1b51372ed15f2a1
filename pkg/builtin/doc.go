// Package builtin has the registry of the plugins in the tree, and the default profile.
//
// It may import api, the framework, the configuration and the three packages of plugins.
package builtin
