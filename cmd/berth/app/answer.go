package app

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
)

type answerOptions struct {
	// verb is actions.Approve or actions.Reject.
	verb     string
	hub      placementFlags
	act      actFlags
	revision int64
	output   string
}

func newAnswerCommand(verb string) *cobra.Command {
	o := answerOptions{verb: verb}
	title, done := strings.ToUpper(verb[:1])+verb[1:], "rejected"
	which := "the held change of a Placement"
	if verb == actions.Approve {
		done = "approved"
		which = "the held change of a Placement, or one that was rejected or has expired and still applies"
	}
	cmd := &cobra.Command{
		Use:   verb + " " + placementUse,
		Short: title + " held changes of Placements",
		Long: fmt.Sprintf(`%s %s.

The command shows the change: its cause, the plugins that hold it, and the clusters that it adds and removes (-o wide: all of them). It asks,
and exactly that change is %s. `+placementHelp+`Needs permission to get placements and to list and patch
placementchanges; to approve a change that was rejected or has expired, also to list placementdecisions.`, title, which, done),
		Example: strings.ReplaceAll(`  berth VERB web -n shop
  berth VERB placementchange/web-3 -n shop --comment 'discussed with the store team'
  berth VERB -A`, "VERB", verb),
		Args:              o.hub.namedPlacements,
		ValidArgsFunction: o.hub.completePlacements(o.offers),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			if cmd.Flags().Changed("revision") && o.revision < 1 {
				return usagef("--revision: %d must be at least 1", o.revision)
			}
			if o.revision > 0 && len(args) != 1 {
				return usagef("--revision needs the name of one Placement")
			}
			return o.run(cmd.Context(), args, cmd)
		},
	}
	o.hub.add(cmd)
	flags := cmd.Flags()
	o.act.add(cmd)
	flags.Int64Var(&o.revision, "revision", 0, verb+" only the change with this revision")
	complete(cmd, "revision", cobra.NoFileCompletions)
	addOutputFlag(cmd, &o.output)
	return cmd
}

// offers is true if the Placement's condition reports a change to answer.
func (o *answerOptions) offers(pl *v1alpha1.Placement) bool { return actions.Answerable(o.verb, pl) }

func (o *answerOptions) run(ctx context.Context, args []string, cmd *cobra.Command) error {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	refs, err := o.hub.refs(ctx, hub, namespace, args, o.offers)
	if err != nil {
		return err
	}
	if len(refs) == 0 {
		return fmt.Errorf("nothing to %s: no change is held in any namespace", o.verb)
	}
	return forEach(refs, func(ref placementRef) error { return o.answer(ctx, hub, ref, cmd) })
}

// answer shows the change of one Placement, asks, and writes the answer.
func (o *answerOptions) answer(ctx context.Context, hub client.Client, ref placementRef, cmd *cobra.Command) error {
	action, err := o.act.prepare(ctx, hub, actions.Request{
		Verb: o.verb, Placement: ref.NamespacedName, Revision: cmp.Or(o.revision, ref.revision),
	})
	if err != nil {
		return err
	}
	if err := o.show(cmd.OutOrStdout(), action.Record); err != nil {
		return err
	}
	if _, err := o.act.do(cmd, action); err != nil {
		return err
	}
	if !structured(o.output) {
		return o.act.sayDone(cmd, action.Done)
	}
	return nil
}

func (o *answerOptions) show(out io.Writer, record *berthv1alpha1.PlacementChange) error {
	view := changes.ViewOf(record).WithClusters(record)
	if structured(o.output) {
		return printObject(out, o.output, view)
	}
	return printChange(out, view, o.output == "wide")
}

// ask returns true only if the user answers y or yes.
func ask(in io.Reader, out io.Writer, question string) (bool, error) {
	say(out, "%s [y/N] ", question)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
