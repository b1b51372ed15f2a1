package lifecycle

import (
	"cmp"
	"strconv"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// PrioritySortName is the plugin's name.
const PrioritySortName = "PrioritySort"

// PrioritySort orders the Placements that wait to be decided: the one with the highest annotation
// berth.dev/priority (a 32-bit integer; 0 if missing or invalid) first, among equals the oldest,
// then the first by namespace and name. A Placement with a high priority takes no cluster from
// another one.
type PrioritySort struct{}

// Name implements framework.Plugin.
func (PrioritySort) Name() string { return PrioritySortName }

// Less implements framework.QueueSortPlugin. It is a strict total order.
func (PrioritySort) Less(a, b *v1alpha1.Placement) bool {
	return cmp.Or(
		cmp.Compare(Priority(b), Priority(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

// Priority returns the value of the annotation berth.dev/priority; 0 if it is missing or not a
// 32-bit integer.
func Priority(pl *v1alpha1.Placement) int32 {
	p, err := strconv.ParseInt(pl.Annotations[v1alpha1.PriorityAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(p)
}
