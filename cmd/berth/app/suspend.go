package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
)

type suspendOptions struct {
	hub    placementFlags
	act    actFlags
	resume bool
	// acted is true after the first Placement that was not skipped.
	acted bool
}

func newSuspendCommand() *cobra.Command {
	o := suspendOptions{}
	cmd := &cobra.Command{
		Use:   "suspend " + placementUse,
		Short: "Stop publishing changes of Placements",
		Long: `Stop publishing changes of Placements.

The command creates the DisruptionPolicy NAME` + changes.SuspendSuffix + `. While it exists, Berth publishes no change of the Placement, also none that is in
progress, except the removal of clusters that are deleted, in no usable cluster set any more, or have an untolerated NoSelect taint. resume
deletes the policy. The command waits up to 10 seconds until the controller has reported the policy. ` + placementHelp + `Needs permission to get placements, to list placementchanges and to create
disruptionpolicies.`,
		Example: `  berth suspend web -n shop --comment 'a migration'
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

The command shows the change that will be published and deletes the DisruptionPolicy NAME` + changes.SuspendSuffix + ` that suspend created. Other
DisruptionPolicies may still suspend the Placement. ` + placementHelp + `Needs permission to get placements, to list
placementchanges and to delete disruptionpolicies; for --comment, which is kept with the Placement, also to patch placements.`,
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
	o.act.add(cmd)
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
	verb := actions.Suspend
	if o.resume {
		verb = actions.Resume
	}
	action, err := o.act.prepare(ctx, hub, actions.Request{Verb: verb, Placement: ref.NamespacedName})
	if err != nil {
		return err
	}
	if action.Nothing != nil {
		// Without -A that is an error.
		if o.hub.all {
			return nil
		}
		return action.Nothing
	}
	out := cmd.OutOrStdout()
	if action.Record != nil {
		if err := printChange(out, changes.ViewOf(action.Record).WithClusters(action.Record), false); err != nil {
			return err
		}
	} else if err := say(out, "No change of Placement %s is open.\n", ref.NamespacedName); err != nil {
		return err
	}
	o.acted = true
	if _, err := o.act.do(cmd, action); err != nil {
		return err
	}
	return o.act.sayDone(cmd, action.Done)
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
