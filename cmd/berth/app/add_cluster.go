package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/member"
)

type addClusterOptions struct {
	hub    hubFlags
	labels []string
	adds   member.Addition
}

func newAddClusterCommand() *cobra.Command {
	o := addClusterOptions{}
	cmd := &cobra.Command{
		Use:   "add-cluster NAME --member-kubeconfig FILE [--set SET] [--label KEY=VALUE]",
		Short: "Add a cluster without an agent, from its kubeconfig",
		Long: `Add a cluster without an agent, from its kubeconfig.

The command asks the cluster whether it is ready, and creates what does not exist yet: the ManagedCluster NAME, with the labels and that of
the set, the namespace NAME for its lease, and the Secret NAME with the kubeconfig for berth report --members-from-secrets. A second run
changes only labels and a kubeconfig that differ. With permission to list placements and managedclustersetbindings, it counts the
Placements that use the set. Needs permission to get managedclustersets, and to get, create and update managedclusters, namespaces and
secrets.`,
		Example: `  berth add-cluster paris --member-kubeconfig paris.kubeconfig --set eu --label region=eu-west-1
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
			if err := o.parseLabels(); err != nil {
				return err
			}
			return o.run(cmd, args[0])
		},
	}
	o.hub.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.adds.Kubeconfig, "member-kubeconfig", "", "kubeconfig of the member cluster")
	flags.StringVar(&o.adds.Context, "member-context", "", "context of that kubeconfig (default: its current one)")
	flags.StringVar(&o.adds.Set, "set", "", "ManagedClusterSet of the cluster (default: the set default, by no label)")
	flags.StringArrayVar(&o.labels, "label", nil, "label of the ManagedCluster, as KEY=VALUE; repeatable")
	flags.StringVar(&o.adds.Namespace, "members-from-secrets", "berth-system", "namespace on the hub for the Secret")
	flags.BoolVar(&o.adds.DryRun, "dry-run", false, dryRunUsage)
	complete(cmd, "set", o.completeSets)
	complete(cmd, "label", cobra.NoFileCompletions)
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
	if err != nil {
		return err
	}
	o.sayUsers(cmd.Context(), hub, cmd.OutOrStdout())
	if o.adds.DryRun {
		return nil
	}
	return say(cmd.OutOrStdout(), "To report its status, unless a reporter runs for the namespace: berth report --members-from-secrets %s\n", o.adds.Namespace)
}

func (o *addClusterOptions) parseLabels() error {
	o.adds.Labels = map[string]string{}
	for _, text := range o.labels {
		key, value, found := strings.Cut(text, "=")
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		switch {
		case !found || len(problems) > 0:
			return usagef("--label: %q is no label such as region=eu-west-1%s", text, strings.Join(append([]string{""}, problems...), ": "))
		case key == v1alpha1.ClusterSetLabel:
			return usagef("--label: %s is set by --set", key)
		}
		o.adds.Labels[key] = value
	}
	return nil
}

// sayUsers says how many Placements use the set of the cluster, if the user may list them.
func (o *addClusterOptions) sayUsers(ctx context.Context, hub client.Client, out io.Writer) {
	set := cmp.Or(o.adds.Set, v1alpha1.DefaultManagedClusterSetName)
	var bindings v1alpha1.ManagedClusterSetBindingList
	var placements v1alpha1.PlacementList
	if hub.List(ctx, &bindings) != nil || hub.List(ctx, &placements) != nil {
		return // It is only a help.
	}
	bound := map[string]bool{}
	for _, binding := range bindings.Items {
		bound[binding.Namespace] = bound[binding.Namespace] || binding.Spec.ClusterSet == set
	}
	var users []string
	for _, pl := range placements.Items {
		if sets := pl.Spec.ClusterSets; bound[pl.Namespace] && (len(sets) == 0 || slices.Contains(sets, set)) {
			users = append(users, pl.Namespace+"/"+pl.Name)
		}
	}
	slices.Sort(users)
	if len(users) == 0 {
		say(out, "No Placement uses the set %s.\n", set)
		return
	}
	say(out, "Placements that use the set %s, and select the cluster if it qualifies: %s\n", set, counted(users, false))
}
