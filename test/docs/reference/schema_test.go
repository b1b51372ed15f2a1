package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestList: equal objects are described once, those of Kubernetes not at all, and bounds that a
// description has are not repeated.
func TestList(t *testing.T) {
	selector := `"properties": {"key": {"type": "string", "description": "key is the key."}, "values": {"type": "array", "maxItems": 3, "items": {"type": "string"}}}, "required": ["key"]`
	text := `{"properties": {
		"a": {"type": "array", "items": {"type": "object", ` + selector + `}},
		"b": {"type": "object", "description": "b selects. At most 10 terms.", "maxProperties": 10, ` + selector + `},
		"c": {"type": "integer", "description": "c is a time, from 1 to 9; the default is 2.", "minimum": 1, "maximum": 9, "default": 2},
		"c2": {"type": "object", "description": "c2 selects.", "properties": {"matchLabels": {"type": "object"}, "matchExpressions": {"type": "array", "items": {"type": "object"}}}},
		"d": {"type": "string", "description": "d is On or Off.", "enum": ["On", "Off"], "default": "On"}
	}}`
	want := "- `a` ([]object)\n" +
		"- `a[].key` (string): The key. Required.\n" +
		"- `a[].values` ([]string): At most 3.\n" +
		"- `b` (object): b selects. At most 10 terms. Fields: as `a[]` of Kind.\n" +
		"- `c` (integer): A time, from 1 to 9; the default is 2.\n" +
		"- `c2` (object): c2 selects. Fields: Kubernetes' `LabelSelector`.\n" +
		"- `d` (string): On or Off. Default `\"On\"`.\n"
	var s schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, fieldLists{}.list(s, "Kind", "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
