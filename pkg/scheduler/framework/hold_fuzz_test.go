package framework_test

import (
	"slices"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// FuzzHoldOf: held pages are objects that whoever writes pages can edit. Whatever they say, what is read as a hold has the clusters
// that its token stands for, and says the same in any order of the pages.
func FuzzHoldOf(f *testing.F) {
	f.Add(`{"token":"abc-1","deadlines":{"Approval":"2026-06-01T10:00:00Z"}}`, "c1", "c2")
	f.Add(`{"token":"-"}`, "", "")
	f.Add(`{"deadlines":null}`, "c1", "c1")
	f.Fuzz(func(t *testing.T, record, one, two string) {
		page := func(name string, clusters ...string) *v1alpha1.PlacementDecision {
			p := fixture.Page("n", name).Label(v1alpha1.HeldLabel, "p").Lists(clusters...).Obj()
			p.Annotations = map[string]string{v1alpha1.HoldAnnotation: record}
			return p
		}
		pages := []*v1alpha1.PlacementDecision{page("a", one), page("b", two)}
		hold := framework.HoldOf(pages)
		slices.Reverse(pages)
		again := framework.HoldOf(pages)
		if (hold == nil) != (again == nil) {
			t.Fatalf("%v, and the other way round %v", hold, again)
		}
		if hold != nil && (hold.Token != again.Token || !slices.Equal(hold.Clusters, again.Clusters)) {
			t.Errorf("%v, and the other way round %v", hold, again)
		}
	})
}
