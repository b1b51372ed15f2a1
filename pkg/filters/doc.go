// Package filters has the PreFilter and Filter plugins, one file each.
//
// It may import the framework and the API types.
package filters
