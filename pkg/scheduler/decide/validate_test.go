package decide

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestNameOfAPlacement may be as long as a label's value.
func TestNameOfAPlacement(t *testing.T) {
	for n, want := range map[int]bool{v1alpha1.MaxLabelValueLength: false, v1alpha1.MaxLabelValueLength + 1: true} {
		if mistake := validate(fixture.Placement("ns", strings.Repeat("p", n)).Obj()); (mistake != nil) != want {
			t.Errorf("%d bytes: %v", n, mistake)
		}
	}
}
