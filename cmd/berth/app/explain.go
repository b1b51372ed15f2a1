package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/preview"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

type explainOptions struct {
	simulation simulationFlags
	hub        placementFlags
	cluster    string
	all        bool
	output     string
}

func newExplainCommand(plugins framework.Registry) *cobra.Command {
	o := explainOptions{simulation: simulationFlags{plugins: plugins}}
	cmd := &cobra.Command{
		Use:   "explain " + placementUse,
		Short: "Show why each cluster was or was not selected for a Placement",
		Long: `Show why each cluster was or was not selected for a Placement. Without a name, explain does so for all Placements of the namespace.
` + placementHelp + `

explain reads the hub and decides the Placement again, as the controller does. It first counts the clusters by reason. Then
it lists them by rank: those selected and those nearest to the cut, with --all the rest, too. For each cluster it shows the plugin that
excluded it and the reason, or its score (-o wide: by prioritizer), rank and distance from the last selected cluster. For a cluster that was
not selected it shows the smallest change with which it would be selected, and verifies the change by another decision. For several
Placements, it lists clusters only with --all or --cluster.

` + askHelp + ` Without --cluster, the answer has at most 1,000 of them.`,
		Example: `  berth explain web -n shop
  berth explain placement/web -n shop --cluster paris1
  berth explain web -n shop --all -o wide
  berth explain -A`,
		Args:              o.hub.placementsOrAll,
		ValidArgsFunction: o.hub.completePlacements(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			progress := startProgress(cmd.ErrOrStderr())
			defer progress.stop()
			var err error
			if o.cluster, err = clusterName("cluster", o.cluster); err != nil {
				return err
			}
			return o.run(cmd.Context(), args, progress, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	o.hub.add(cmd)
	flags.StringVar(&o.cluster, "cluster", "", "explain only this cluster")
	addAllFlag(cmd, &o.all)
	o.simulation.add(cmd)
	addOutputFlag(cmd, &o.output)
	complete(cmd, "cluster", o.hub.completeClusters)
	return cmd
}

func (o *explainOptions) run(ctx context.Context, args []string, progress *progress, out io.Writer) error {
	with, err := o.simulation.settings(ctx)
	if err != nil {
		return err
	}
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return err
	}
	refs, err := o.hub.refs(ctx, hub, namespace, args, nil)
	if err != nil {
		return err
	}
	progress.say("reading the hub")
	explain, err := o.explainer(ctx, hub, refs, with)
	if err != nil {
		return err
	}
	explanations := make([]*explained, 0, len(refs))
	for i, ref := range refs {
		progress.say("explained %d of %s", i, number(len(refs), "Placement"))
		e, err := explain(ref.NamespacedName)
		if err != nil {
			return err
		}
		explanations = append(explanations, e)
	}
	progress.stop()
	return o.print(out, explanations, len(args) != 1)
}

// explained is the answer for one Placement, with a note on it.
type explained struct {
	*simulator.Report
	note string
}

// explainer returns a function that explains one of the Placements: here, or by the controller for
// a user who may not list the fleet.
func (o *explainOptions) explainer(
	ctx context.Context, hub client.Client, refs []placementRef, with simulator.Options,
) (func(key types.NamespacedName) (*explained, error), error) {
	objects, asker, err := o.simulation.fleet(ctx, hub)
	if err != nil {
		return nil, err
	}
	if asker != nil {
		return func(key types.NamespacedName) (*explained, error) { return o.ask(ctx, asker, key) }, nil
	}
	for _, ref := range refs {
		if err := o.known(objects, ref.NamespacedName); err != nil {
			return nil, err
		}
	}
	s, err := simulator.New(ctx, objects, time.Now(), with)
	if err != nil {
		return nil, err
	}
	return func(key types.NamespacedName) (*explained, error) {
		report, err := s.Explain(ctx, key, o.cluster)
		return &explained{Report: report}, err
	}, nil
}

func (o *explainOptions) print(out io.Writer, explanations []*explained, several bool) error {
	if structured(o.output) {
		if !several {
			return printObject(out, o.output, explanations[0].Report)
		}
		s := simulation{}
		for _, e := range explanations {
			s.Results = append(s.Results, e.Report)
		}
		return printObject(out, o.output, s)
	}
	for i, e := range explanations {
		if i > 0 {
			say(out, "\n")
		}
		if err := o.printOne(out, e, several); err != nil {
			return err
		}
	}
	return nil
}

func (o *explainOptions) printOne(out io.Writer, e *explained, several bool) error {
	shown := e.Report
	if o.cluster != "" && shown.Answer != nil && !slices.Contains(shown.AvailableClusters, o.cluster) {
		// A sentence reports the clusters that are not candidates.
		answer := *shown.Answer
		answer.Verdicts = nil
		shown = &simulator.Report{Placement: shown.Placement, Answer: &answer}
	}
	if err := printReport(out, shown, o.rows(several), o.output == "wide"); err != nil {
		return err
	}
	if e.note != "" {
		say(out, "  %s\n", e.note)
	}
	return o.sayIfNoCandidate(out, e.Report)
}

// rows are the clusters that are listed. For several Placements, they are only counted.
func (o *explainOptions) rows(several bool) clusterRows {
	switch {
	case o.cluster != "":
		return oneRow
	case o.all:
		return allRows
	case several:
		return noRows
	}
	return nearestRows
}

func (o *explainOptions) sayIfNoCandidate(out io.Writer, report *simulator.Report) error {
	if report.Answer == nil || o.cluster == "" || slices.Contains(report.AvailableClusters, o.cluster) {
		return nil
	}
	return say(out, "  %s is no candidate: %s.\n", o.cluster, cmp.Or(report.NoCandidate, decide.NoCandidateUnknown))
}

// ask asks the controller to explain a Placement.
func (o *explainOptions) ask(ctx context.Context, asker *preview.Asker, key types.NamespacedName) (*explained, error) {
	spec := berthv1alpha1.PlacementExplanationSpec{Placement: key.Name}
	switch {
	case o.all:
		spec.Limit = berthv1alpha1.MaxVerdicts
	case o.cluster != "":
		spec.Clusters = []string{o.cluster}
	}
	e, err := asker.Ask(ctx, key.Namespace, spec)
	if err != nil {
		return nil, err
	}
	report, note, err := explanation.AnswerOf(e)
	if err != nil {
		return nil, err
	}
	return &explained{report, note}, nil
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
