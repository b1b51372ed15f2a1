// Package filters has the PreFilter and Filter plugins, one file each.
//
// It may import api, the framework and clustercel.
package filters
