package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
)

type checkOptions struct {
	hubFlags
	file       string
	placements []string
}

func newQueuesCheckCommand() *cobra.Command {
	o := checkOptions{}
	cmd := &cobra.Command{
		Use:   "check -f FILE|-",
		Short: "Validate a queue configuration, show its queues, and count the Placements that get none",
		Long: `Validate a queue configuration, show its queues, and count the Placements that get none.

check prints the tree of queues with their access lists, cluster sets, quotas and limits. If the configuration is invalid, it prints every
error with its line. Warnings go to standard error: about legal settings without effect, and about Placements for which no rule finds a
queue. These get no cluster.

With --kubeconfig or --context, check reads the Placements of that hub, and with --placements those in files. It counts them, warns of quotas
that they exceed, and refuses a configuration under which queues with Placements could hold none. Without either, check needs no hub and knows no Placement: it warns if a
Placement of the user nobody, which requests no queue, would get none.`,
		Example: `  berth queues check -f queues.yaml
  berth queues check -f queues.yaml --kubeconfig hub.kubeconfig
  berth queues check -f queues.yaml --placements samples/
  berth queues check -f - <<EOF
  partitions:
  - name: default
    queues:
    - name: team-search
      maxapplications: 20                      # Placements
      resources: {max: {clusters: 10}}         # of all Placements together
      properties: {clustersets: "prod,staging"}
    placementrules:
    - {name: tag, value: namespace, create: true}
  EOF`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "queue configuration to read, or a ConfigMap with one; - for standard input")
	cmd.Flags().StringArrayVar(&o.placements, "placements", nil, "file or folder with Placements, and optionally their PlacementDecisions and Namespaces; repeatable")
	o.add(cmd)
	return cmd
}

func (o *checkOptions) run(cmd *cobra.Command) error {
	hub := cmd.Flags().Changed("kubeconfig") || cmd.Flags().Changed("context")
	if hub && len(o.placements) > 0 {
		return usagef("--placements cannot be used with --kubeconfig or --context")
	}
	text, err := readQueueFile(&o.file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	warn := func(warnings ...string) {
		for _, warning := range warnings {
			say(cmd.ErrOrStderr(), "warning: %s: %s\n", o.file, warning)
		}
	}
	var objects simulator.Objects
	switch {
	case hub:
		objects, err = o.readHub(cmd.Context())
	case len(o.placements) > 0:
		var input simulator.Input
		input, err = simulator.Load(o.placements, nil)
		objects = append(simulator.Objects{}, input.Objects...)
	}
	if err != nil {
		return err
	}
	config, problems, err := queueconfig.Parse(text)
	if err != nil || objects == nil {
		for _, problem := range problems {
			warn(problem.String())
		}
	} else {
		var warnings []string
		warnings, err = admission.CheckQueuesFor(text, os.Getenv(identity.UserLabelEnv), submitted(objects))
		warn(warnings...)
	}
	if err != nil {
		return fmt.Errorf("%s is not a valid queue configuration:\n%w", o.file, err)
	}
	if warning := admission.WarnOfUnplaced(config); objects == nil && warning != "" {
		warn(warning)
	}
	return printQueues(cmd.OutOrStdout(), config.Tree, config.Tree.Root(), 0)
}

// readHub reads the Placements of the hub, and what their queues depend on.
func (o *checkOptions) readHub(ctx context.Context) (simulator.Objects, error) {
	hub, _, err := o.connect()
	if err != nil {
		return nil, err
	}
	objects, err := simulator.ReadKinds(ctx, hub, slices.DeleteFunc(kinds.All(), func(kind kinds.Kind) bool {
		return kind.Name != "Placement" && kind.Name != "PlacementDecision"
	})...)
	if err != nil {
		return nil, err
	}
	namespaces, err := simulator.ReadNamespaces(ctx, hub)
	return append(objects, namespaces...), err
}

func submitted(objects simulator.Objects) admission.Submitted {
	hub := admission.Submitted{Placements: simulator.List[*v1alpha1.Placement](objects), Pages: simulator.List[*v1alpha1.PlacementDecision](objects)}
	for _, o := range simulator.List[*unstructured.Unstructured](objects) {
		if o.GetAPIVersion() == "v1" && o.GetKind() == "Namespace" {
			hub.Namespaces = append(hub.Namespaces, o)
		}
	}
	return hub
}

// printQueues prints a queue, its limits and the queues below it, one per line, indented by level.
func printQueues(out io.Writer, tree *tenancy.Tree, q *tenancy.Queue, depth int) error {
	words := []string{strings.Repeat("  ", depth) + q.Name[strings.LastIndexByte(q.Name, '.')+1:]}
	if q.Leaf() {
		words[0] += " (leaf)"
	}
	for _, acl := range []struct {
		name string
		tenancy.ACL
	}{{"submitacl", q.SubmitACL}, {"adminacl", q.AdminACL}} {
		if acl.IsSet() {
			words = append(words, fmt.Sprintf("%s=%q", acl.name, acl.String()))
		}
	}
	words = append(words, "clustersets="+describeSets(tree.ClusterSets(nil, q.Name)))
	words = append(words, describeQuota(q.Quota)...)
	if err := say(out, "%s\n", strings.Join(words, "  ")); err != nil {
		return err
	}
	for _, limit := range q.Limits() {
		if err := say(out, "%s- limit  %s\n", strings.Repeat("  ", depth+1), describeLimit(limit)); err != nil {
			return err
		}
	}
	for _, child := range q.Children {
		if err := printQueues(out, tree, child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func describeQuota(quota tenancy.Quota) (words []string) {
	if quota.Applications < tenancy.Unlimited {
		words = append(words, fmt.Sprintf("maxapplications=%d", quota.Applications))
	}
	if quota.Clusters < tenancy.Unlimited {
		words = append(words, fmt.Sprintf("clusters=%d", quota.Clusters))
	}
	return words
}

func describeLimit(limit tenancy.Limit) string {
	var words []string
	for _, listed := range []struct {
		kind  string
		names []string
	}{{"users", limit.Users}, {"groups", limit.Groups}} {
		if len(listed.names) > 0 {
			words = append(words, listed.kind+"="+strings.Join(listed.names, ","))
		}
	}
	return strings.Join(append(words, describeQuota(limit.Quota)...), "  ")
}

func describeSets(sets []string, restricted bool) string {
	switch {
	case !restricted:
		return "any"
	case len(sets) == 0:
		return "none"
	}
	return strings.Join(sets, ",")
}
