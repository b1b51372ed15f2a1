// Package threat holds docs/threat-model.md to the code: what the author of a Placement can learn
// of what lies outside the author's namespace and the sets bound to it.
//
// It may import anything and has tests only. Read author_test.go first.
package threat
