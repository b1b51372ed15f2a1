package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/simulator"
)

// effectOptions are what commands share that change the decision of one Placement: they show the
// change and ask before they act.
type effectOptions struct {
	simulation simulationFlags
	hub        hubFlags
	yes        bool
}

// effectHelp describes what the commands share in a help text.
const effectHelp = `The command shows the change of the decision first, as diff does, and asks. A user without permission to list the
fleet does not see the change. `

// finish adds the flags, and the argument: one Placement.
func (o *effectOptions) finish(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s needs the name of one Placement", cmd.CommandPath())
		}
		return nil
	}
	cmd.ValidArgsFunction = o.hub.completePlacements(nil)
	o.hub.add(cmd)
	o.hub.addNamespace(cmd, "namespace of the Placement (default: the kubeconfig's)")
	o.simulation.add(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
}

// connect returns the hub and the Placement that the argument names.
func (o *effectOptions) connect(ctx context.Context, arg string) (client.Client, types.NamespacedName, error) {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return nil, types.NamespacedName{}, err
	}
	ref, err := o.hub.resolve(ctx, hub, namespace, arg)
	return hub, ref.NamespacedName, err
}

// show prints how the decision of a Placement changes with an action, and returns an error if the
// action must not be done. Without permission to list the fleet, only some actions can be done.
func (o *effectOptions) show(cmd *cobra.Command, hub client.Client, action *actions.Prepared) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	for _, line := range action.SpecChanges {
		say(out, "Spec: %s\n", line)
	}
	progress := startProgress(cmd.ErrOrStderr())
	defer progress.stop()
	progress.say("reading the hub")
	comparison, refusal, err := o.compare(ctx, hub, action)
	progress.stop()
	if apierrors.IsForbidden(err) && actions.NeedsPreview(action.Verb) {
		return fmt.Errorf("%s is refused: %w: %w", action.Verb, actions.ErrNoPreview, err)
	}
	if apierrors.IsForbidden(err) {
		return say(out, "The change is not shown: %v\n", err)
	}
	if err != nil {
		return err
	}
	for _, m := range comparison.Misconfigured {
		say(out, "Misconfigured: %s: %s\n", m.Placement, m.Message)
	}
	if len(comparison.Changes) == 0 {
		say(out, "The decision of Placement %s does not change.\n", action.Placement)
	} else if err := changeTable(comparison, false).print(out, colourful(out)); err != nil {
		return err
	}
	return refusal
}

// compare decides a Placement without and with the object of an action. refusal is why the action
// must not be done.
func (o *effectOptions) compare(
	ctx context.Context, hub client.Client, action *actions.Prepared,
) (comparison *simulator.Comparison, refusal, err error) {
	with, err := o.simulation.settings(ctx)
	if err != nil {
		return nil, nil, err
	}
	objects, err := o.simulation.read(ctx, hub)
	if err != nil {
		return nil, nil, err
	}
	with.Alone = true
	edits := []simulator.Edit{{Kind: simulator.EditReplace, Object: action.Object}}
	w, err := simulator.NewWhatIf(ctx, objects, edits, time.Now(), with)
	if err != nil {
		return nil, nil, err
	}
	comparison, err = w.Compare(ctx, []types.NamespacedName{action.Placement}, nil)
	if err != nil {
		return nil, nil, err
	}
	return comparison, action.Check(ctx, w.After), nil
}
