package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

type drainOptions struct {
	effectOptions
	selector string
	undo     bool
	wait     bool
}

func newDrainCommand(plugins framework.Registry) *cobra.Command {
	o := drainOptions{effectOptions: effectOptions{simulation: simulationFlags{plugins: plugins}}}
	cmd := &cobra.Command{
		Use:   "drain CLUSTER | -l SELECTOR [--wait]",
		Short: "Remove clusters from all decisions, as DisruptionPolicies allow",
		Long: `Remove clusters from all decisions, as DisruptionPolicies allow.

The command shows the Placements that have the clusters and the change of all decisions, asks, and adds the taint ` + v1alpha1.DrainTaint + `:NoSelect.
If you may not list the fleet, it shows only the changes in the namespace. Placements without a DisruptionPolicy replace the clusters at once, the others in steps; those that tolerate the taint keep them. --wait
prints the Placements that still have one of the clusters until there is none. It does not end while a Placement has no replacement and its
policies do not permit to go on without: status says so. undrain removes the taint. Needs permission to list placementdecisions and
placements, and to get and patch managedclusters (-l: list).`,
		Example: `  berth drain edge2
  berth drain -l rack=r7 --dry-run
  berth drain edge2 --wait --yes`,
	}
	o.finish(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until no Placement has one of the clusters")
	return cmd
}

func newUndrainCommand(plugins framework.Registry) *cobra.Command {
	o := drainOptions{effectOptions: effectOptions{simulation: simulationFlags{plugins: plugins}}, undo: true}
	cmd := &cobra.Command{
		Use:   "undrain CLUSTER | -l SELECTOR",
		Short: "End the drain of clusters, so that they can be selected again",
		Long: `End the drain of clusters, so that they can be selected again.

The command shows the change of all decisions, asks, and removes the taint ` + v1alpha1.DrainTaint + `:NoSelect. Needs the permissions of drain.`,
		Example: `  berth undrain edge2
  berth undrain -l rack=r7 --yes`,
	}
	return o.finish(cmd)
}

func (o *drainOptions) finish(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || (len(args) == 1) == cmd.Flags().Changed("selector") {
			return fmt.Errorf("%s needs the name of one cluster, or -l", cmd.CommandPath())
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.hub.completeClusters(cmd, args, begun)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) }
	o.addFlags(cmd)
	o.hub.addNamespace(cmd, "namespace of the Placements (default: the kubeconfig's)")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "all clusters with these labels, for example rack=r7")
	complete(cmd, "selector", cobra.NoFileCompletions)
	return cmd
}

func (o *drainOptions) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	selector, err := o.parseSelector(len(args) == 0)
	if err != nil {
		return err
	}
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	o.namespace = namespace
	names, err := clustersOf(ctx, hub, args, selector)
	if err != nil {
		return err
	}
	prepared, nothing, err := o.prepareAll(ctx, hub, names)
	if err != nil {
		return err
	}
	if len(prepared) == 0 && (o.undo || !o.wait) {
		return nothing
	}
	users, err := printUsers(ctx, hub, cmd.OutOrStdout(), names)
	if err != nil {
		return err
	}
	if len(prepared) > 0 {
		if err := o.write(cmd, hub, prepared); err != nil {
			return err
		}
	}
	if !o.wait || o.dryRun {
		return nil
	}
	return waitDrained(ctx, hub, names, users, cmd.OutOrStdout())
}

// parseSelector reads -l, which must select something if it is required.
func (o *drainOptions) parseSelector(required bool) (labels.Selector, error) {
	selector, err := labels.Parse(o.selector)
	if err == nil && required && selector.Empty() {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, usagef("--selector: %q is no selector of labels such as rack=r7: %w", o.selector, err)
	}
	return selector, nil
}

// clustersOf returns the cluster that the argument names or, without one, those that match.
func clustersOf(ctx context.Context, hub client.Client, args []string, selector labels.Selector) ([]string, error) {
	if len(args) == 0 {
		return selected(ctx, hub, selector)
	}
	name, err := clusterName("", args[0])
	return []string{name}, err
}

// selected returns the names of the clusters that a selector matches.
func selected(ctx context.Context, hub client.Client, selector labels.Selector) ([]string, error) {
	var clusters metav1.PartialObjectMetadataList
	clusters.SetGroupVersionKind(v1alpha1.GroupVersionV1.WithKind("ManagedClusterList"))
	if err := hub.List(ctx, &clusters, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing the ManagedClusters: %w", err)
	}
	names := make([]string, len(clusters.Items))
	for i := range clusters.Items {
		names[i] = clusters.Items[i].Name
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no ManagedCluster has labels that match %q", selector)
	}
	slices.Sort(names)
	return names, nil
}

// prepareAll prepares the action for each cluster, but not where there is nothing to do; nothing is
// the last reason.
func (o *drainOptions) prepareAll(ctx context.Context, hub client.Client, names []string) (prepared []*actions.Prepared, nothing, err error) {
	for _, name := range names {
		action, err := o.prepare(ctx, hub, actions.Request{Verb: o.verb(), Cluster: name})
		switch {
		case err != nil:
			return nil, nil, err
		case action.Nothing != nil:
			nothing = action.Nothing
		default:
			prepared = append(prepared, action)
		}
	}
	if len(names) > 1 && len(prepared) == 0 {
		nothing = fmt.Errorf("nothing to drain: all %d ManagedClusters that match are drained already", len(names))
		if o.undo {
			nothing = fmt.Errorf("nothing to undrain: none of the %d ManagedClusters that match is drained", len(names))
		}
	}
	return prepared, nothing, nil
}

// write shows the change of all actions together, asks once, and does them.
func (o *drainOptions) write(cmd *cobra.Command, hub client.Client, prepared []*actions.Prepared) error {
	if err := o.show(cmd, hub, prepared...); err != nil {
		return err
	}
	question, declined := prepared[0].Question, prepared[0].Declined
	if len(prepared) > 1 {
		names := make([]string, len(prepared))
		for i, action := range prepared {
			names[i] = action.Cluster
		}
		question = fmt.Sprintf("%s %d ManagedClusters: %s?", strings.ToUpper(o.verb()[:1])+o.verb()[1:], len(names), firstOf(names))
		declined = "the ManagedClusters were not changed"
	}
	if err := o.confirm(cmd, question, declined); err != nil {
		return err
	}
	var all []error
	for _, action := range prepared {
		_, err := action.Do(cmd.Context())
		if err == nil {
			err = o.sayDone(cmd, action.Done)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

func (o *drainOptions) verb() string {
	if o.undo {
		return actions.Undrain
	}
	return actions.Drain
}

// printUsers prints and returns the Placements that have one of the clusters.
func printUsers(ctx context.Context, hub client.Client, out io.Writer, clusters []string) ([]string, error) {
	users, err := actions.UsersOf(ctx, hub, clusters...)
	if err != nil {
		return nil, err
	}
	if len(users) == 0 {
		return nil, say(out, "No Placement has %s.\n", managedClusters(clusters))
	}
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT"}}
	for _, user := range users {
		namespace, name, _ := strings.Cut(user, "/")
		t.add(cell{text: namespace}, cell{text: name})
	}
	err = t.print(out, false)
	return users, cmp.Or(err, say(out, "\n"))
}

func managedClusters(names []string) string {
	if len(names) == 1 {
		return "ManagedCluster " + names[0]
	}
	return fmt.Sprintf("one of the %d ManagedClusters", len(names))
}

// toSeeWhy is the line after which a wait may take long.
const toSeeWhy = "To see what it waits for: kubectl placement status %s -n %s\n"

// waitDrained prints the Placements that still have one of the clusters after each change, until
// there is none. After some time it also prints what stops them.
func waitDrained(ctx context.Context, hub client.Client, clusters, users []string, out io.Writer) error {
	shown, began := "", time.Now()
	for total := len(users); len(users) > 0; total = max(total, len(users)) {
		named := users
		if time.Since(began) > actions.Patience {
			named = withStops(ctx, hub, users)
		}
		line := fmt.Sprintf("%d of %d Placements still have %s: %s", len(users), total, managedClusters(clusters), firstOf(named))
		if line != shown {
			if err := say(out, "%s\n", line); err != nil {
				return err
			}
		}
		if namespace, name, _ := strings.Cut(users[0], "/"); shown == "" {
			say(out, toSeeWhy, name, namespace)
		}
		shown = line
		select {
		case <-ctx.Done():
			return errChanges
		case <-time.After(watchInterval):
		}
		var err error
		if users, err = actions.UsersOf(ctx, hub, clusters...); ctx.Err() != nil {
			return errChanges
		} else if err != nil {
			return err
		}
	}
	for _, name := range clusters {
		say(out, "managedcluster.%s/%s drained\n", v1alpha1.GroupName, name)
	}
	return nil
}

// withStops adds to the first Placements, if the user may get them, the state in which none of
// their clusters is removed, such as "shop/web (held)".
func withStops(ctx context.Context, hub client.Client, users []string) []string {
	named := slices.Clone(users)
	for i, user := range users[:min(len(users), mostNamed)] {
		namespace, name, _ := strings.Cut(user, "/")
		pl, err := actions.ReadPlacement(ctx, hub, types.NamespacedName{Namespace: namespace, Name: name})
		if err != nil {
			continue
		}
		for _, state := range (changes.StateInput{Placement: pl}).States() {
			if slices.Contains([]changes.StateName{changes.StateHeld, changes.StateRejected, changes.StateSuspended, changes.StateDisabled}, state.Name) {
				named[i] += fmt.Sprintf(" (%s)", state.Name)
				break
			}
		}
	}
	return named
}

// mostNamed is how many names firstOf has.
const mostNamed = 3

// firstOf names the first Placements.
func firstOf(users []string) string {
	if len(users) <= mostNamed {
		return strings.Join(users, ", ")
	}
	return fmt.Sprintf("%s, … %d more", strings.Join(users[:mostNamed], ", "), len(users)-mostNamed)
}
