// Package selection chooses clusters: ranked candidates and a demand in, the chosen candidates out.
// It is pure, knows no plugin, and imports api only. Read select.go first.
package selection
