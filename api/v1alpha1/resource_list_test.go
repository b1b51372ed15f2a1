package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestResourceListOmitsInvalidQuantities(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want map[string]string
	}{
		"null":               {text: `null`},
		"empty":              {text: `{}`, want: map[string]string{}},
		"quantities":         {text: `{"cpu": "500m", "memory": "1Gi", "pods": 110, "x": "1e3", "y": "-1E-3"}`, want: map[string]string{"cpu": "500m", "memory": "1Gi", "pods": "110", "x": "1e3", "y": "-1E-3"}},
		"exa":                {text: `{"x": "1E", "y": "2Ei"}`, want: map[string]string{"x": "1E", "y": "2Ei"}},
		"years to read":      {text: `{"a": "1e-2147483647", "b": "1e-10000000", "cpu": "1"}`, want: map[string]string{"cpu": "1"}},
		"years to compare":   {text: `{"a": "1e100000000", "b": 1e100000000, "cpu": "1"}`, want: map[string]string{"cpu": "1"}},
		"zeros first":        {text: `{"a": "1e-0000010000", "b": "1e+0003"}`, want: map[string]string{"b": "1e+0003"}},
		"escaped":            {text: `{"a": "1\u0065-10000000", "b": "\u0031"}`, want: map[string]string{}},
		"long":               {text: `{"a": "` + strings.Repeat("9", 1_000_000) + `", "cpu": "1"}`, want: map[string]string{"cpu": "1"}},
		"what a schema lets": {text: `{"a": "1e1.5", "b": "", "c": null, "cpu": "1"}`, want: map[string]string{"cpu": "1", "c": "0"}},
		"other types":        {text: `{"a": true, "b": [], "c": {}, "cpu": "1"}`, want: map[string]string{"cpu": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var status ManagedClusterStatus
			if err := json.Unmarshal([]byte(`{"allocatable": `+tc.text+`}`), &status); err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			if status.Allocatable != nil {
				got = map[string]string{}
			}
			for name, q := range status.Allocatable {
				got[string(name)] = q.String()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIdenticalQuantities(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b string
		want bool
	}{
		"same":         {"300m", "300m", true},
		"same, parsed": {"1024Ki", "1Mi", true},
		"value":        {"1", "2", false},
		"float64":      {"0.3", "300m", false},
		"no number":    {"0e309", "0e3", false},
		"text":         {"1.500", "1500m", false},
		"format":       {"1k", "1e3", false},
		"lossy text":   {"1000E", "1", false},
	} {
		a, b := resource.MustParse(tc.a), resource.MustParse(tc.b)
		if got := IdenticalQuantities(a, b); got != tc.want {
			t.Errorf("%s: %s and %s: %t, want %t", name, tc.a, tc.b, got, tc.want)
		}
	}
}

func FuzzResourceList(f *testing.F) {
	for _, seed := range []string{`{"cpu": "500m"}`, `{"a": "1e-999", "b": 1e3}`, `{"a": "1\u0065-9999999"}`, `null`, `[]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var list ResourceList
		if json.Unmarshal([]byte(text), &list) != nil {
			return
		}
		for name, q := range list {
			for other, r := range list {
				if (q.Cmp(r) == 0) != (r.Cmp(q) == 0) {
					t.Errorf("%s and %s are equal in one direction only", name, other)
				}
			}
			_ = q.AsApproximateFloat64()
		}
		again, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		var read ResourceList
		if err := json.Unmarshal(again, &read); err != nil {
			t.Errorf("%s is written as %s: %v", text, again, err)
		}
	})
}
