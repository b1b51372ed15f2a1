package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// suspendSuffix is the end of the name of the DisruptionPolicy that suspends a Placement.
const suspendSuffix = "-suspend"

// reportPatience is how long suspend and evict wait for the controller.
const reportPatience = 10 * time.Second

type suspendOptions struct {
	hub    placementFlags
	resume bool
	yes    bool
	// acted is true after the first Placement that was not skipped.
	acted bool
}

func newSuspendCommand() *cobra.Command {
	o := suspendOptions{}
	cmd := &cobra.Command{
		Use:   "suspend " + placementUse,
		Short: "Stop publishing changes of Placements",
		Long: `Stop publishing changes of Placements.

The command creates the DisruptionPolicy NAME` + suspendSuffix + `. While it exists, Berth publishes no change of the Placement, also none that is in
progress, except the removal of clusters that are deleted, in no usable cluster set any more, or have an untolerated NoSelect taint. resume
deletes the policy. The command waits up to 10 seconds until the controller has reported the policy. ` + placementHelp + `Needs permission to get placements, to list placementchanges and to create
disruptionpolicies.`,
		Example: `  berth suspend web -n shop
  berth suspend web -n shop --yes`,
	}
	return o.finish(cmd)
}

func newResumeCommand() *cobra.Command {
	o := suspendOptions{resume: true}
	cmd := &cobra.Command{
		Use:   "resume " + placementUse,
		Short: "Publish changes of suspended Placements again",
		Long: `Publish changes of suspended Placements again.

The command shows the change that will be published and deletes the DisruptionPolicy NAME` + suspendSuffix + ` that suspend created. Other
DisruptionPolicies may still suspend the Placement. ` + placementHelp + `Needs permission to get placements, to list
placementchanges and to delete disruptionpolicies.`,
		Example: `  berth resume web -n shop
  berth resume web -n shop --yes`,
	}
	return o.finish(cmd)
}

// finish adds what both commands share.
func (o *suspendOptions) finish(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = o.hub.namedPlacements, o.hub.completePlacements(nil)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args, cmd) }
	o.hub.add(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func (o *suspendOptions) run(ctx context.Context, args []string, cmd *cobra.Command) error {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	refs, err := o.hub.refs(ctx, hub, namespace, args, nil)
	if err != nil {
		return err
	}
	if err := forEach(refs, func(ref placementRef) error { return o.one(ctx, hub, ref, cmd) }); err != nil || o.acted {
		return err
	}
	if o.resume {
		return say(cmd.OutOrStdout(), "nothing to resume: no Placement is suspended\n")
	}
	return say(cmd.OutOrStdout(), "nothing to suspend: all Placements are suspended already\n")
}

// one shows what will happen to one Placement, asks, and creates or deletes its policy.
func (o *suspendOptions) one(ctx context.Context, hub client.Client, ref placementRef, cmd *cobra.Command) error {
	key := ref.NamespacedName
	pl, history, err := readHistory(ctx, hub, key)
	if err != nil && !errors.Is(err, errNoRecords) {
		return err
	}
	policy := suspension(pl)
	if skip, err := o.skips(ctx, hub, key, policy); skip || err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if record := history.Open(); record != nil {
		if err := viewOf(record).withClusters(record).print(out, false); err != nil {
			return err
		}
	} else if err := say(out, "No change of Placement %s is open.\n", key); err != nil {
		return err
	}
	o.acted = true
	verb, done := "Suspend", "suspended"
	if o.resume {
		verb, done = "Resume", "resumed"
	}
	if err := confirm(cmd, o.yes, fmt.Sprintf("%s Placement %s?", verb, key), fmt.Sprintf("Placement %s was not %s", key, done)); err != nil {
		return err
	}
	if err := o.write(ctx, hub, policy); err != nil {
		return err
	}
	return say(out, "placement.%s/%s %s\n", v1alpha1.GroupName, pl.Name, done)
}

// skips reads the policy. It is true for a Placement that is suspended, or not suspended, already:
// without -A that is an error.
func (o *suspendOptions) skips(ctx context.Context, hub client.Client, key client.ObjectKey, policy *berthv1alpha1.DisruptionPolicy) (bool, error) {
	err := hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("reading DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	case (err != nil) != o.resume:
		return false, nil
	case o.hub.all:
		return true, nil
	case o.resume:
		return false, fmt.Errorf("nothing to resume: Placement %s is not suspended, there is no DisruptionPolicy %s", key, policy.Name)
	}
	return false, fmt.Errorf("nothing to suspend: Placement %s is suspended already, by DisruptionPolicy %s", key, policy.Name)
}

func (o *suspendOptions) write(ctx context.Context, hub client.Client, policy *berthv1alpha1.DisruptionPolicy) error {
	if o.resume {
		if err := client.IgnoreNotFound(hub.Delete(ctx, policy, client.Preconditions{UID: &policy.UID})); err != nil {
			return fmt.Errorf("deleting DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		return nil
	}
	if err := hub.Create(ctx, policy); err != nil {
		return fmt.Errorf("creating DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	return awaitPolicy(ctx, hub, policy)
}

// awaitPolicy waits until the controller has reported the policy, so that it applies to every later
// change.
func awaitPolicy(ctx context.Context, hub client.Client, policy *berthv1alpha1.DisruptionPolicy) error {
	waiting, cancel := context.WithTimeout(ctx, reportPatience)
	defer cancel()
	for meta.FindStatusCondition(policy.Status.Conditions, berthv1alpha1.PolicyReady) == nil {
		select {
		case <-waiting.Done():
			return fmt.Errorf("waiting for the controller: DisruptionPolicy %s/%s was created, but the controller has not reported it after %s: it may not run", policy.Namespace, policy.Name, reportPatience)
		case <-time.After(100 * time.Millisecond):
		}
		if err := hub.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return fmt.Errorf("reading DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
	}
	return nil
}

// suspension returns the policy that suspends a Placement.
func suspension(pl *v1alpha1.Placement) *berthv1alpha1.DisruptionPolicy {
	return &berthv1alpha1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: pl.Name + suspendSuffix},
		Spec:       berthv1alpha1.DisruptionPolicySpec{Placements: []string{pl.Name}, Suspend: true},
	}
}

// confirm asks, unless yes is set. It returns an error with the text of no unless the user agrees.
func confirm(cmd *cobra.Command, yes bool, question, no string) error {
	if yes {
		return nil
	}
	if !isTerminal(cmd.InOrStdin()) {
		return usagef("there is no terminal to ask on: give --yes to answer %q", question)
	}
	sure, err := ask(cmd.InOrStdin(), cmd.ErrOrStderr(), question)
	if err != nil {
		return err
	}
	if !sure {
		return errors.New(no)
	}
	return nil
}
