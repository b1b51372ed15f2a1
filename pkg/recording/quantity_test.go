package recording

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestQuantityJSON: a quantity is read back as the same float64, in its notation and within the
// bounds of what is read.
func TestQuantityJSON(t *testing.T) {
	long := "64097605352188024624903210160815322200115415430381303584"
	for text, want := range map[string]string{
		"300m": "300m", "4": "4", "1.500": "1.500", "1536Mi": "1536Mi",
		"0.3": "0.3", "1.5k": "1500", "-0.01": "-10m", "0.00001": "0.01m", "1000E": "1000E",
		"0e309": "0e309", "0.3e1": "0.3e1", "1e-8": "10e-9", "1.5e11": "150e9",
		"0Ki": "0Ki", "1024Ki": "1Mi", "0.5Ki": "0.5000000000000000000Ki", "9Ei": "8Ei", "-9Ei": "-8Ei",
		"0.0000000001": "1n", "1000000000000000000000": "1000000000000000000k", "1230000000000000000000e999": "1230000000000000000000e999",
		long + "93.79696": long + "93.79696", long + "92295.1": long + "92295.1",
		strings.Repeat("9", 62) + "E": strings.Repeat("9", 62) + "E",
	} {
		var q v1alpha1.ResourceList
		if err := json.Unmarshal([]byte(`{"x":"`+text+`"}`), &q); err != nil || len(q) == 0 {
			t.Fatalf("%s: %v, %v", text, q, err)
		}
		got := quantityJSON(q["x"])
		var read v1alpha1.ResourceList
		if err := json.Unmarshal([]byte(`{"x":`+got+`}`), &read); err != nil || len(read) == 0 || !v1alpha1.IdenticalQuantities(q["x"], read["x"]) {
			t.Errorf("%s is written as %s and read as %v, %v", text, got, read, err)
		}
		if got != `"`+want+`"` {
			t.Errorf("%s is written as %s, want %q", text, got, want)
		}
	}
}
