package lifecycle

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// ranked is a Placement with a priority (empty: without the annotation) and an age.
func ranked(namespace, name, priority string, created int64) *v1alpha1.Placement {
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Unix(created, 0)),
	}}
	if priority != "" {
		pl.Annotations = map[string]string{v1alpha1.PriorityAnnotation: priority}
	}
	return pl
}

func TestPriority(t *testing.T) {
	tests := map[string]struct {
		annotation string
		want       int32
	}{
		"none":            {},
		"positive":        {annotation: "7", want: 7},
		"negative":        {annotation: "-7", want: -7},
		"the highest":     {annotation: "2147483647", want: 2147483647},
		"the lowest":      {annotation: "-2147483648", want: -2147483648},
		"beyond 32 bits":  {annotation: "2147483648"},
		"not a number":    {annotation: "high"},
		"not an integer":  {annotation: "1.5"},
		"with whitespace": {annotation: " 1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Priority(ranked("ns", "p", tc.annotation, 0)); got != tc.want {
				t.Errorf("priority %d, want %d", got, tc.want)
			}
		})
	}
}

func TestPrioritySortOrder(t *testing.T) {
	queue := []*v1alpha1.Placement{
		ranked("b", "young", "", 20),
		ranked("b", "low", "-1", 1),
		ranked("b", "old", "", 10),
		ranked("b", "high", "9", 30),
		ranked("a", "young", "", 20),
		ranked("a", "odd", "very", 15),
		ranked("a", "zero", "0", 20),
	}
	slices.SortFunc(queue, func(a, b *v1alpha1.Placement) int {
		if (PrioritySort{}).Less(a, b) {
			return -1
		}
		return 1
	})
	var got []string
	for _, pl := range queue {
		got = append(got, pl.Namespace+"/"+pl.Name)
	}
	want := []string{"b/high", "b/old", "a/odd", "a/young", "a/zero", "b/young", "b/low"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestPrioritySortIsAStrictTotalOrder holds for any three Placements.
func TestPrioritySortIsAStrictTotalOrder(t *testing.T) {
	placement := rapid.Custom(func(t *rapid.T) *v1alpha1.Placement {
		return ranked(
			rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"),
			rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"),
			rapid.SampledFrom([]string{"", "0", "1", "-1", "x"}).Draw(t, "priority"),
			rapid.Int64Range(0, 2).Draw(t, "created"))
	})
	less := PrioritySort{}.Less
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := placement.Draw(t, "a"), placement.Draw(t, "b"), placement.Draw(t, "c")
		if less(a, b) && less(b, a) {
			t.Fatal("each of two is before the other")
		}
		if (a.Namespace != b.Namespace || a.Name != b.Name) && !less(a, b) && !less(b, a) {
			t.Fatal("neither of two is before the other")
		}
		if less(a, b) && less(b, c) && !less(a, c) {
			t.Fatal("the order is not transitive")
		}
	})
}
