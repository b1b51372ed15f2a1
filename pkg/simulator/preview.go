package simulator

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// Selected returns the clusters that would be selected for a Placement, sorted, whether or not the
// change may be published now. undecided is why nothing would be decided; empty otherwise.
func (s *Simulator) Selected(ctx context.Context, key types.NamespacedName) (names []string, undecided string, err error) {
	d, err := s.decide(ctx, key)
	switch {
	case err != nil:
		return nil, "", err
	case d.Attempt == nil:
		return nil, "it is " + d.skipped, nil
	}
	names, undecided = SelectedBy(d.Attempt)
	return names, undecided, nil
}

// SelectedBy returns the clusters that an attempt selected, sorted, or why it decided nothing.
func SelectedBy(d *scheduler.Attempt) (names []string, undecided string) {
	if d.Target != nil && d.Failure == nil {
		return slices.Clone(d.Target.Clusters), ""
	}
	for _, c := range d.Conditions() {
		if c.Type == v1alpha1.PlacementConditionMisconfigured && c.Status == metav1.ConditionTrue {
			return nil, c.Message
		}
	}
	if d.Failure != nil {
		return nil, d.Failure.Err().Error()
	}
	return nil, d.Message()
}

// WhyNot returns why a cluster would not be selected for a Placement; empty if it is not known.
func (s *Simulator) WhyNot(ctx context.Context, key types.NamespacedName, cluster string) string {
	report, err := s.Explain(ctx, key, cluster)
	if err != nil {
		return ""
	}
	return report.WhyNot(cluster)
}

// WhyNot returns why a cluster would not be selected; empty if it is not known.
func (report *Report) WhyNot(cluster string) string {
	if report.Answer == nil {
		return ""
	}
	for _, v := range report.Verdicts {
		if v.Cluster != cluster || v.Selected {
			continue
		}
		if v.Plugin != "" {
			return v.Plugin + ": " + v.Reason
		}
		return v.Reason
	}
	return report.NoCandidate
}
