package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/member"
)

type addClusterOptions struct {
	hub  hubFlags
	adds member.Addition
}

func newAddClusterCommand() *cobra.Command {
	o := addClusterOptions{}
	cmd := &cobra.Command{
		Use:   "add-cluster NAME --member-kubeconfig FILE [--set SET]",
		Short: "Add a cluster without an agent, from its kubeconfig",
		Long: `Add a cluster without an agent, from its kubeconfig.

The command asks the cluster whether it is ready, and creates what does not exist yet: the ManagedCluster NAME, with the label of the
set, the namespace NAME for its lease, and the Secret NAME with the kubeconfig for berth report --members-from-secrets. A second run changes
nothing, except a Secret whose kubeconfig differs. Needs permission to get managedclustersets, and to get, create and update
managedclusters, namespaces and secrets.`,
		Example: `  berth add-cluster paris --member-kubeconfig paris.kubeconfig --set eu
  berth add-cluster paris --member-kubeconfig paris.kubeconfig --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs the name of one cluster", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.adds.Kubeconfig == "" {
				return usagef("--member-kubeconfig is required")
			}
			return o.run(cmd, args[0])
		},
	}
	o.hub.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.adds.Kubeconfig, "member-kubeconfig", "", "kubeconfig of the member cluster")
	flags.StringVar(&o.adds.Context, "member-context", "", "context of that kubeconfig (default: its current one)")
	flags.StringVar(&o.adds.Set, "set", "", "ManagedClusterSet of the cluster (default: the set default, by no label)")
	flags.StringVar(&o.adds.Namespace, "members-from-secrets", "berth-system", "namespace on the hub for the Secret")
	flags.BoolVar(&o.adds.DryRun, "dry-run", false, dryRunUsage)
	complete(cmd, "set", o.completeSets)
	return cmd
}

func (o *addClusterOptions) completeSets(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list v1alpha1.ManagedClusterSetList
	return o.hub.names(cmd.Context(), &list, func() (names []string) {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	})
}

func (o *addClusterOptions) run(cmd *cobra.Command, arg string) error {
	name, err := clusterName("", arg)
	if err != nil {
		return err
	}
	hub, _, err := o.hub.connect()
	if err != nil {
		return err
	}
	progress := startProgress(cmd.ErrOrStderr())
	defer progress.stop()
	var lines []string
	o.adds.Hub, o.adds.Name = hub, name
	o.adds.Step = func(step string) { progress.say("%s", step) }
	o.adds.Done = func(object, what string) { lines = append(lines, object+" "+what) }
	err = o.adds.Add(cmd.Context())
	progress.stop()
	for _, line := range lines {
		act := actFlags{dryRun: o.adds.DryRun}
		_ = act.sayDone(cmd, line)
	}
	if err != nil || o.adds.DryRun {
		return err
	}
	return say(cmd.OutOrStdout(), "To report its status, unless a reporter runs for the namespace: berth report --members-from-secrets %s\n", o.adds.Namespace)
}
