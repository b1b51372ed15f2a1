package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// Patience is how long to wait for the controller to report a new object.
const Patience = 10 * time.Second

// suspend prepares Suspend and Resume.
func (p *Prepared) suspend(ctx context.Context, hub client.Client) error {
	pl, history, err := ReadHistory(ctx, hub, p.Placement)
	if err != nil && !errors.Is(err, ErrNoRecords) {
		return err
	}
	policy, resume := suspension(pl), p.Verb == Resume
	err = hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	case err != nil && resume:
		p.Nothing = fmt.Errorf("nothing to resume: Placement %s is not suspended, there is no DisruptionPolicy %s", p.Placement, policy.Name)
		return nil
	case err == nil && !resume:
		p.Nothing = fmt.Errorf("nothing to suspend: Placement %s is suspended already, by DisruptionPolicy %s", p.Placement, policy.Name)
		return nil
	}
	p.Record, p.Object = history.Open(), policy
	verb, done := "Suspend", "suspended"
	if resume {
		verb, done = "Resume", "resumed"
	}
	p.Question = fmt.Sprintf("%s Placement %s?", verb, p.Placement)
	p.Declined = fmt.Sprintf("Placement %s was not %s", p.Placement, done)
	p.Done = fmt.Sprintf("placement.%s/%s %s", v1alpha1.GroupName, pl.Name, done)
	p.write = func(ctx context.Context) (client.Object, error) {
		switch {
		case !resume:
			p.addComment(policy)
			return createPolicy(ctx, hub, policy.DeepCopy(), !p.DryRun)
		case p.Comment != "":
			commented := pl.DeepCopy()
			p.addComment(commented)
			if err := hub.Patch(ctx, commented, client.MergeFrom(pl)); err != nil {
				return nil, fmt.Errorf("writing the comment to Placement %s: %w", p.Placement, err)
			}
		}
		return policy, deletePolicy(ctx, hub, policy)
	}
	return nil
}

// suspension returns the policy that suspends a Placement.
func suspension(pl *v1alpha1.Placement) *berthv1alpha1.DisruptionPolicy {
	return &berthv1alpha1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: pl.Name + changes.SuspendSuffix},
		Spec:       berthv1alpha1.DisruptionPolicySpec{Placements: []string{pl.Name}, Suspend: true},
	}
}

func deletePolicy(ctx context.Context, hub client.Client, policy *berthv1alpha1.DisruptionPolicy) error {
	if err := client.IgnoreNotFound(hub.Delete(ctx, policy, client.Preconditions{UID: &policy.UID})); err != nil {
		return fmt.Errorf("deleting DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	return nil
}

// createPolicy can wait until the controller has reported the policy, so that it applies to every
// later change.
func createPolicy(ctx context.Context, hub client.Client, policy *berthv1alpha1.DisruptionPolicy, wait bool) (client.Object, error) {
	if err := hub.Create(ctx, policy); err != nil {
		return nil, fmt.Errorf("creating DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	if !wait {
		return policy, nil
	}
	waiting, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for meta.FindStatusCondition(policy.Status.Conditions, berthv1alpha1.PolicyReady) == nil {
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, fmt.Errorf("the wait for the controller was interrupted; DisruptionPolicy %s/%s was created: %w", policy.Namespace, policy.Name, ctx.Err())
			}
			return nil, fmt.Errorf("waiting for the controller: DisruptionPolicy %s/%s was created, but the controller has not reported it after %s: it may not run", policy.Namespace, policy.Name, Patience)
		case <-time.After(100 * time.Millisecond):
		}
		if err := hub.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return nil, fmt.Errorf("reading DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
	}
	return policy, nil
}
