package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
	"github.com/berth-dev/berth/test/fixture"
)

// TestLeftClustersAreBounded: of too many clusters that left, those that qualify longest are
// forgotten.
func TestLeftClustersAreBounded(t *testing.T) {
	p := &policySelection{left: make([][]selection.LeftCluster, 3)}
	for i := range 600 {
		name := fmt.Sprintf("%03d", 599-i)
		p.left[0] = append(p.left[0], selection.LeftCluster{Name: "down-" + name}, selection.LeftCluster{Name: "old-" + name, Since: fixture.Now})
		p.left[1] = append(p.left[1], selection.LeftCluster{Name: "new-" + name, Since: fixture.Now.Add(time.Second)})
	}
	p.limitLeft()
	if got := len(p.left[0]) + len(p.left[1]); got != berthv1alpha1.MaxLeftClusters {
		t.Errorf("%d are kept", got)
	}
	want := []string{"down-000", "down-599", "new-000", "new-399"}
	if got := []string{p.left[0][0].Name, p.left[0][599].Name, p.left[1][0].Name, p.left[1][399].Name}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
