// Package threat tests docs/threat-model.md: what the author of a Placement can learn about objects
// outside the author's namespace and the sets bound to it.
//
// It may import any package of Berth and has tests only. Read author_test.go first.
package threat
