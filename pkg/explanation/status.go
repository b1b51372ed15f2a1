package explanation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// maxText bounds reasons and other texts in a verdict, in bytes. A reason can quote a long CEL
// expression.
const maxText = 512

// QuestionOf returns the question of a PlacementExplanation, or what is wrong with its spec.
func QuestionOf(e *berthv1alpha1.PlacementExplanation) (Question, error) {
	q := Question{Clusters: e.Spec.Clusters, Limit: int(e.Spec.Limit), Submitted: e, Edits: e.Spec.Edits}
	if q.Limit == 0 {
		q.Limit = berthv1alpha1.DefaultVerdicts
	}
	if err := simulator.CheckClusterEdits(q.Edits); err != nil {
		return q, fmt.Errorf("spec.%w", err)
	}
	if e.Spec.Domains != "" {
		key, err := resilience.ParseKey(e.Spec.Domains)
		if err != nil {
			return q, fmt.Errorf("spec.domains: %w", err)
		}
		q.Domains = &key
	}
	if e.Spec.Placement != "" {
		q.Placement, q.Template = types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Placement}, e.Spec.Template
		return q, nil
	}
	t := e.Spec.Template
	q.New = &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Name, UID: e.UID, Generation: 1, CreationTimestamp: e.CreationTimestamp,
			Labels: t.Metadata.Labels, Annotations: t.Metadata.Annotations,
		},
		Spec: t.Spec,
	}
	return q, nil
}

// SetStatus writes the report of an Answer into a status, except the conditions Explained and
// Throttled. It sets LeftOut.
func (a *Result) SetStatus(status *berthv1alpha1.PlacementExplanationStatus, now time.Time) {
	status.DecidedTime = &metav1.Time{Time: now}
	status.Change, status.Resilience = changeOf(a, now), resilienceOf(a)
	report := a.Report
	if report.Answer == nil {
		return
	}
	status.Candidates, status.SelectedClusters = int32(len(report.AvailableClusters)), int32(report.NumberOfSelectedClusters)
	for _, c := range report.Conditions {
		v1alpha1.SetCondition(&status.Conditions, metav1.Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: metav1.Time{Time: now},
		})
	}
	status.Decisions = decisionsOf(report)
	status.Counts = report.Counts[:min(len(report.Counts), berthv1alpha1.MaxReasonCounts)]
	for _, name := range slices.Sorted(maps.Keys(report.PrioritizerScores)) {
		status.Prioritizers = append(status.Prioritizers, berthv1alpha1.PrioritizerWeight{Name: name, Weight: report.PrioritizerScores[name].Weight})
	}
	status.Prioritizers = status.Prioritizers[:min(len(status.Prioritizers), berthv1alpha1.MaxPrioritizerWeights)]
	status.Verdicts = verdictsOf(report)
	a.LeftOut = len(report.Verdicts) - len(status.Verdicts)
	if p := report.Pending; p != nil {
		status.Pending = &berthv1alpha1.PendingChange{
			Reason: p.Reason, Message: v1alpha1.CutMessage(p.Message), AddedCount: int32(len(p.Added)), RemovedCount: int32(len(p.Removed)),
			Moving: movingOf(p),
		}
	}
}

// movingOf returns the clusters of a change in steps, as far as they have no more than
// MaxMovingBytes.
func movingOf(p *simulator.Pending) []berthv1alpha1.MovingCluster {
	var moving []berthv1alpha1.MovingCluster
	bytes := 0
	for _, m := range p.Moving[:min(len(p.Moving), berthv1alpha1.MaxMovingClusters)] {
		m.State = v1alpha1.CutText(m.State, maxText)
		text, err := json.Marshal(m)
		if bytes += len(text); err != nil || bytes > berthv1alpha1.MaxMovingBytes {
			break
		}
		moving = append(moving, m)
	}
	return moving
}

// verdictsOf returns the verdicts, as far as they have no more than MaxVerdictBytes.
func verdictsOf(report *simulator.Report) []berthv1alpha1.ClusterVerdict {
	var verdicts []berthv1alpha1.ClusterVerdict
	bytes := 0
	for _, v := range report.Verdicts {
		one := berthv1alpha1.ClusterVerdict{
			Cluster: v.Cluster, Selected: v.Selected, Plugin: v.Plugin, Reason: v1alpha1.CutText(v.Reason, maxText), Rank: int32(v.Rank),
			Score: v.Score, Scores: v.Scores, Unscored: v.Unscored, Distance: v.Distance, SelectedWith: v1alpha1.CutText(v.SelectedWith, maxText),
		}
		text, err := json.Marshal(one)
		if bytes += len(text); err != nil || bytes > berthv1alpha1.MaxVerdictBytes {
			break
		}
		verdicts = append(verdicts, one)
	}
	return verdicts
}

// decisionsOf lists the pages, with the names of their clusters as far as these have no more than
// MaxExplainedNames bytes.
func decisionsOf(report *simulator.Report) []berthv1alpha1.ExplainedDecision {
	decisions := make([]berthv1alpha1.ExplainedDecision, 0, len(report.Decisions))
	bytes := 0
	for _, d := range report.Decisions[:min(len(report.Decisions), berthv1alpha1.MaxExplainedDecisions)] {
		one := berthv1alpha1.ExplainedDecision{Name: d.Name, Group: d.Labels[v1alpha1.DecisionGroupNameLabel], ClusterCount: int32(len(d.Clusters))}
		for _, g := range report.GroupStatus {
			if slices.Contains(g.Decisions, d.Name) {
				one.GroupIndex = g.DecisionGroupIndex
			}
		}
		for _, name := range d.Clusters {
			bytes += len(name)
		}
		if bytes <= berthv1alpha1.MaxExplainedNames {
			one.Clusters = d.Clusters
		}
		decisions = append(decisions, one)
	}
	return decisions
}

// ReportOf returns the report of an explained PlacementExplanation, as far as its status has it.
// AvailableClusters has the candidates with a verdict, Candidates the number of all.
func ReportOf(e *berthv1alpha1.PlacementExplanation) *simulator.Report {
	status := &e.Status
	a := &simulator.Answer{
		AvailableClusters:        []string{},
		Candidates:               int(status.Candidates),
		Counts:                   status.Counts,
		PrioritizerScores:        map[string]simulator.PrioritizerScores{},
		NumberOfSelectedClusters: int(status.SelectedClusters),
		Decisions:                []simulator.Decision{},
		Conditions:               simulator.Conditions{},
		Verdicts:                 []framework.ClusterVerdict{},
	}
	for _, c := range status.Conditions {
		if c.Type != berthv1alpha1.ExplanationExplained && c.Type != berthv1alpha1.ExplanationThrottled {
			a.Conditions = append(a.Conditions, simulator.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	for _, d := range status.Decisions {
		a.Decisions = append(a.Decisions, simulator.Decision{
			Name: d.Name, Labels: map[string]string{v1alpha1.DecisionGroupNameLabel: d.Group}, Clusters: d.Clusters,
		})
	}
	for _, p := range status.Prioritizers {
		a.PrioritizerScores[p.Name] = simulator.PrioritizerScores{Weight: p.Weight}
	}
	for _, v := range status.Verdicts {
		if v.Reason != berthv1alpha1.NotACandidate {
			a.AvailableClusters = append(a.AvailableClusters, v.Cluster)
		}
		a.Verdicts = append(a.Verdicts, framework.ClusterVerdict{
			Cluster: v.Cluster, Selected: v.Selected, Plugin: v.Plugin, Reason: v.Reason, Rank: int(v.Rank),
			Score: v.Score, Scores: v.Scores, Unscored: v.Unscored, Distance: v.Distance, SelectedWith: v.SelectedWith,
		})
	}
	if p := status.Pending; p != nil {
		a.Pending = &simulator.Pending{Reason: p.Reason, Message: p.Message, Moving: p.Moving}
	}
	return &simulator.Report{Placement: e.Namespace + "/" + e.Spec.Placement, Answer: a}
}
