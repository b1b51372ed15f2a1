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
		Short: "Keep one ManagedCluster's status true without an agent in the cluster",
		Long: `Keep one ManagedCluster's status true without an agent in the cluster.

report reads the member's nodes, version and ClusterClaims, and writes allocatable, capacity, claims, version and the Available
condition of the ManagedCluster on the hub, when they differ. A member that does not answer is reported as Unknown, one that
says it is not ready as False; what was known of it stays.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.member == "" {
				return usagef("--member-kubeconfig is required")
			}
			if o.interval < time.Second {
				return usagef("--interval: %s is less than a second", o.interval)
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the hub")
	flags.StringVar(&o.member, "member-kubeconfig", "", "kubeconfig of the member cluster")
	flags.DurationVar(&o.interval, "interval", 30*time.Second, "how often the member is asked")
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
