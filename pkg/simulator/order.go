package simulator

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// InQueueOrder sorts Placements as a controller decides them: first those with published clusters,
// which it decided before, then the others in the order of its queue. An object without a creation
// time is the youngest. A Placement that does not exist comes first.
func (s *Simulator) InQueueOrder(keys []types.NamespacedName) []types.NamespacedName {
	type waiting struct {
		key       types.NamespacedName
		placement *v1alpha1.Placement
	}
	var decided []types.NamespacedName
	var queue []waiting
	for _, key := range keys {
		if s.had(key) {
			decided = append(decided, key)
			continue
		}
		pl := *s.inventory.Placement(key)
		if pl.CreationTimestamp.IsZero() {
			pl.CreationTimestamp = metav1.NewTime(s.now)
		}
		queue = append(queue, waiting{key, &pl})
	}
	slices.SortStableFunc(queue, func(a, b waiting) int {
		switch {
		case s.scheduler.Before(a.placement, b.placement):
			return -1
		case s.scheduler.Before(b.placement, a.placement):
			return 1
		}
		return 0
	})
	for _, w := range queue {
		decided = append(decided, w.key)
	}
	return decided
}

// DecideOnly is Decide for one Placement, after those without clusters that come before it. A
// failure of another Placement is not reported.
func (s *Simulator) DecideOnly(ctx context.Context, key types.NamespacedName) (*Report, error) {
	for _, other := range s.InQueueOrder(s.Placements()) {
		if other == key {
			break
		}
		if s.had(other) {
			continue
		}
		if _, err := s.Outline(ctx, other); err != nil && ctx.Err() != nil {
			return nil, err
		}
	}
	return s.Decide(ctx, key)
}

// had reports whether a Placement has published clusters, or does not exist.
func (s *Simulator) had(key types.NamespacedName) bool {
	subject := s.inventory.Subject(key)
	return subject == nil || hasClusters(subject)
}

func hasClusters(subject *framework.Subject) bool { return len(subject.LastNames()) > 0 }
