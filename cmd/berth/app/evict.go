package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// maxExcludeFor is the longest time for which an eviction excludes a cluster.
const maxExcludeFor = 365 * 24 * time.Hour

type evictOptions struct {
	effectOptions
	cluster    string
	excludeFor time.Duration
}

func newEvictCommand(plugins framework.Registry) *cobra.Command {
	o := evictOptions{effectOptions: effectOptions{simulation: simulationFlags{plugins: plugins}}}
	cmd := &cobra.Command{
		Use:   "evict [TYPE/]NAME --cluster CLUSTER [-n NAMESPACE] [--exclude-for DURATION]",
		Short: "Remove a cluster from one Placement, as DisruptionPolicies allow",
		Long: `Remove a cluster from one Placement, as DisruptionPolicies allow.

` + effectHelp + `Then it creates a PlacementEviction and prints what the eviction waits
for, until the cluster is removed, and then the way back. The cluster is not selected again for the time of --exclude-for,
or until the PlacementEviction is deleted. ` + placementHelp + `Needs permission to get placements, to list placementdecisions and to create
and get placementevictions.`,
		Example: `  berth evict web -n shop --cluster edge2
  berth evict web -n shop --cluster edge2 --exclude-for 24h --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.finish(cmd)
	cmd.Flags().StringVar(&o.cluster, "cluster", "", "the cluster to remove; required")
	cmd.Flags().DurationVar(&o.excludeFor, "exclude-for", berthv1alpha1.DefaultExcludeForSeconds*time.Second, "how long the cluster is not selected again, in whole seconds, at most a year")
	complete(cmd, "cluster", o.hub.completeClusters)
	return cmd
}

func (o *evictOptions) run(cmd *cobra.Command, arg string) error {
	if o.cluster == "" {
		return usagef("--cluster is required")
	}
	if o.excludeFor < time.Second || o.excludeFor > maxExcludeFor || o.excludeFor%time.Second != 0 {
		return usagef("--exclude-for: %s is not a number of whole seconds from 1s to %s", o.excludeFor, maxExcludeFor)
	}
	cluster, err := clusterName("cluster", o.cluster)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	hub, key, err := o.connect(ctx, arg)
	if err != nil {
		return err
	}
	action, err := o.prepare(ctx, hub, actions.Request{Verb: actions.Evict, Placement: key, Cluster: cluster, ExcludeFor: o.excludeFor})
	if err != nil {
		return err
	}
	if err := o.show(cmd, hub, action); err != nil {
		return err
	}
	before := actions.RevisionToPin(ctx, hub, key)
	created, err := o.do(cmd, action)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.sayDone(cmd, action.Done)
	}
	return awaitEviction(ctx, hub, created.(*berthv1alpha1.PlacementEviction), before, cmd.OutOrStdout())
}

// sayWayBack says how to select the evicted cluster again. before is the revision that had it; 0 if
// that is not known, or the Placement is pinned.
func sayWayBack(out io.Writer, e *berthv1alpha1.PlacementEviction, before int64) error {
	if before == 0 {
		return say(out, "To permit the cluster again earlier: kubectl delete placementeviction %s -n %s\n", e.Name, e.Namespace)
	}
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Placement}
	pin, unpin := actions.Request{Verb: actions.Pin, Placement: key, Revision: before}, actions.Request{Verb: actions.Unpin, Placement: key}
	return say(out, "To go back:\n  kubectl delete placementeviction %s -n %s\n  %s\n  %s\n", e.Name, e.Namespace, pin.Command(), unpin.Command())
}

// awaitEviction prints what the eviction waits for, after each change, until it is executed, and
// then the way back.
func awaitEviction(ctx context.Context, hub client.Client, e *berthv1alpha1.PlacementEviction, before int64, out io.Writer) error {
	name := fmt.Sprintf("placementeviction.%s/%s", berthv1alpha1.GroupName, e.Name)
	say(out, "%s created\n", name)
	say(out, toSeeWhy, e.Spec.Placement, e.Namespace)
	shown, began := "", time.Now()
	for {
		waits, done, err := stateOf(e)
		switch {
		case err != nil:
			return fmt.Errorf("%s is not valid: %w", name, err)
		case done:
			say(out, "%s executed\n", name)
			return sayWayBack(out, e, before)
		case waits == "" && time.Since(began) > actions.Patience:
			return fmt.Errorf("waiting for the controller: %s was created, but the controller has not reported it after %s: it may not run", name, actions.Patience)
		case waits != shown:
			shown = waits
			say(out, "%s\n", waits)
		}
		select {
		case <-ctx.Done():
			return errChanges
		case <-time.After(watchInterval):
		}
		err = hub.Get(ctx, client.ObjectKeyFromObject(e), e)
		switch {
		case ctx.Err() != nil:
			return errChanges
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%s was deleted before it was executed", name)
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
}

// stateOf returns what an eviction waits for, empty if the controller has not reported it, and
// whether it is executed; an error if it is not valid.
func stateOf(e *berthv1alpha1.PlacementEviction) (waits string, done bool, err error) {
	valid := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.EvictionValid)
	executed := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.EvictionExecuted)
	switch {
	case executed != nil && executed.Status == metav1.ConditionTrue:
		return "", true, nil
	case valid != nil && valid.Status == metav1.ConditionFalse:
		return "", false, fmt.Errorf("%s: %s", valid.Reason, valid.Message)
	case executed != nil:
		return executed.Message, false, nil
	}
	return "", false, nil
}
