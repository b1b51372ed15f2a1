package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// answer is what one may say to a held change.
type answer struct {
	verb, done, doing string
	// annotation is set, opposite removed.
	annotation, opposite string
	// late says that a change may get this answer after its time, too.
	late bool
}

var (
	approval  = answer{"approve", "approved", "approving", v1alpha1.ApproveAnnotation, v1alpha1.RejectAnnotation, true}
	rejection = answer{"reject", "rejected", "rejecting", v1alpha1.RejectAnnotation, v1alpha1.ApproveAnnotation, false}
)

type answerOptions struct {
	answer
	hub    hubFlags
	change string
	yes    bool
	output string
}

func newAnswerCommand(with answer) *cobra.Command {
	o := answerOptions{answer: with}
	cmd := &cobra.Command{
		Use:   with.verb + " NAME [-n NAMESPACE]",
		Short: strings.ToUpper(with.verb[:1]) + with.verb[1:] + " the change that a Placement holds",
		Long: fmt.Sprintf(`Show the change that a Placement holds, ask, and %s it.

What is %s is the very change that was shown: if another took its place meanwhile, that is said and nothing is done. -o wide shows all
clusters. Needs the verbs get, patch and approve on placements, and list on placementdecisions to show more than the first clusters.`, with.verb, with.done),
		Example:           fmt.Sprintf("  kubectl placement %s web -n shop", with.verb),
		Args:              onePlacement,
		ValidArgsFunction: o.hub.completePlacements(func(pl *v1alpha1.Placement) bool { return o.answerable(pl) == nil }),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			return o.run(cmd.Context(), args[0], cmd)
		},
	}
	o.hub.add(cmd)
	o.hub.addNamespace(cmd, "the Placement's namespace (default: the kubeconfig's)")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&o.change, "change", "", "answer this change only, by the name that is shown")
	addOutputFlag(cmd, &o.output)
	return cmd
}

func (o *answerOptions) run(ctx context.Context, name string, cmd *cobra.Command) error {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	held, err := o.read(ctx, hub, key)
	if err != nil {
		return err
	}
	if o.change != "" && o.change != held.Change {
		return fmt.Errorf("change %s of Placement %s is not what is held: that is %s", o.change, key, held.Change)
	}
	out := cmd.OutOrStdout()
	if err := held.print(out, o.output); err != nil {
		return err
	}
	if !o.yes {
		if !isTerminal(cmd.InOrStdin()) {
			return usagef("nobody to ask: give --yes to %s it", o.verb)
		}
		sure, err := ask(cmd.InOrStdin(), cmd.ErrOrStderr(), fmt.Sprintf("%s change %s?", strings.ToUpper(o.verb[:1])+o.verb[1:], held.Change))
		if err != nil {
			return err
		}
		if !sure {
			return fmt.Errorf("nothing was %s", o.done)
		}
	}
	if err := o.write(ctx, hub, key, held.Change); err != nil {
		return err
	}
	if o.output == "table" || o.output == "wide" {
		say(out, "placement.%s/%s %s\n", v1alpha1.GroupName, name, o.done)
	}
	return nil
}

// heldChange is a change that waits, as it is shown.
type heldChange struct {
	Placement string `json:"placement"`
	Change    string `json:"change"`
	// Status is the reason of the condition: Held, or Expired or Rejected where it may still be approved.
	Status  string `json:"status"`
	Message string `json:"message"`
	// Deadlines are when each plugin that holds the change gives up.
	Deadlines map[string]time.Time `json:"deadlines,omitempty"`
	// Listed says that Added and Removed are known: the held pages could be read, and still were there.
	Listed  bool     `json:"listed"`
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// answerable says why a Placement has nothing to be answered, if that is so.
func (o *answerOptions) answerable(pl *v1alpha1.Placement) error {
	c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending)
	switch {
	case c == nil:
		return errors.New("holds no change")
	case c.Reason == v1alpha1.ReasonHeld:
	case c.Reason == v1alpha1.ReasonExpired && o.late, c.Reason == v1alpha1.ReasonRejected && o.late:
	default:
		return fmt.Errorf("holds no change (%s)", oneLine(c.Reason+": "+c.Message))
	}
	if tokenIn(c.Message) == "" {
		return fmt.Errorf("does not say which change it holds (%s)", oneLine(c.Reason+": "+c.Message))
	}
	return nil
}

// changeInMessage finds the name of the change in the message of the condition, which begins with
// "Change <name> (". A name has lower-case letters, digits and dashes only, so that it can be
// copied into a command.
var changeInMessage = regexp.MustCompile(`^Change ([0-9a-z-]+) `)

func tokenIn(message string) string {
	if found := changeInMessage.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}

// read returns what is held now.
func (o *answerOptions) read(ctx context.Context, hub client.Client, key types.NamespacedName) (*heldChange, error) {
	pl := &v1alpha1.Placement{}
	err := hub.Get(ctx, key, pl)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Placement %s", key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Placement %s: %w", key, err)
	}
	if err := o.answerable(pl); err != nil {
		return nil, fmt.Errorf("nothing to %s: Placement %s %w", o.verb, key, err)
	}
	c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending)
	held := &heldChange{Placement: key.String(), Change: tokenIn(c.Message), Status: c.Reason, Message: c.Message}
	var pages v1alpha1.PlacementDecisionList
	err = hub.List(ctx, &pages, client.InNamespace(key.Namespace))
	if apierrors.IsForbidden(err) {
		// Whoever may approve need not see decisions; the message names the first clusters.
		return held, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the held change: %w", err)
	}
	held.list(pl, pointers(pages.Items))
	return held, nil
}

// list compares the held pages with those that are published, if they hold this very change.
func (h *heldChange) list(pl *v1alpha1.Placement, pages []*v1alpha1.PlacementDecision) {
	var holding []*v1alpha1.PlacementDecision
	published := map[string]bool{}
	for _, page := range pages {
		switch {
		case framework.IsHeldPage(page) && page.Labels[v1alpha1.HeldLabel] == pl.Name && metav1.IsControlledBy(page, pl):
			holding = append(holding, page)
		case page.Labels[v1alpha1.PlacementLabel] == pl.Name:
			for _, decision := range page.Status.Decisions {
				published[decision.ClusterName] = true
			}
		}
	}
	hold := framework.HoldOf(holding)
	if hold == nil || hold.Token != h.Change {
		return
	}
	h.Listed, h.Deadlines = true, hold.Deadlines
	for _, name := range hold.Clusters {
		if !published[name] {
			h.Added = append(h.Added, name)
		}
		delete(published, name)
	}
	h.Removed = slices.Sorted(maps.Keys(published))
}

func (h *heldChange) print(out io.Writer, format string) error {
	switch {
	case format == "json" || format == "yaml":
		return printObject(out, format, h)
	case format != "wide":
		err := say(out, "Placement %s: %s: %s\n", h.Placement, h.Status, h.Message)
		return err
	case !h.Listed:
		err := say(out, "Placement %s: %s: %s\nThe whole list cannot be read.\n", h.Placement, h.Status, h.Message)
		return err
	}
	say(out, "Placement %s: %s: %s\n", h.Placement, h.Status, h.Message)
	t := &table{heading: []string{"CHANGE", "CLUSTER"}}
	for _, name := range h.Added {
		t.add(cell{"added", green}, cell{name, plain})
	}
	for _, name := range h.Removed {
		t.add(cell{"removed", red}, cell{name, plain})
	}
	return t.print(out, colourful(out))
}

// ask is true only if somebody says yes.
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

// maxWrites bounds how often a write that met another is tried anew.
const maxWrites = 10

// write sets the annotation if the change is still the one that was shown: the Placement, with its conditions, must not have changed since
// that was looked up once more.
func (o *answerOptions) write(ctx context.Context, hub client.Client, key types.NamespacedName, token string) error {
	for range maxWrites {
		pl := &v1alpha1.Placement{}
		if err := hub.Get(ctx, key, pl); err != nil {
			return fmt.Errorf("reading Placement %s: %w", key, err)
		}
		if err := o.superseded(pl, token); err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": pl.UID, "resourceVersion": pl.ResourceVersion,
			"annotations": map[string]any{o.annotation: token, o.opposite: nil},
		}})
		if err != nil {
			return err
		}
		err = hub.Patch(ctx, pl, client.RawPatch(types.MergePatchType, patch))
		switch {
		case err == nil:
			return nil
		case apierrors.IsConflict(err):
			continue
		case apierrors.IsForbidden(err):
			return fmt.Errorf("%s change %s of Placement %s needs the verbs patch and approve on placements: %w", o.doing, token, key, err)
		}
		return fmt.Errorf("%s change %s of Placement %s: %w", o.doing, token, key, err)
	}
	return fmt.Errorf("%s change %s of Placement %s: it changes too often", o.doing, token, key)
}

// superseded says that the change is not held any more.
func (o *answerOptions) superseded(pl *v1alpha1.Placement, token string) error {
	now := ""
	if err := o.answerable(pl); err == nil {
		now = tokenIn(meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending).Message)
	}
	switch now {
	case token:
		return nil
	case "":
		return fmt.Errorf("change %s of Placement %s/%s is not held any more; nothing was %s", token, pl.Namespace, pl.Name, o.done)
	}
	return fmt.Errorf("change %s of Placement %s/%s was superseded by %s; nothing was %s", token, pl.Namespace, pl.Name, now, o.done)
}
