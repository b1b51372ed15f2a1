package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

type explainOptions struct {
	plugins framework.Registry
	hub     hubFlags
	cluster string
	config  string
	queues  string
	output  string
}

func newExplainCommand(plugins framework.Registry) *cobra.Command {
	o := explainOptions{plugins: plugins}
	cmd := &cobra.Command{
		Use:   "explain NAME [-n NAMESPACE]",
		Short: "Show why each cluster was or was not selected for a Placement",
		Long: `Show why each cluster was or was not selected for a Placement.

explain reads the hub and decides the Placement again with the same engine as the controller. For every candidate it shows the plugin
that excluded it and the reason, or its score (-o wide: by prioritizer), rank and distance from the last selected cluster. For a cluster
that was not selected it shows the smallest change with which it would be selected, and verifies the change by another decision.

If you may not list the fleet, explain asks the controller: it creates a PlacementExplanation in the namespace, prints the answer and
deletes it. The answer has the candidates of the namespace only, at most 200 of them without --cluster. That needs permission to create
and get placementexplanations, which the roles berth-viewer and berth-editor include. Otherwise explain writes nothing.`,
		Example: `  berth explain web -n shop
  berth explain web -n shop --cluster paris1`,
		Args:              onePlacement,
		ValidArgsFunction: o.hub.completePlacements(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			progress := startProgress(cmd.ErrOrStderr())
			defer progress.stop()
			return o.run(cmd.Context(), args[0], progress, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	o.hub.add(cmd)
	o.hub.addNamespace(cmd, "the Placement's namespace (default: the kubeconfig's)")
	flags.StringVar(&o.cluster, "cluster", "", "explain only this cluster")
	addConfigFlag(cmd, &o.config)
	addQueuesFlag(cmd, &o.queues)
	addOutputFlag(cmd, &o.output)
	complete(cmd, "cluster", o.hub.completeClusters)
	return cmd
}

func (o *explainOptions) run(ctx context.Context, name string, progress *progress, out io.Writer) error {
	configuration, err := loadConfig(ctx, o.config, o.plugins)
	if err != nil {
		return err
	}
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	progress.say("reading the hub")
	objects, err := o.read(ctx, hub, key)
	if apierrors.IsForbidden(err) {
		return o.ask(ctx, hub, key, err, progress, out)
	}
	if err != nil {
		return err
	}
	progress.say("deciding")
	s, err := simulator.New(ctx, objects, time.Now(), simulator.Options{UserLabel: os.Getenv(identity.UserLabelEnv), Config: configuration, Plugins: o.plugins})
	if err != nil {
		return err
	}
	report, err := s.Explain(ctx, key, o.cluster)
	if err != nil {
		return err
	}
	progress.stop()
	if o.output == "json" || o.output == "yaml" {
		return printObject(out, o.output, report)
	}
	if err := printReport(out, report, o.output == "wide"); err != nil {
		return err
	}
	return o.sayIfNoCandidate(out, report)
}

func (o *explainOptions) sayIfNoCandidate(out io.Writer, report *simulator.Report) error {
	if report.Answer == nil || o.cluster == "" || slices.Contains(report.AvailableClusters, o.cluster) {
		return nil
	}
	return say(out, "  %s is no candidate: it is in none of the cluster sets that the Placement may use.\n", o.cluster)
}

// read lists the objects that decide the Placement.
func (o *explainOptions) read(ctx context.Context, hub client.Client, key types.NamespacedName) (simulator.Objects, error) {
	objects, err := readHub(ctx, hub)
	if err != nil {
		return nil, err
	}
	if err := o.known(objects, key); err != nil {
		return nil, err
	}
	return objects, readHubQueues(ctx, hub, o.queues, &objects)
}

// known returns an error if the hub lacks the Placement or the cluster of the request.
func (o *explainOptions) known(objects simulator.Objects, key types.NamespacedName) error {
	if !slices.ContainsFunc(simulator.List[*v1alpha1.Placement](objects), func(pl *v1alpha1.Placement) bool {
		return client.ObjectKeyFromObject(pl) == key
	}) {
		return fmt.Errorf("there is no Placement %s", key)
	}
	if o.cluster != "" && !slices.ContainsFunc(simulator.List[*v1alpha1.ManagedCluster](objects), func(c *v1alpha1.ManagedCluster) bool {
		return c.Name == o.cluster
	}) {
		return fmt.Errorf("there is no ManagedCluster %s", o.cluster)
	}
	return nil
}

func addQueuesFlag(cmd *cobra.Command, queues *string) {
	cmd.Flags().StringVar(queues, "queue-config", localQueueConfig.String(), "ConfigMap with the queues, as NAMESPACE/NAME; read only if Placements have the condition QueueAdmitted")
}

// readHubQueues adds the objects that queues depend on, if a Placement's condition shows that the
// controller uses queues.
func readHubQueues(ctx context.Context, hub client.Client, queues string, objects *simulator.Objects) error {
	if !slices.ContainsFunc(simulator.List[*v1alpha1.Placement](*objects), func(pl *v1alpha1.Placement) bool {
		return meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionQueueAdmitted) != nil
	}) {
		return nil
	}
	key, err := parseQueueConfig(queues)
	if err != nil {
		return err
	}
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	if err := hub.Get(ctx, key, config); err != nil {
		return fmt.Errorf("reading the queues: %w (--queue-config names their ConfigMap)", err)
	}
	config.SetName(admission.QueueConfigName)
	namespaces := &unstructured.UnstructuredList{}
	namespaces.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := hub.List(ctx, namespaces); err != nil {
		return fmt.Errorf("reading the namespaces: %w", err)
	}
	for i := range namespaces.Items {
		*objects = append(*objects, &namespaces.Items[i])
	}
	*objects = append(*objects, config)
	return nil
}

// readHub lists the objects that decisions depend on. A hub with only Open Cluster Management's
// CRDs need not serve Berth's own kinds.
func readHub(ctx context.Context, hub client.Client) (simulator.Objects, error) {
	var objects simulator.Objects
	for _, kind := range kinds.All() {
		list := kind.NewList()
		err := hub.List(ctx, list)
		switch {
		case kind.Optional() && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading the hub: %w", err)
		}
		items, err := kinds.Items(list)
		if err != nil {
			return nil, fmt.Errorf("reading the hub: %s: %w", kind.Plural, err)
		}
		for _, item := range items {
			objects = append(objects, item)
		}
	}
	return objects, nil
}

func pointers[T any](items []T) []*T {
	p := make([]*T, len(items))
	for i := range items {
		p[i] = &items[i]
	}
	return p
}
