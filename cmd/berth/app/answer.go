package app

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// decision is one of the two answers to a change.
type decision struct {
	verb, done, doing string
	value             berthv1alpha1.ApprovalDecision
	// reasons are the reasons of DecisionPending for which a Placement has a change to answer.
	reasons []string
}

var (
	approval = decision{"approve", "approved", "approving", berthv1alpha1.Approved,
		[]string{v1alpha1.ReasonHeld, v1alpha1.ReasonRejected, v1alpha1.ReasonExpired}}
	rejection = decision{"reject", "rejected", "rejecting", berthv1alpha1.Rejected, []string{v1alpha1.ReasonHeld}}
)

type answerOptions struct {
	decision
	hub      placementFlags
	revision int64
	comment  string
	yes      bool
	output   string
}

func newAnswerCommand(with decision) *cobra.Command {
	o := answerOptions{decision: with}
	title := strings.ToUpper(with.verb[:1]) + with.verb[1:]
	which := "the held change of a Placement"
	if with.value == berthv1alpha1.Approved {
		which = "the held change of a Placement, or one that was rejected or has expired and still applies"
	}
	cmd := &cobra.Command{
		Use:   with.verb + " " + placementUse,
		Short: title + " held changes of Placements",
		Long: fmt.Sprintf(`%s %s.

The command shows the change: its cause, the plugins that hold it, and the clusters that it adds and removes (-o wide: all of them). Then it
asks for confirmation, unless --yes is set. Exactly the change that was shown is %s. With several Placements, or with -A, it does so for one
after the other. `+placementHelp+`Needs permission to get placements and to list and patch
placementchanges; to approve a change that was rejected or has expired, also to list placementdecisions.`, title, which, with.done),
		Example: strings.ReplaceAll(`  berth VERB web -n shop
  berth VERB placementchange/web-3 -n shop --comment 'discussed with the store team'
  berth VERB -A`, "VERB", with.verb),
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
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	flags.StringVar(&o.comment, "comment", "", "reason, shown in the history")
	flags.Int64Var(&o.revision, "revision", 0, with.verb+" only the change with this revision")
	complete(cmd, "revision", cobra.NoFileCompletions)
	complete(cmd, "comment", cobra.NoFileCompletions)
	addOutputFlag(cmd, &o.output)
	return cmd
}

// offers is true if the Placement's condition reports a change to answer.
func (o *answerOptions) offers(pl *v1alpha1.Placement) bool {
	pending := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending)
	return pending != nil && slices.Contains(o.reasons, pending.Reason)
}

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
	key := ref.NamespacedName
	pl, history, err := readHistory(ctx, hub, key)
	if err != nil {
		return err
	}
	published := func() (string, error) { return publishedDigest(ctx, hub, pl) }
	record, err := o.findRecord(pl, history, cmp.Or(o.revision, ref.revision), published)
	if err != nil {
		return fmt.Errorf("nothing to %s: %w", o.verb, err)
	}
	out := cmd.OutOrStdout()
	if err := o.show(out, record); err != nil {
		return err
	}
	question := fmt.Sprintf("%s change %d of Placement %s?", strings.ToUpper(o.verb[:1])+o.verb[1:], record.Spec.Revision, key)
	if err := confirm(cmd, o.yes, question, fmt.Sprintf("change %d of Placement %s was not %s", record.Spec.Revision, key, o.done)); err != nil {
		return err
	}
	if err := o.write(ctx, hub, key, record); err != nil {
		return err
	}
	if o.output == "table" || o.output == "wide" {
		return say(out, "placementchange.%s/%s %s\n", berthv1alpha1.GroupName, record.Name, o.done)
	}
	return nil
}

func (o *answerOptions) show(out io.Writer, record *berthv1alpha1.PlacementChange) error {
	view := viewOf(record).withClusters(record)
	if o.output == "json" || o.output == "yaml" {
		return printObject(out, o.output, view)
	}
	return view.print(out, o.output == "wide")
}

// findRecord returns the record to answer: that of the given revision, or the open one. An approval
// can also answer the newest Rejected or Expired record that still applies.
func (o *answerOptions) findRecord(
	pl *v1alpha1.Placement, history changes.History, revision int64, published func() (string, error),
) (*berthv1alpha1.PlacementChange, error) {
	key := client.ObjectKeyFromObject(pl)
	if revision > 0 {
		record, err := recordOf(history, key, revision)
		if err != nil {
			return nil, err
		}
		return record, o.answerable(pl, record, published)
	}
	if record := history.Open(); record != nil {
		return record, o.answerable(pl, record, published)
	}
	var why error
	for _, record := range slices.Backward(history) {
		err := o.answerable(pl, record, published)
		if err == nil {
			return record, nil
		}
		if why == nil && ended(record) {
			why = err
		}
	}
	if why != nil {
		return nil, why
	}
	if c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending); c != nil {
		return nil, fmt.Errorf("no change of Placement %s is held; its condition %s is %s: %s", key, c.Type, c.Reason, c.Message)
	}
	return nil, fmt.Errorf("no change of Placement %s is held", key)
}

// ended is true for a change that ended before it was published.
func ended(record *berthv1alpha1.PlacementChange) bool {
	return record.Status.Phase == berthv1alpha1.PhaseRejected || record.Status.Phase == berthv1alpha1.PhaseExpired
}

// answerable returns an error if the change cannot get this answer.
func (o *answerOptions) answerable(
	pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange, published func() (string, error),
) error {
	change := fmt.Sprintf("change %d of Placement %s/%s", record.Spec.Revision, pl.Namespace, pl.Name)
	given := record.Spec.Approval
	switch {
	case given != nil && given.Decision == o.value:
		return fmt.Errorf("%s was %s by %s already", change, o.done, given.By)
	case given != nil && given.Decision == berthv1alpha1.Approved:
		return fmt.Errorf("%s was approved by %s already", change, given.By)
	case record.Status.Phase == berthv1alpha1.PhaseHeld:
		return nil
	case record.Status.Phase == "":
		return fmt.Errorf("the controller has not reported the phase of %s yet", change)
	case !ended(record) || o.value != berthv1alpha1.Approved:
		return fmt.Errorf("%s is %s", change, record.Status.Phase)
	case record.Spec.PlacementGeneration != pl.Generation:
		return fmt.Errorf("%s is %s and does not apply any more: the Placement was edited since", change, record.Status.Phase)
	}
	digest, err := published()
	if err != nil {
		return err
	}
	if record.Spec.From != digest {
		return fmt.Errorf("%s is %s and does not apply any more: other clusters were published since", change, record.Status.Phase)
	}
	return nil
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

// write sets spec.approval. The CRD's rules refuse it if the change can no longer be answered. The
// UID prevents an answer to another record of the same name.
func (o *answerOptions) write(ctx context.Context, hub client.Client, key types.NamespacedName, record *berthv1alpha1.PlacementChange) error {
	doing := fmt.Sprintf("%s change %d of Placement %s", o.doing, record.Spec.Revision, key)
	review := &authenticationv1.SelfSubjectReview{}
	if err := hub.Create(ctx, review); err != nil {
		return fmt.Errorf("%s: asking the hub for the user's name: %w", doing, err)
	}
	answer := map[string]any{"decision": o.value, "by": review.Status.UserInfo.Username, "comment": nil}
	if o.comment != "" {
		answer["comment"] = o.comment
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": record.UID}, "spec": map[string]any{"approval": answer},
	})
	if err != nil {
		return err
	}
	written := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: record.Name}}
	err = hub.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch))
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s needs permission to patch placementchanges: %w", doing, err)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return fmt.Errorf("%s: its record was deleted meanwhile; nothing was %s", doing, o.done)
	case apierrors.IsInvalid(err):
		return o.refused(ctx, hub, doing, record, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// refused returns why the change can no longer be answered.
func (o *answerOptions) refused(
	ctx context.Context, hub client.Client, doing string, record *berthv1alpha1.PlacementChange, cause error,
) error {
	current := &berthv1alpha1.PlacementChange{}
	if err := hub.Get(ctx, client.ObjectKeyFromObject(record), current); err != nil {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	switch given := current.Spec.Approval; {
	case given != nil && (record.Spec.Approval == nil || *given != *record.Spec.Approval):
		return fmt.Errorf("%s: it is %s by %s meanwhile; nothing was %s", doing, strings.ToLower(string(given.Decision)), given.By, o.done)
	case current.Status.Phase != record.Status.Phase:
		return fmt.Errorf("%s: it is %s meanwhile; nothing was %s", doing, current.Status.Phase, o.done)
	}
	return fmt.Errorf("%s: %w", doing, cause)
}
