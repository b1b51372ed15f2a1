package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/shadow"
)

// shadowRequests is how many namespaces are asked at once.
const shadowRequests = 8

type shadowOptions struct {
	hub    placementFlags
	output string
}

func newShadowCommand() *cobra.Command {
	o := shadowOptions{}
	cmd := &cobra.Command{
		Use:   "shadow " + placementUse,
		Short: "Compare Placements with the shadow profiles of the configuration",
		Long: `Compare Placements with the shadow profiles of the configuration. A shadow profile (shadowOf) decides each Placement of another profile, too, and
publishes nothing.

Without a name it compares all Placements of the namespace; those in which most clusters differ come first. ` + placementHelp + `

MOVES are the clusters that the decisions of the Placement's profile moved since the comparison began, SHADOW MOVES those that the shadow would
have moved. A cluster that replaces another counts once. The controller compares: the command creates a PlacementExplanation in each namespace,
prints the answer and deletes it. Needs permission to create, get and delete placementexplanations and, without names, to list placements.`,
		Example: `  berth shadow web -n shop
  berth shadow -A
  berth shadow -n shop -o markdown`,
		Args:              o.hub.placementsOrAll,
		ValidArgsFunction: o.hub.completePlacements(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output, markdown); err != nil {
				return err
			}
			progress := startProgress(cmd.ErrOrStderr())
			defer progress.stop()
			comparisons, err := o.read(cmd.Context(), args, progress)
			if err != nil {
				return err
			}
			progress.stop()
			return o.print(cmd.OutOrStdout(), comparisons, len(args) == 1, time.Now())
		},
	}
	o.hub.add(cmd)
	addOutputFlag(cmd, &o.output, markdown)
	return cmd
}

// read asks the controller once for each named Placement or, without names, once for each
// namespace.
func (o *shadowOptions) read(ctx context.Context, args []string, progress *progress) ([]berthv1alpha1.ShadowComparison, error) {
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return nil, err
	}
	progress.say("reading the hub")
	refs, err := o.hub.refs(ctx, hub, namespace, args, nil)
	if err != nil {
		return nil, err
	}
	questions := map[string][]string{} // the names of Placements by namespace; an empty one for all
	for _, ref := range refs {
		name := ""
		if len(args) > 0 {
			name = ref.Name
		}
		if !slices.Contains(questions[ref.Namespace], name) {
			questions[ref.Namespace] = append(questions[ref.Namespace], name)
		}
	}
	var mu sync.Mutex
	var all []berthv1alpha1.ShadowComparison
	var failures []error
	answered, turns := 0, make(chan struct{}, shadowRequests)
	var asked sync.WaitGroup
	for namespace, names := range questions {
		asked.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			for _, name := range names {
				comparisons, err := compareShadows(ctx, hub, types.NamespacedName{Namespace: namespace, Name: name})
				mu.Lock()
				all, answered = append(all, comparisons...), answered+1
				if err != nil && !slices.ContainsFunc(failures, func(known error) bool { return known.Error() == err.Error() }) {
					failures = append(failures, err)
				}
				progress.say("compared %d of %s", answered, number(len(questions), "namespace"))
				mu.Unlock()
			}
		})
	}
	asked.Wait()
	slices.SortFunc(all, explanation.CompareShadows)
	return all, errors.Join(failures...)
}

// compareShadows asks the controller to compare one Placement or, without a name, all of a
// namespace.
func compareShadows(ctx context.Context, hub client.Client, key types.NamespacedName) ([]berthv1alpha1.ShadowComparison, error) {
	e := &berthv1alpha1.PlacementExplanation{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, GenerateName: "berth-shadow-"},
		Spec:       berthv1alpha1.PlacementExplanationSpec{Placement: key.Name, Shadows: true},
	}
	switch err := hub.Create(ctx, e); {
	case meta.IsNoMatchError(err):
		return nil, errors.New("the hub serves no PlacementExplanations, so that the controller cannot be asked")
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no namespace %s", key.Namespace)
	case err != nil:
		return nil, fmt.Errorf("creating a PlacementExplanation in namespace %s: %w", key.Namespace, err)
	}
	// The controller deletes it after some minutes if this fails.
	defer func() { _ = hub.Delete(context.WithoutCancel(ctx), e) }()
	if err := explanation.Await(ctx, hub, e); err != nil {
		return nil, err
	}
	c := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationExplained)
	switch {
	case c.Reason == berthv1alpha1.ReasonPlacementNotFound:
		return nil, fmt.Errorf("there is no Placement %s", key)
	case c.Status != metav1.ConditionTrue && key.Name != "":
		return nil, fmt.Errorf("comparing %s: %s", key, c.Message)
	case c.Status != metav1.ConditionTrue:
		return nil, errors.New(c.Message)
	}
	for i := range e.Status.Shadows {
		e.Status.Shadows[i].Placement = key.Namespace + "/" + e.Status.Shadows[i].Placement
	}
	return e.Status.Shadows, nil
}

func (o *shadowOptions) print(out io.Writer, all []berthv1alpha1.ShadowComparison, one bool, now time.Time) error {
	switch {
	case o.output == "json" || o.output == "yaml":
		return printObject(out, o.output, map[string]any{"shadows": append([]berthv1alpha1.ShadowComparison{}, all...)})
	case o.output == markdown:
		return printMarkdown(out, "Shadow profiles", shadowTable(all, true, now), shadowSummaries(all, now))
	case len(all) == 0:
		return say(out, "No Placement was decided since the controller started whose profile has a shadow.\n")
	case one && o.output != "wide":
		for i := range all {
			if err := printShadow(out, &all[i], now); err != nil {
				return err
			}
		}
		return nil
	}
	if err := shadowTable(all, o.output == "wide", now).print(out, colourful(out)); err != nil {
		return err
	}
	for _, text := range shadowSummaries(all, now) {
		if err := say(out, "%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// shadowTable has a line for each comparison. The wide form adds names and messages.
func shadowTable(all []berthv1alpha1.ShadowComparison, wide bool, now time.Time) *table {
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "PROFILE", "SHADOW", "RESULT", "CLUSTERS", "DIFFERENT", "MOVES", "SHADOW MOVES", "COMPARED", "SKIPPED", "SINCE"}}
	if wide {
		t.heading = append(t.heading, "ONLY PROFILE", "ONLY SHADOW", "MESSAGE")
	}
	for i := range all {
		c := &all[i]
		namespace, name, _ := strings.Cut(c.Placement, "/")
		result := cell{text: c.Result}
		if c.Result == string(shadow.Failed) || c.Result == string(shadow.Differs) {
			result.colour = red
		}
		row := []cell{
			{text: namespace}, {text: name}, {text: c.Profile}, {text: c.Shadow}, result, {text: fmt.Sprint(c.ProfileClusters)},
			{text: fmt.Sprint(max(c.OnlyProfileCount, c.OnlyShadowCount))}, {text: fmt.Sprint(c.ProfileMoves)}, {text: fmt.Sprint(c.ShadowMoves)},
			{text: fmt.Sprint(c.Decisions)}, {text: fmt.Sprint(c.Skipped + c.Failed)}, {text: duration.HumanDuration(now.Sub(c.Since.Time))},
		}
		if wide {
			row = append(row, cell{text: cmp.Or(clusterNames(c.OnlyProfile, c.OnlyProfileCount), none)},
				cell{text: cmp.Or(clusterNames(c.OnlyShadow, c.OnlyShadowCount), none)}, cell{text: cmp.Or(c.Message, none)})
		}
		t.add(row...)
	}
	return t
}

// clusterNames lists the names of count clusters, as far as they are known.
func clusterNames(names []string, count int32) string {
	text := strings.Join(names, " ")
	if more := int(count) - len(names); more > 0 {
		text += fmt.Sprintf(" … %d more", more)
	}
	return text
}

// shadowSummaries has a sentence for each shadow.
func shadowSummaries(all []berthv1alpha1.ShadowComparison, now time.Time) []string {
	type sums struct {
		placements, different         int
		profileMoves, moves, notKnown int64
		since                         time.Time
	}
	byShadow := map[[2]string]*sums{}
	var shadows [][2]string
	for i := range all {
		c := &all[i]
		key := [2]string{c.Shadow, c.Profile}
		s := byShadow[key]
		if s == nil {
			s = &sums{since: c.Since.Time}
			byShadow[key], shadows = s, append(shadows, key)
		}
		s.placements++
		if c.OnlyProfileCount+c.OnlyShadowCount > 0 {
			s.different++
		}
		s.profileMoves += c.ProfileMoves
		s.moves += c.ShadowMoves
		s.notKnown += c.Skipped + c.Failed
		if c.Since.Time.Before(s.since) {
			s.since = c.Since.Time
		}
	}
	slices.SortFunc(shadows, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	var texts []string
	for _, key := range shadows {
		s := byShadow[key]
		text := fmt.Sprintf("Shadow %s selects other clusters than profile %s for %d of %s, and would have made %s instead of %d in %s.",
			key[0], key[1], s.different, number(s.placements, "Placement"), number(int(s.moves), "move"), s.profileMoves, duration.HumanDuration(now.Sub(s.since)))
		if s.notKnown > 0 {
			text += fmt.Sprintf(" %s could not be compared.", number(int(s.notKnown), "decision"))
		}
		texts = append(texts, text)
	}
	return texts
}

// printShadow shows one comparison with the names of the clusters.
func printShadow(out io.Writer, c *berthv1alpha1.ShadowComparison, now time.Time) error {
	say(out, "Placement %s: %s selects %s, its shadow %s selects %d: %s\n",
		c.Placement, c.Profile, number(int(c.ProfileClusters), "cluster"), c.Shadow, c.ShadowClusters, shadowResult(c))
	if c.OnlyProfileCount > 0 {
		say(out, "  Only %s: %s\n", c.Profile, clusterNames(c.OnlyProfile, c.OnlyProfileCount))
	}
	if c.OnlyShadowCount > 0 {
		say(out, "  Only %s: %s\n", c.Shadow, clusterNames(c.OnlyShadow, c.OnlyShadowCount))
	}
	say(out, "  Moves in %s: %s %d, %s %d\n", duration.HumanDuration(now.Sub(c.Since.Time)), c.Profile, c.ProfileMoves, c.Shadow, c.ShadowMoves)
	return say(out, "  Decisions: %d compared, %d skipped, %d failed\n", c.Decisions, c.Skipped, c.Failed)
}

// shadowResult describes the result of a comparison.
func shadowResult(c *berthv1alpha1.ShadowComparison) string {
	switch shadow.Result(c.Result) {
	case shadow.Agrees:
		return "they agree"
	case shadow.Pending:
		return "the shadow has not decided the newest decision yet"
	case shadow.Failed:
		return "the shadow failed: " + c.Message
	}
	return fmt.Sprintf("they differ in %d", max(c.OnlyProfileCount, c.OnlyShadowCount))
}
