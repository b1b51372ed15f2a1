package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
)

type topOptions struct {
	hub      hubFlags
	selector string
	sortBy   string
	output   string
}

// clusterUse is one line of top.
type clusterUse struct {
	Name       string `json:"name"`
	ClusterSet string `json:"clusterSet,omitempty"`
	// Available is false if a taint says that the cluster is unavailable or unreachable.
	Available bool `json:"available"`
	// Decisions counts the entries that name the cluster on published pages.
	Decisions   int                   `json:"decisions"`
	Allocatable v1alpha1.ResourceList `json:"allocatable,omitempty"`
	Capacity    v1alpha1.ResourceList `json:"capacity,omitempty"`
	Taints      []v1alpha1.Taint      `json:"taints,omitempty"`
	UsedBy      []string              `json:"usedBy"`
}

// sortOrders has a comparison for each value of --sort-by. The largest value comes first, except by
// name.
var sortOrders = map[string]func(a, b *clusterUse) int{
	"name":      func(_, _ *clusterUse) int { return 0 },
	"decisions": func(a, b *clusterUse) int { return cmp.Compare(b.Decisions, a.Decisions) },
	"cpu":       func(a, b *clusterUse) int { return compareResource(a, b, v1alpha1.ResourceCPU) },
	"memory":    func(a, b *clusterUse) int { return compareResource(a, b, v1alpha1.ResourceMemory) },
}

func compareResource(a, b *clusterUse, name v1alpha1.ResourceName) int {
	x, y := a.Allocatable[name], b.Allocatable[name]
	return y.Cmp(x)
}

func newTopCommand() *cobra.Command {
	o := topOptions{}
	orders := slices.Sorted(maps.Keys(sortOrders))
	cmd := &cobra.Command{
		Use:   "top [--sort-by decisions|cpu|memory|name]",
		Short: "Show clusters by number of decisions, with their resources and the Placements that use them",
		Long: `Show clusters by number of decisions, with their resources and the Placements that use them.

DECISIONS is the number of entries for the cluster in the published decisions of all Placements. ALLOCATABLE are the
amounts that the cluster reports as allocatable, with their share of its capacity, not what is in use. Unavailable
clusters come first.`,
		Example: `  berth top
  berth top --sort-by memory -l region=eu -o wide`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			if sortOrders[o.sortBy] == nil {
				return usagef("--sort-by: %q is not one of %s", o.sortBy, strings.Join(orders, ", "))
			}
			progress := startProgress(cmd.ErrOrStderr())
			defer progress.stop()
			progress.say("reading the hub")
			uses, err := o.read(cmd.Context())
			if err != nil {
				return err
			}
			progress.stop()
			return o.print(cmd.OutOrStdout(), uses)
		},
	}
	o.hub.add(cmd)
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "label selector of the clusters to show")
	cmd.Flags().StringVar(&o.sortBy, "sort-by", "decisions", strings.Join(orders, ", "))
	complete(cmd, "sort-by", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp))
	addOutputFlag(cmd, &o.output)
	return cmd
}

func (o *topOptions) read(ctx context.Context) ([]*clusterUse, error) {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, usagef("-l: %w", err)
	}
	hub, _, err := o.hub.connect()
	if err != nil {
		return nil, err
	}
	var clusters v1alpha1.ManagedClusterList
	if err := hub.List(ctx, &clusters, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("reading the hub: %w", err)
	}
	pages, err := actions.ReadPages(ctx, hub)
	if err != nil {
		return nil, err
	}
	return usesOf(clusters.Items, pages, sortOrders[o.sortBy]), nil
}

// usesOf counts the decisions on published pages, and sorts the clusters: the unavailable first,
// then by order, then by name.
func usesOf(clusters []v1alpha1.ManagedCluster, pages []*v1alpha1.PlacementDecision, order func(a, b *clusterUse) int) []*clusterUse {
	byName := map[string]*clusterUse{}
	uses := make([]*clusterUse, len(clusters))
	for i := range clusters {
		c := &clusters[i]
		uses[i] = &clusterUse{
			Name: c.Name, ClusterSet: c.Labels[v1alpha1.ClusterSetLabel], Available: !c.Unavailable(), UsedBy: []string{},
			Allocatable: c.Status.Allocatable, Capacity: c.Status.Capacity, Taints: c.Spec.Taints,
		}
		byName[c.Name] = uses[i]
	}
	for _, page := range pages {
		for _, decision := range page.Status.Decisions {
			use := byName[decision.ClusterName]
			if use == nil {
				continue
			}
			use.Decisions++
			use.UsedBy = append(use.UsedBy, page.Namespace+"/"+page.PlacementName())
		}
	}
	for _, use := range uses {
		slices.Sort(use.UsedBy)
		use.UsedBy = slices.Compact(use.UsedBy)
	}
	slices.SortFunc(uses, func(a, b *clusterUse) int {
		return cmp.Or(boolOrder(a.Available)-boolOrder(b.Available), order(a, b), strings.Compare(a.Name, b.Name))
	})
	return uses
}

func (o *topOptions) print(out io.Writer, uses []*clusterUse) error {
	wide := o.output == "wide"
	if structured(o.output) {
		return printObject(out, o.output, map[string]any{"clusters": uses})
	}
	if len(uses) == 0 {
		err := say(out, "No clusters found.\n")
		return err
	}
	t := &table{heading: []string{"CLUSTER", "AVAILABLE", "DECISIONS", "ALLOCATABLE CPU", "OF CAPACITY", "ALLOCATABLE MEMORY", "OF CAPACITY", "USED BY"}, whole: wide}
	t.optional = []string{"OF CAPACITY", "ALLOCATABLE MEMORY", "ALLOCATABLE CPU"}
	if wide {
		t.heading = slices.Insert(t.heading, 1, "SET", "TAINTS")
	}
	for _, use := range uses {
		row := []cell{{text: use.Name}, availableCell(use), {text: fmt.Sprint(use.Decisions)}}
		for _, name := range []v1alpha1.ResourceName{v1alpha1.ResourceCPU, v1alpha1.ResourceMemory} {
			amount, share := allocatableText(use, name)
			row = append(row, cell{text: amount}, cell{text: share})
		}
		row = append(row, cell{text: counted(use.UsedBy, wide)})
		if wide {
			row = slices.Insert(row, 1, cell{text: cmp.Or(use.ClusterSet, none)}, cell{text: taintsText(use.Taints)})
		}
		t.add(row...)
	}
	return t.print(out, colourful(out))
}

// boolOrder sorts false before true.
func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

func availableCell(use *clusterUse) cell {
	if use.Available {
		return cell{text: "True"}
	}
	return cell{"False", red}
}

// allocatableText returns the allocatable amount of a cluster, in the units of kubectl top, and its
// share of the capacity.
func allocatableText(use *clusterUse, name v1alpha1.ResourceName) (amount, share string) {
	const unknown = "<unknown>"
	allocatable, found := use.Allocatable[name]
	if !found {
		return unknown, unknown
	}
	if name == v1alpha1.ResourceCPU {
		amount = fmt.Sprintf("%dm", allocatable.MilliValue())
	} else {
		amount = fmt.Sprintf("%dMi", allocatable.Value()/(1<<20))
	}
	capacity, found := use.Capacity[name]
	if !found || capacity.CmpInt64(0) <= 0 {
		return amount, unknown
	}
	return amount, fmt.Sprintf("%d%%", percent(allocatable, capacity))
}

func percent(part, whole resource.Quantity) int64 {
	return int64(part.AsApproximateFloat64() / whole.AsApproximateFloat64() * 100)
}

func taintsText(taints []v1alpha1.Taint) string {
	texts := make([]string, len(taints))
	for i, t := range taints {
		if texts[i] = t.Key; t.Value != "" {
			texts[i] += "=" + t.Value
		}
		texts[i] += ":" + string(t.Effect)
	}
	return cmp.Or(strings.Join(texts, ","), none)
}
