package explanation

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// asksForDecision is true for a question without edits.
func (q *Question) asksForDecision() bool { return q.Template == nil && len(q.Edits) == 0 }

// stage is what a cycle decides: a Placement without the edit of the question, or with it.
type stage struct {
	// placement is nil if it does not exist.
	placement *v1alpha1.Placement
	snapshot  func(now time.Time) *framework.Snapshot
	// before is the outcome without the edit; nil in the stage that decides it.
	before *simulator.Outcome
}

// stageOf returns the next stage of a question.
func (e *Explainer) stageOf(q *Question) stage {
	if q.New != nil {
		return stage{q.New, e.snapshotOfNew(q, q.New), q.before}
	}
	known := e.Inventory.Placement(q.Placement)
	switch {
	case q.Template == nil || known != nil && q.before == nil:
		return stage{known, func(now time.Time) *framework.Snapshot {
			return e.Inventory.Snapshot(q.Placement, now, e.queue(func() *framework.QueueAdmission { return e.Queues.PreviewEdited(known, now) }))
		}, nil}
	case known == nil:
		created := q.created()
		return stage{created, e.snapshotOfNew(q, created), &simulator.Outcome{}}
	}
	edited := q.edited(known)
	return stage{edited, func(now time.Time) *framework.Snapshot {
		return e.Inventory.SnapshotOfEdited(edited, now, e.queue(func() *framework.QueueAdmission { return e.Queues.PreviewEdited(edited, now) }))
	}, q.before}
}

func (e *Explainer) snapshotOfNew(q *Question, pl *v1alpha1.Placement) func(now time.Time) *framework.Snapshot {
	return func(now time.Time) *framework.Snapshot {
		return e.Inventory.SnapshotOfNew(pl, now, e.queue(func() *framework.QueueAdmission { return e.Queues.Preview(pl, q.Submitted, now) }))
	}
}

// queue returns nil if no queues are configured.
func (e *Explainer) queue(admission func() *framework.QueueAdmission) *framework.QueueAdmission {
	if e.Queues == nil {
		return nil
	}
	return admission()
}

// created returns the Placement of Template, which does not exist.
func (q *Question) created() *v1alpha1.Placement {
	return &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: q.Placement.Namespace, Name: q.Placement.Name, UID: q.Submitted.GetUID(), Generation: 1,
			CreationTimestamp: q.Submitted.GetCreationTimestamp(), Labels: q.Template.Metadata.Labels, Annotations: q.Template.Metadata.Annotations,
		},
		Spec: q.Template.Spec,
	}
}

// edited returns a known Placement after the edit.
func (q *Question) edited(known *v1alpha1.Placement) *v1alpha1.Placement {
	edited := known.DeepCopy()
	edited.Labels, edited.Annotations, edited.Spec = q.Template.Metadata.Labels, q.Template.Metadata.Annotations, q.Template.Spec
	if !equality.Semantic.DeepEqual(edited.Spec, known.Spec) {
		edited.Generation++
	}
	return edited
}

// leftAlone answers for a Placement that is not decided, or begins the next stage.
func (e *Explainer) leftAlone(ctx context.Context, q *Question, s stage, why string) Result {
	result := Result{Report: &simulator.Report{Placement: q.Key().String(), Skipped: why}}
	if q.asksForDecision() {
		return result
	}
	subject := e.Inventory.Subject(q.Key())
	if subject == nil {
		subject = &framework.Subject{Placement: s.placement}
	}
	outcome, err := simulator.OutcomeOf(subject, nil)
	switch {
	case err != nil:
		return Result{Failure: err}
	case s.before == nil && q.Template != nil:
		q.before = &outcome
		return e.Explain(ctx, q)
	case s.before == nil:
		s.before = &outcome
	}
	result.Undecided = "it is " + why
	result.Change = new(simulator.Compare(q.Key(), *s.before, outcome))
	return result
}

// compare goes on after a stage of a question with edits is decided: with the next one, or with the
// edits of clusters and the answer.
func (e *Explainer) compare(ctx context.Context, q *Question, s stage, a *scheduler.Attempt) Result {
	if s.before == nil {
		outcome, err := simulator.OutcomeOf(a.Snapshot.Subject, a)
		if err != nil {
			return Result{Failure: err}
		}
		if s.before = &outcome; q.Template != nil && q.New == nil {
			q.before = s.before
			return e.Explain(ctx, q)
		}
	}
	if len(q.Edits) == 0 {
		return e.changed(ctx, q, *s.before, a)
	}
	edited, unmatched, err := simulator.EditSnapshot(a.Snapshot, q.Edits)
	if err != nil {
		return Result{Failure: err}
	}
	return e.decide(ctx, q, edited, func(with *scheduler.Attempt) Result {
		result := e.changed(ctx, q, *s.before, with)
		result.Unmatched = unmatched
		return result
	})
}

// changed answers a question with edits, given the attempt with them.
func (e *Explainer) changed(ctx context.Context, q *Question, before simulator.Outcome, a *scheduler.Attempt) Result {
	result := e.report(ctx, q, a)
	if result.Failure != nil {
		return result
	}
	after, err := simulator.OutcomeOf(a.Snapshot.Subject, a)
	if err != nil {
		return Result{Failure: err}
	}
	if q.Template != nil {
		before = before.AsPublished()
	}
	_, result.Undecided = simulator.SelectedBy(a)
	result.Change = new(simulator.Compare(q.Key(), before, after))
	return result
}

// loseDomains adds which domains can be lost to the answer, in limited time.
func (e *Explainer) loseDomains(ctx context.Context, q *Question, d *decide.Decision, answer *Result) {
	p := &resilience.Placement{Placement: q.Key().String(), Losses: []resilience.Loss{}}
	e.Scheduler.LimitTrials(ctx, d, func(limited context.Context) {
		answer.DomainsLeft = simulator.LoseDomains(limited, e.Scheduler, d, *q.Domains, p)
	})
	p.Finish(*q.Domains)
	answer.Resilience = p
}
