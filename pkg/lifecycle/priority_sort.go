package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PrioritySortName is the plugin's name.
const PrioritySortName = "PrioritySort"

// PrioritySort is the default QueueSort plugin: of the Placements that wait, the one with the
// highest priority is decided first, among equals the oldest, and among those of one second the
// first by namespace and name.
type PrioritySort struct{}

// NewPrioritySort is the plugin's factory.
func NewPrioritySort(_ context.Context, args json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	if _, err := framework.DecodeArgs(args, struct{}{}); err != nil {
		return nil, err
	}
	return PrioritySort{}, nil
}

// Name implements framework.Plugin.
func (PrioritySort) Name() string { return PrioritySortName }

// Less implements framework.QueueSortPlugin. It is a strict total order of Placements with
// different keys.
func (PrioritySort) Less(a, b *v1alpha1.Placement) bool {
	return cmp.Or(
		cmp.Compare(Priority(b), Priority(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

// Priority is the Placement's priority, from the annotation berth.dev/priority; 0 when it is
// missing, is no integer, or is out of the range of 32 bits.
func Priority(pl *v1alpha1.Placement) int32 {
	p, err := strconv.ParseInt(pl.Annotations[v1alpha1.PriorityAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(p)
}
