package simulator

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// Report is the result for one Placement, as `berth simulate -o json` prints it.
type Report struct {
	Placement string `json:"placement"`
	// Skipped is "disabled" or "terminating" for a Placement that is not decided; then all other
	// fields are empty.
	Skipped string `json:"skipped,omitempty"`
	*Answer `json:",inline"`
}

// Answer is a decision, with the results of its steps.
type Answer struct {
	AvailableClusters []string `json:"availableClusters"`
	// Candidates is the number of candidates if AvailableClusters has only some of them.
	Candidates int `json:"-"`
	// Counts are the numbers of candidates by reason: those selected first, then those excluded, in
	// the order of the filters.
	Counts                   []berthv1alpha1.ReasonCount    `json:"-"`
	FilterResults            []decide.FilterResult          `json:"filterResults"`
	PrioritizerScores        map[string]PrioritizerScores   `json:"prioritizerScores"`
	Scores                   map[string]int64               `json:"scores"`
	Ranking                  []string                       `json:"ranking"`
	Decisions                []Decision                     `json:"decisions"`
	GroupStatus              []v1alpha1.DecisionGroupStatus `json:"groupStatus"`
	NumberOfSelectedClusters int                            `json:"numberOfSelectedClusters"`
	Conditions               Conditions                     `json:"conditions"`
	Events                   []Event                        `json:"events"`
	RequeueAfterSeconds      *float64                       `json:"requeueAfterSeconds"`
	Verdicts                 []framework.ClusterVerdict     `json:"verdicts"`
	// Intents are what plugins report about a selection that is not as asked for, and advice that
	// another decision has confirmed.
	Intents []framework.Intent `json:"intents,omitempty"`
	// NoCandidate is why the cluster that was asked for is no candidate.
	NoCandidate string `json:"-"`
	// Pending is a change that would not be published now, or only in part: Decisions are then
	// those of the next step, or the published ones if there is no step.
	Pending *Pending `json:"pending,omitempty"`
}

// PrioritizerScores are the scores of one prioritizer, without its weight.
type PrioritizerScores struct {
	Weight int64            `json:"weight"`
	Scores map[string]int64 `json:"scores"`
}

// Decision is one page.
type Decision struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels"`
	Clusters []string          `json:"clusters"`
}

// Condition is one of the Placement's conditions, without its times.
type Condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

// Conditions are conditions of one Placement, at most one of each type.
type Conditions []Condition

// Get returns the condition of a type; nil if there is none.
func (all Conditions) Get(kind string) *Condition {
	for i := range all {
		if all[i].Type == kind {
			return &all[i]
		}
	}
	return nil
}

// Misconfigured returns the condition of a misconfigured Placement; nil for any other.
func (all Conditions) Misconfigured() *Condition {
	if c := all.Get(v1alpha1.PlacementConditionMisconfigured); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

// Pending is a change that would not be published now, or only in part.
type Pending struct {
	Reason  string   `json:"reason"`
	Message string   `json:"message"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	// Moving describes the clusters of a change in steps, sorted by name.
	Moving []berthv1alpha1.MovingCluster `json:"moving,omitempty"`
}

// StateOf returns the state of a cluster in a change in steps; empty if it does not move.
func (p *Pending) StateOf(cluster string) string {
	i := slices.IndexFunc(p.Moving, func(m berthv1alpha1.MovingCluster) bool { return m.Cluster == cluster })
	if i < 0 {
		return ""
	}
	return p.Moving[i].State
}

// InSteps reports whether the change is published in steps, and not held or refused.
func (p *Pending) InSteps() bool { return p.Reason == string(plan.Progressing) }

// Event is one event regarding the Placement.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Action  string `json:"action"`
	Related string `json:"related"`
	Note    string `json:"note"`
}

func newReport(placement string, r *decide.Decision, verdicts []framework.ClusterVerdict) *Report {
	a := &Answer{
		AvailableClusters: r.CandidateNames(),
		FilterResults:     r.FilterResults(),
		PrioritizerScores: map[string]PrioritizerScores{},
		Scores:            map[string]int64{},
		Ranking:           []string{},
		Decisions:         []Decision{},
		GroupStatus:       []v1alpha1.DecisionGroupStatus{},
		Conditions:        Conditions{},
		Events:            []Event{},
		Verdicts:          verdicts,
		Intents:           r.Intents,
		Counts:            counts(r),
	}
	for _, p := range r.Scores {
		scores := map[string]int64{}
		for i, x := range p.Values {
			if x != framework.NoScore {
				scores[r.Feasible[i].Name] = x
			}
		}
		a.PrioritizerScores[p.Plugin] = PrioritizerScores{Weight: p.Weight, Scores: scores}
	}
	for _, i := range r.Ranking() {
		a.Ranking = append(a.Ranking, r.Feasible[i].Name)
		a.Scores[r.Feasible[i].Name] = r.Totals[i]
	}
	for _, c := range r.Conditions() {
		a.Conditions = append(a.Conditions, Condition{c.Type, c.Status, c.Reason, c.Message})
	}
	return &Report{Placement: placement, Answer: a}
}

func counts(r *decide.Decision) []berthv1alpha1.ReasonCount {
	var all []berthv1alpha1.ReasonCount
	add := func(reason string, clusters int) {
		if clusters > 0 {
			all = append(all, berthv1alpha1.ReasonCount{Reason: reason, Clusters: int32(clusters)})
		}
	}
	if r.Failure != nil {
		add(berthv1alpha1.CountNotDecided, r.Candidates())
		return all
	}
	add(berthv1alpha1.CountSelected, len(r.Selected))
	add(berthv1alpha1.CountOutranked, len(r.Feasible)-len(r.Selected))
	for _, e := range r.ExcludedBy() {
		add(e.Plugin, e.Clusters)
	}
	return all
}

// planned adds the planned pages, groups and events.
func (a *Answer) planned(pl *v1alpha1.Placement, plan decisions.Plan, attempt *scheduler.Attempt) {
	for _, page := range plan.Pages {
		a.add(page.Object(pl))
	}
	a.GroupStatus = append(a.GroupStatus, plan.GroupStatus()...)
	for _, e := range report.Writes(attempt) {
		a.Events = append(a.Events, Event{e.Type, e.Reason, e.Action, e.Related.Name, e.Note})
	}
	if t := attempt.State.Requeue(); !t.IsZero() {
		seconds := t.Sub(attempt.Snapshot.Now).Truncate(time.Microsecond).Seconds()
		a.RequeueAfterSeconds = &seconds
	}
}

// pending adds the change that cannot be published now, or not whole, if there is one, and the
// conditions meanwhile.
func (a *Answer) pending(pl *v1alpha1.Placement, attempt *scheduler.Attempt) {
	if attempt.Effects().DecisionPending == "" && attempt.Outcome != plan.Progressing {
		return
	}
	a.Pending = &Pending{
		Reason: string(attempt.Outcome), Message: attempt.Message(),
		Added: append([]string{}, attempt.Change.Added...), Removed: append([]string{}, attempt.Change.Removed...),
		Moving: report.Moving(attempt),
	}
	conditions := pl.Status.DeepCopy().Conditions
	report.SetConditions(attempt, &conditions)
	a.Conditions = Conditions{}
	for _, c := range conditions {
		a.Conditions = append(a.Conditions, Condition{c.Type, c.Status, c.Reason, c.Message})
	}
}

// published adds the published pages, because there is no decision.
func (a *Answer) published(subject *framework.Subject) {
	status := subject.Placement.Status
	a.GroupStatus = append(a.GroupStatus, status.DecisionGroups...)
	for _, page := range subject.OwnPages() {
		a.add(page)
	}
}

func (a *Answer) add(page *v1alpha1.PlacementDecision) {
	d := Decision{Name: page.Name, Labels: map[string]string{}, Clusters: []string{}}
	for _, key := range []string{v1alpha1.PlacementLabel, v1alpha1.DecisionGroupNameLabel, v1alpha1.DecisionGroupIndexLabel} {
		if value, ok := page.Labels[key]; ok {
			d.Labels[key] = value
		}
	}
	for _, entry := range page.Status.Decisions {
		d.Clusters = append(d.Clusters, entry.ClusterName)
	}
	a.NumberOfSelectedClusters += len(d.Clusters)
	a.Decisions = append(a.Decisions, d)
}
