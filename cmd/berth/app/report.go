package app

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/pkg/member"
)

type reportOptions struct {
	kubeconfig string
	member     string
	secrets    string
	interval   time.Duration
	threshold  int
	once       bool
}

func newReportCommand() *cobra.Command {
	o := reportOptions{}
	cmd := &cobra.Command{
		Use:   "report (NAME --member-kubeconfig FILE | --members-from-secrets NAMESPACE)",
		Short: "Keep the status of ManagedClusters up to date without an agent in the clusters",
		Long: `Keep the status of ManagedClusters up to date without an agent in the clusters.

report reads the nodes, version and ClusterClaims of the member cluster. When they differ from the ManagedCluster on the hub, it writes
status.allocatable, status.capacity, status.clusterClaims, status.version and the condition ManagedClusterConditionAvailable.

A failed probe is repeated once. After --failure-threshold failures in a row the condition changes: to Unknown if the member does not
respond, and to False if it reports that it is not ready. Its message has the error. The other fields then stay.

report also renews the Lease managed-cluster-lease in the namespace with the ManagedCluster's name, which must exist. If that stops, the
controller sets the condition to Unknown.

With --members-from-secrets one reporter serves many members. It follows the Secrets of that namespace with the label
berth.dev/member, which add-cluster makes, and the cluster secrets of Argo CD. It reads no files and runs no programs that a Secret names.

With --once it makes one report. If the member does not respond, it changes nothing and exits with code 1. It renews a Lease that exists,
but creates none.`,
		Example: `  # Report the cluster paris1 until Ctrl-C
  berth report paris1 --kubeconfig hub.kubeconfig --member-kubeconfig paris1.kubeconfig

  # Report once, for example from a script
  berth report paris1 --kubeconfig hub.kubeconfig --member-kubeconfig paris1.kubeconfig --once

  # Report all members that the Secrets of the namespace fleet describe
  kubectl create secret generic paris1 -n fleet --from-file=kubeconfig=paris1.kubeconfig
  kubectl label secret paris1 -n fleet berth.dev/member=paris1
  berth report --kubeconfig hub.kubeconfig --members-from-secrets fleet

  # Report all clusters of Argo CD
  berth report --kubeconfig hub.kubeconfig --members-from-secrets argocd`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			if o.secrets != "" {
				return o.runFleet(cmd.Context(), cmd.OutOrStdout())
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the hub")
	flags.StringVar(&o.member, "member-kubeconfig", "", "kubeconfig of the member cluster")
	flags.StringVar(&o.secrets, "members-from-secrets", "", "namespace on the hub whose Secrets describe the members")
	flags.DurationVar(&o.interval, "interval", 30*time.Second, "time between two reports, at least 1s")
	flags.IntVar(&o.threshold, "failure-threshold", 5, "failures in a row that change Available; a probe and its repetition count as one")
	flags.BoolVar(&o.once, "once", false, "report one member once and exit")
	return cmd
}

func (o *reportOptions) check(args []string) error {
	switch {
	case o.secrets != "" && len(args) > 0:
		return usagef("--members-from-secrets takes the names of the ManagedClusters from the Secrets: omit %q", args[0])
	case o.secrets != "" && o.member != "":
		return usagef("--members-from-secrets and --member-kubeconfig exclude each other")
	case o.secrets != "" && o.once:
		return usagef("--once reports one member: give its NAME and --member-kubeconfig")
	case o.secrets == "" && len(args) == 0:
		return usagef("the NAME of the ManagedCluster is required, or --members-from-secrets")
	case o.secrets == "" && o.member == "":
		return usagef("--member-kubeconfig is required")
	case o.interval < time.Second:
		return usagef("--interval: %s must be at least 1s", o.interval)
	case o.threshold < 1:
		return usagef("--failure-threshold: %d must be at least 1", o.threshold)
	}
	return nil
}

func (o *reportOptions) connectHub() (*rest.Config, error) {
	return connect(kubeconfigAt(o.kubeconfig), "hub", "kubeconfig")
}

func (o *reportOptions) run(ctx context.Context, name string, out io.Writer) error {
	hubConfig, err := o.connectHub()
	if err != nil {
		return err
	}
	memberConfig, err := connect(kubeconfigAt(o.member), "member", "member-kubeconfig")
	if err != nil {
		return err
	}
	hub, err := member.NewHubClient(hubConfig)
	if err != nil {
		return err
	}
	r, err := member.NewReporter(name, hub, memberConfig, o.threshold)
	if err != nil {
		return err
	}
	show := func(line string) {
		say(out, "ManagedCluster %s: %s\n", name, line)
	}
	if !o.once {
		return r.Run(ctx, o.interval, true, show)
	}
	changed, err := r.Once(ctx)
	if err == nil && changed != "" {
		show(changed)
	}
	return err
}

func (o *reportOptions) runFleet(ctx context.Context, out io.Writer) error {
	hubConfig, err := o.connectHub()
	if err != nil {
		return err
	}
	hub, err := member.NewHubClient(hubConfig)
	if err != nil {
		return err
	}
	secrets, err := kubernetes.NewForConfig(hubConfig)
	if err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	var lines sync.Mutex
	fleet := &member.Fleet{
		Hub: hub, Secrets: secrets, Namespace: o.secrets, Interval: o.interval, FailureThreshold: o.threshold,
		Say: func(line string) {
			lines.Lock()
			defer lines.Unlock()
			say(out, "%s\n", line)
		},
	}
	return fleet.Run(ctx)
}
