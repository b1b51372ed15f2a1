package app

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/pkg/member"
)

type reportOptions struct {
	kubeconfig string
	member     string
	interval   time.Duration
	once       bool
}

func newReportCommand() *cobra.Command {
	o := reportOptions{}
	cmd := &cobra.Command{
		Use:   "report NAME --member-kubeconfig FILE",
		Short: "Keep the status of one ManagedCluster up to date without an agent in the cluster",
		Long: `Keep the status of one ManagedCluster up to date without an agent in the cluster.

report reads the nodes, version and ClusterClaims of the member cluster. When they differ from the ManagedCluster on the hub, it writes
status.allocatable, status.capacity, status.clusterClaims, status.version and the condition ManagedClusterConditionAvailable. The
condition is Unknown if the member does not respond, and False if it reports that it is not ready; the other fields then stay.`,
		Example: `  berth report paris1 --kubeconfig hub.kubeconfig --member-kubeconfig paris1.kubeconfig`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.member == "" {
				return usagef("--member-kubeconfig is required")
			}
			if o.interval < time.Second {
				return usagef("--interval: %s must be at least 1s", o.interval)
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the hub")
	flags.StringVar(&o.member, "member-kubeconfig", "", "kubeconfig of the member cluster")
	flags.DurationVar(&o.interval, "interval", 30*time.Second, "time between two reports, at least 1s")
	flags.BoolVar(&o.once, "once", false, "report once and exit")
	return cmd
}

func (o *reportOptions) run(ctx context.Context, name string, out io.Writer) error {
	hubConfig, err := connect(kubeconfigAt(o.kubeconfig), "hub", "kubeconfig")
	if err != nil {
		return err
	}
	memberConfig, err := connect(kubeconfigAt(o.member), "member", "member-kubeconfig")
	if err != nil {
		return err
	}
	r, err := member.NewReporter(name, hubConfig, memberConfig)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for {
		changed, err := r.Report(ctx)
		switch {
		case err != nil && (o.once || apierrors.IsNotFound(err)):
			return err
		case err != nil:
			// The hub may be available again at the next report.
			say(out, "ManagedCluster %s: %v\n", name, err)
		case changed != "":
			say(out, "ManagedCluster %s: %s\n", name, changed)
		}
		if o.once {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
