// Package selection chooses clusters: it takes ranked candidates and a demand, and returns the
// chosen candidates. It is pure, knows no plugin, and may import only api. Read select.go first.
package selection
