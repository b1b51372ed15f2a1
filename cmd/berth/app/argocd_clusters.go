package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/member"
)

type argoCDClustersOptions struct {
	hub       hubFlags
	namespace string
	dryRun    bool
}

func newArgoCDClustersCommand() *cobra.Command {
	o := argoCDClustersOptions{}
	cmd := &cobra.Command{
		Use:   "argocd-clusters",
		Short: "Write the cluster secrets of Argo CD for ManagedClusters",
		Long: `Write the cluster secrets of Argo CD for ManagedClusters.

For each ManagedCluster NAME with an address in spec.managedClusterClientConfigs, argocd-clusters applies the Secret cluster-NAME in the
namespace of Argo CD, with the first address and its CA. The credentials are the key token of the Secret argocd-manager in the namespace NAME
on the hub.

The agent of a cluster may write the address. So it must begin with https://, and cannot be that of Argo CD's own cluster or of another cluster
secret: Argo CD identifies clusters by their address. If the Secret of a cluster cannot be written, the others still are, and the exit code
is 1. Nothing is deleted.`,
		Example: `  berth argocd-clusters
  berth argocd-clusters --argocd-namespace gitops --dry-run`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(validation.IsDNS1123Label(o.namespace)) > 0 {
				return usagef("--argocd-namespace: %q is not a namespace", o.namespace)
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.hub.add(cmd)
	cmd.Flags().StringVar(&o.namespace, "argocd-namespace", "argocd", "namespace of Argo CD")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, dryRunUsage)
	return cmd
}

func (o *argoCDClustersOptions) run(ctx context.Context, out, errs io.Writer) error {
	hub, _, err := o.hub.connect()
	if err != nil {
		return err
	}
	var clusters v1alpha1.ManagedClusterList
	if err := hub.List(ctx, &clusters); err != nil {
		return fmt.Errorf("listing the ManagedClusters: %w", err)
	}
	config, err := connect(o.hub.config.ToRawKubeConfigLoader(), "hub", "kubeconfig")
	if err != nil {
		return err
	}
	config.QPS = -1
	secrets, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	applied, waiting, failed, suffix := 0, 0, 0, ""
	if o.dryRun {
		suffix = " (dry run)"
	}
	writer := &member.ArgoCDClusters{Hub: secrets, Namespace: o.namespace, DryRun: o.dryRun}
	err = writer.Apply(ctx, clusters.Items, func(cluster string, err error) {
		switch {
		case errors.Is(err, member.ErrNoArgoCDAddress) || errors.Is(err, member.ErrNoArgoCDToken):
			waiting++
			say(out, "ManagedCluster %s: %s\n", cluster, err)
		case err != nil:
			failed++
			say(errs, "ManagedCluster %s: %s\n", cluster, err)
		default:
			applied++
			say(out, "Secret %s/cluster-%s applied%s\n", o.namespace, cluster, suffix)
		}
	})
	if err != nil {
		return err
	}
	say(out, "Cluster secrets: %d applied, %d without address or token, %d failed\n", applied, waiting, failed)
	if failed > 0 {
		return errors.New("some cluster secrets could not be written")
	}
	return nil
}
