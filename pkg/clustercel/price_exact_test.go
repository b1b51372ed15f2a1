package clustercel

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// TestPrices: what calls cost, by their arguments.
func TestPrices(t *testing.T) {
	text := func(n int) ref.Val { return types.String(strings.Repeat("a", n)) }
	list := func(n int) ref.Val {
		values := make([]ref.Val, n)
		for i := range values {
			values[i] = types.Int(i)
		}
		return types.DefaultTypeAdapter.NativeToValue(values)
	}
	fields := types.DefaultTypeAdapter.NativeToValue(map[string]int{"a": 1, "b": 2})
	building := types.NewMutableList(types.DefaultTypeAdapter)
	for range 50 {
		building.Add(list(1))
	}
	tests := map[string]struct {
		function string
		args     []ref.Val
		want     uint64
	}{
		"a text in a map":             {operators.In, []ref.Val{text(990), fields}, 100},
		"a text in a list":            {operators.In, []ref.Val{text(990), list(20)}, 21},
		"two texts":                   {operators.Add, []ref.Val{text(990), text(490)}, 148},
		"two lists":                   {operators.Add, []ref.Val{list(30), list(20)}, 51},
		"a list that a macro builds":  {operators.Add, []ref.Val{building, list(20)}, 21},
		"a part of a text":            {"contains", []ref.Val{text(200), text(100)}, 251},
		"an element of a list":        {"indexOf", []ref.Val{list(20), text(90)}, 30},
		"a text split":                {"split", []ref.Val{text(100), types.String("a")}, 121},
		"a text split in characters":  {"split", []ref.Val{text(100), types.String("")}, 122},
		"a text split in a few parts": {"split", []ref.Val{text(100), types.String("a"), types.Int(3)}, 24},
		"a short list literal":        {literal, []ref.Val{types.Int(1)}, 10},
		"a long list literal":         {literal, []ref.Val{text(1990), text(1990)}, 310},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (&costs{}).price(tc.function, "", tc.args); got != tc.want {
				t.Errorf("it costs %d, want %d", got, tc.want)
			}
		})
	}
	for _, function := range []string{operators.In, operators.Add, operators.Equals, literal} {
		if !prices[function].afterwards {
			t.Errorf("%s is charged before it runs", function)
		}
	}
	for _, function := range []string{"contains", "split", "matches", rangeOf} {
		if prices[function].afterwards {
			t.Errorf("%s is charged after it ran", function)
		}
	}
}

// TestLeafWeight: a URL weighs what its parts do.
func TestLeafWeight(t *testing.T) {
	url := apiservercel.URL{URL: &url.URL{
		Opaque: "1", Host: "22", Path: "4444", RawPath: "88888888", RawQuery: strings.Repeat("q", 16), Fragment: strings.Repeat("f", 32),
		RawFragment: strings.Repeat("r", 64),
	}}
	if got := leafWeight(url); got != 127 {
		t.Errorf("it weighs %d, want 127", got)
	}
}
