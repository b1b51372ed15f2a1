// Package prioritizers has the PreScore and Score plugins, one file each.
//
// It may import the framework and the API types.
package prioritizers
