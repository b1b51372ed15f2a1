package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
)

type drainOptions struct {
	hub  hubFlags
	undo bool
	wait bool
	yes  bool
}

func newDrainCommand() *cobra.Command {
	o := drainOptions{}
	cmd := &cobra.Command{
		Use:   "drain CLUSTER [--wait]",
		Short: "Remove a cluster from all decisions, as DisruptionPolicies allow",
		Long: `Remove a cluster from all decisions, as DisruptionPolicies allow.

The command lists the Placements that have the cluster and adds the taint ` + v1alpha1.DrainTaint + `:NoSelect to it. Placements without a DisruptionPolicy
replace the cluster at once, the others in steps. Placements that tolerate the taint keep it. With --wait the command prints the Placements
that still have the cluster until there is none. It does not end while a Placement has no replacement for the cluster and its policies do
not permit to go on without: status says so. undrain removes the taint. Needs permission to list placementdecisions, and to get and
patch managedclusters.`,
		Example: `  berth drain edge2
  berth drain edge2 --wait --yes`,
	}
	o.finish(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until no Placement has the cluster")
	return cmd
}

func newUndrainCommand() *cobra.Command {
	o := drainOptions{undo: true}
	cmd := &cobra.Command{
		Use:   "undrain CLUSTER",
		Short: "End the drain of a cluster, so that it can be selected again",
		Long: `End the drain of a cluster, so that it can be selected again.

The command removes the taint ` + v1alpha1.DrainTaint + `:NoSelect. Needs permission to list placementdecisions, and to get and patch
managedclusters.`,
		Example: `  berth undrain edge2`,
	}
	return o.finish(cmd)
}

func (o *drainOptions) finish(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s needs the name of one cluster", cmd.CommandPath())
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.hub.completeClusters(cmd, args, begun)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], cmd) }
	o.hub.add(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func (o *drainOptions) run(ctx context.Context, arg string, cmd *cobra.Command) error {
	name, err := clusterName("", arg)
	if err != nil {
		return err
	}
	hub, _, err := o.hub.connect()
	if err != nil {
		return err
	}
	verb := actions.Drain
	if o.undo {
		verb = actions.Undrain
	}
	action, err := actions.Prepare(ctx, hub, actions.Request{Verb: verb, Cluster: name})
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if err := printUsers(out, name, action.Users); err != nil {
		return err
	}
	switch {
	case action.Nothing == nil:
		if err := confirm(cmd, o.yes, action.Question, action.Declined); err != nil {
			return err
		}
		if _, err := action.Do(ctx); err != nil {
			return err
		}
	case o.undo:
		return action.Nothing
	}
	if !o.wait {
		return say(out, "%s\n", action.Done)
	}
	return waitDrained(ctx, hub, name, action.Users, out)
}

func printUsers(out io.Writer, cluster string, users []string) error {
	if len(users) == 0 {
		return say(out, "No Placement has ManagedCluster %s.\n", cluster)
	}
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT"}}
	for _, user := range users {
		namespace, name, _ := strings.Cut(user, "/")
		t.add(cell{text: namespace}, cell{text: name})
	}
	return t.print(out, false)
}

// toSeeWhy is the line after which a wait may take long.
const toSeeWhy = "To see what it waits for: kubectl placement status %s -n %s\n"

// waitDrained prints the Placements that still have the cluster after each change, until there is
// none.
func waitDrained(ctx context.Context, hub client.Client, cluster string, users []string, out io.Writer) error {
	hinted := false
	for total := len(users); len(users) > 0; total = max(total, len(users)) {
		shown := users
		if err := say(out, "%d of %d Placements still have the cluster: %s\n", len(users), total, firstOf(users)); err != nil {
			return err
		}
		if namespace, name, _ := strings.Cut(users[0], "/"); !hinted {
			hinted = true
			say(out, toSeeWhy, name, namespace)
		}
		for slices.Equal(users, shown) {
			select {
			case <-ctx.Done():
				return errChanges
			case <-time.After(watchInterval):
			}
			var err error
			if users, err = actions.UsersOf(ctx, hub, cluster); err != nil {
				return err
			}
		}
	}
	return say(out, "managedcluster.%s/%s drained\n", v1alpha1.GroupName, cluster)
}

// firstOf names the first Placements.
func firstOf(users []string) string {
	const most = 3
	if len(users) <= most {
		return strings.Join(users, ", ")
	}
	return fmt.Sprintf("%s, … %d more", strings.Join(users[:most], ", "), len(users)-most)
}
