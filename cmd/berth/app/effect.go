package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/preview"
	"github.com/berth-dev/berth/pkg/simulator"
)

// effectOptions are what commands share that change decisions: they show it before they act.
type effectOptions struct {
	actFlags
	simulation simulationFlags
	hub        hubFlags
	// namespace is the one to use.
	namespace string
}

// effectHelp describes what the commands share in a help text.
const effectHelp = `The command shows the change of the decision first, as diff does, and asks. `

// addFlags adds the flags but -n.
func (o *effectOptions) addFlags(cmd *cobra.Command) {
	o.add(cmd)
	o.hub.add(cmd)
	o.simulation.add(cmd)
}

// finish adds the flags, and the argument: one Placement.
func (o *effectOptions) finish(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s needs the name of one Placement", cmd.CommandPath())
		}
		return nil
	}
	cmd.ValidArgsFunction = o.hub.completePlacements(nil)
	o.addFlags(cmd)
	o.hub.addNamespace(cmd, "namespace of the Placements (default: the kubeconfig's)")
}

// connect returns the hub and the Placement that the argument names.
func (o *effectOptions) connect(ctx context.Context, arg string) (client.Client, types.NamespacedName, error) {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return nil, types.NamespacedName{}, err
	}
	o.namespace = namespace
	ref, err := o.hub.resolve(ctx, hub, namespace, arg)
	return hub, ref.NamespacedName, err
}

// show prints how decisions change with actions of one verb, and returns an error if they must not
// be done. Without permission to list the fleet, only some actions can be done.
func (o *effectOptions) show(cmd *cobra.Command, hub client.Client, prepared ...*actions.Prepared) error {
	ctx, out, first := cmd.Context(), cmd.OutOrStdout(), prepared[0]
	for _, line := range first.SpecChanges {
		say(out, "Spec: %s\n", line)
	}
	progress := startProgress(cmd.ErrOrStderr())
	defer progress.stop()
	comparison, refusal, err := o.compare(ctx, hub, prepared, progress)
	progress.stop()
	if errors.Is(err, actions.ErrNoPreview) && actions.NeedsPreview(first.Verb) {
		return fmt.Errorf("%s is refused: %w", first.Verb, err)
	}
	if errors.Is(err, actions.ErrNoPreview) {
		return say(out, "The change is not shown: %v\n", err)
	}
	if err != nil {
		return err
	}
	for _, m := range comparison.Misconfigured {
		say(out, "Misconfigured: %s: %s\n", m.Placement, m.Message)
	}
	for _, note := range comparison.Notes {
		say(out, "%s\n", note)
	}
	switch {
	case len(comparison.Changes) > 0:
		err = changeTable(comparison, false).print(out, colourful(out))
	case actions.OnPlacement(first.Verb):
		err = say(out, "The decision of Placement %s does not change.\n", first.Placement)
	default:
		err = say(out, "No decision changes.\n")
	}
	return cmp.Or(err, refusal)
}

// compare makes decisions without and with actions: of the Placement of the action, or of all
// Placements for actions on clusters; of those in the namespace if the fleet may not be listed.
// refusal is why the action must not be done.
func (o *effectOptions) compare(
	ctx context.Context, hub client.Client, prepared []*actions.Prepared, progress *progress,
) (comparison *simulator.Comparison, refusal, err error) {
	with, err := o.simulation.settings(ctx)
	if err != nil {
		return nil, nil, err
	}
	progress.say("reading the hub")
	objects, asker, err := o.simulation.fleet(ctx, hub)
	if err != nil {
		return nil, nil, err
	}
	first, edits := prepared[0], make([]simulator.Edit, len(prepared))
	for i, action := range prepared {
		edits[i] = preview.EditOf(action)
	}
	report := func(done, all int) { progress.say("compared %d of %d Placements", done, all) }
	if asker != nil {
		if comparison, err = asker.Compare(ctx, o.namespace, edits, report); err == nil {
			refusal = first.Check(ctx, asker.After(edits))
		}
		return comparison, refusal, err
	}
	with.Alone = actions.OnPlacement(first.Verb)
	progress.say("comparing")
	w, err := simulator.NewWhatIf(ctx, objects, edits, time.Now(), with)
	if err != nil {
		return nil, nil, err
	}
	keys := []types.NamespacedName{first.Placement}
	if !with.Alone {
		keys = w.Placements()
	}
	if comparison, err = w.Compare(ctx, keys, report); err != nil {
		return nil, nil, err
	}
	return comparison, first.Check(ctx, w.After), nil
}
