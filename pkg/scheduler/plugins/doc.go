// Package plugins has the profiles: which plugins run at each extension point, and how the engine
// calls them.
//
// It may import api, framework and config. Read profile.go first.
package plugins
