package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

type simulateOptions struct {
	resilienceFlags
	plugins   framework.Registry
	files     []string
	placement string
	now       string
	config    string
	all       bool
	output    string
}

func newSimulateCommand(plugins framework.Registry) *cobra.Command {
	o := simulateOptions{plugins: plugins}
	cmd := &cobra.Command{
		Use:   "simulate -f FILE|DIR|- …",
		Short: "Decide Placements offline, from objects in files",
		Long: `Decide Placements offline, from objects in files.

simulate reads YAML or JSON (also .gz), applies the defaults of the CRDs, and refuses what their validation or the admission policies of a
hub refuse, in the same words. It decides with the same engine as the controller, in its order: each Placement without published clusters
counts the clusters of those before it. PlacementDecisions in the input are the published decisions. In a scenario file each Placement is
decided alone. simulate writes nothing.

A line on standard error counts what simulate did not read, such as other kinds and subfolders. The input has at most 256 MiB, also
decompressed, and 200,000 objects of at most 3 MiB; a YAML document has at most 32 MiB. Pipes are read only as standard input.

With --domains it shows which regions, zones or clusters the Placements can lose instead, as berth resilience does.`,
		Example: `  berth simulate -f fleet.yaml -f placement.yaml
  berth simulate -f fleet.yaml --placement shop/web -o json
  berth simulate -f fleet.yaml -f placements/ -o markdown
  berth simulate -f fleet.yaml -f placements/ --domains label:region --fail-below 1
  kubectl get managedclusters,managedclustersets,managedclustersetbindings,placements,selectionpolicies,placementdecisions -A -o yaml | berth simulate -f -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			progress := startProgress(cmd.ErrOrStderr())
			defer progress.stop()
			return o.run(cmd.Context(), progress, cmd)
		},
	}
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file or folder to read, - for standard input; repeatable")
	cmd.Flags().StringVar(&o.placement, "placement", "", "decide only this Placement, as NAMESPACE/NAME")
	cmd.Flags().StringVar(&o.now, "now", "", "time of the decision, in RFC 3339, such as 2026-06-01T12:00:00Z (default: the current time)")
	o.add(cmd, "show which domains Placements can lose, by a property of clusters")
	addAllFlag(cmd, &o.all)
	addConfigFlag(cmd, &o.config)
	addOutputFlag(cmd, &o.output, markdown)
	return cmd
}

// simulation is the output: the results, or those of each scenario's steps for a scenario file.
type simulation struct {
	Results   []*simulator.Report `json:"results,omitempty"`
	Scenarios []scenarioResult    `json:"scenarios,omitempty"`
}

type scenarioResult struct {
	ID    string       `json:"id"`
	Steps []stepResult `json:"steps"`
}

type stepResult struct {
	Results []*simulator.Report `json:"results"`
	Refused []simulator.Refusal `json:"refused,omitempty"`
}

func (o *simulateOptions) run(ctx context.Context, progress *progress, cmd *cobra.Command) error {
	now, err := o.check()
	if err != nil {
		return err
	}
	only, err := placementKey("placement", o.placement, "")
	if err != nil {
		return err
	}
	with, err := o.settings(ctx)
	if err != nil {
		return err
	}
	progress.say("reading the input")
	input, err := simulator.Load(o.files, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if o.output == markdown && input.Scenarios != nil {
		return usagef("-o: scenario files have no form in %s", markdown)
	}
	progress.say("checking the input")
	if err := checkInput(ctx, cmd, progress, &input, with, nil); err != nil {
		return err
	}
	if !input.HasPlacements() {
		return errors.New("nothing to decide: the input has no Placement")
	}
	out := cmd.OutOrStdout()
	if o.domains != "" {
		return o.survey(ctx, input, now, with, only, progress, out)
	}
	s, err := simulate(ctx, input, now, with, only, progress)
	if err != nil {
		return err
	}
	progress.stop()
	rows := nearestRows
	if o.all {
		rows = allRows
	}
	if err := s.print(out, rows, o.output); err != nil {
		return err
	}
	if slices.ContainsFunc(s.Results, misconfigured) {
		return errMisconfigured
	}
	return nil
}

// simulate decides the input: its objects, or each of its scenarios.
func simulate(ctx context.Context, input simulator.Input, now time.Time, with simulator.Options, only *types.NamespacedName, progress *progress) (s simulation, err error) {
	if len(input.Scenarios) == 0 {
		s.Results, err = decideAll(ctx, input.Objects, now, with, only, progress)
		return s, err
	}
	for _, scenario := range input.Scenarios {
		result, err := decideScenario(ctx, scenario, now, with, progress)
		if err != nil {
			return s, fmt.Errorf("scenario %s: %w", scenario.ID, err)
		}
		s.Scenarios = append(s.Scenarios, result)
	}
	return s, nil
}

// maxRefusals is how many refused Placements are printed.
const maxRefusals = 10

// checkInput prints what was not read, and the Placements that a hub's webhook refuses. It returns
// an error for the first object that a hub never stores. stored has the objects of the hub.
func checkInput(
	ctx context.Context, cmd *cobra.Command, progress *progress, input *simulator.Input, with simulator.Options, stored simulator.Objects,
) error {
	misconfigured, err := input.Refuse(ctx, with, stored)
	notRead := input.NotRead.String()
	if notRead != "" || len(misconfigured) > 0 {
		progress.stop()
	}
	if notRead != "" {
		cmd.PrintErrf("not read: %s\n", notRead)
	}
	for _, refused := range misconfigured[:min(maxRefusals, len(misconfigured))] {
		cmd.PrintErrf("%s: %s\n", cmd.Root().DisplayName(), oneLine(refused.Error()))
	}
	if more := len(misconfigured) - maxRefusals; more > 0 {
		cmd.PrintErrf("%s: %s more misconfigured\n", cmd.Root().DisplayName(), number(more, "Placement"))
	}
	return err
}

// settings are those of the controller.
func (o *simulateOptions) settings(ctx context.Context) (simulator.Options, error) {
	with := simulator.Options{UserLabel: os.Getenv(identity.UserLabelEnv), Plugins: o.plugins}
	var err error
	with.Config, err = loadConfig(ctx, o.config, o.plugins)
	return with, err
}

// survey shows which domains the Placements can lose.
func (o *simulateOptions) survey(
	ctx context.Context, input simulator.Input, now time.Time, with simulator.Options, only *types.NamespacedName, progress *progress, out io.Writer,
) error {
	by, err := o.key()
	if err != nil {
		return err
	}
	if input.Scenarios != nil {
		return usagef("--domains: not for scenario files")
	}
	s, err := simulator.New(ctx, input.Objects, now, with)
	if err != nil {
		return err
	}
	keys := s.Placements()
	if only != nil {
		keys = []types.NamespacedName{*only}
	}
	report, err := survey(ctx, s, by, keys, progress)
	if err != nil {
		return err
	}
	progress.stop()
	if err := printResilience(out, o.output, by, report, only != nil); err != nil {
		return err
	}
	if slices.ContainsFunc(report.Placements, func(p resilience.Placement) bool { return p.Misconfigured }) {
		return errMisconfigured
	}
	return o.result(report)
}

// decideScenario decides the steps of a scenario, each Placement alone. A step without a time is at
// now.
func decideScenario(
	ctx context.Context, scenario simulator.Scenario, now time.Time, with simulator.Options, progress *progress,
) (scenarioResult, error) {
	result := scenarioResult{ID: scenario.ID}
	with.Alone = true
	for _, step := range scenario.Steps {
		at := step.Now
		if at.IsZero() {
			at = now
		}
		reports, err := decideAll(ctx, step.Objects, at, with, nil, progress)
		if err != nil {
			return result, err
		}
		result.Steps = append(result.Steps, stepResult{reports, step.Refused})
	}
	return result, nil
}

// check validates the flags and returns the time at which to decide.
func (o *simulateOptions) check() (time.Time, error) {
	if len(o.files) == 0 {
		return time.Time{}, usagef("-f is required")
	}
	if err := checkOutput(o.output, markdown); err != nil {
		return time.Time{}, err
	}
	if o.domains != "" {
		if _, err := o.key(); err != nil {
			return time.Time{}, err
		}
	} else if o.failBelow != 0 {
		return time.Time{}, usagef("--fail-below needs --domains")
	}
	if o.now == "" {
		return time.Now(), nil
	}
	now, err := time.Parse(time.RFC3339, o.now)
	if err != nil {
		return time.Time{}, usagef("--now: %q is not a time in RFC 3339, such as 2026-06-01T12:00:00Z", o.now)
	}
	return now, nil
}

// decide decides every Placement among the objects, or only the requested one.
func decideAll(
	ctx context.Context, objects simulator.Objects, now time.Time, with simulator.Options, only *types.NamespacedName, progress *progress,
) ([]*simulator.Report, error) {
	s, err := simulator.New(ctx, objects, now, with)
	if err != nil {
		return nil, err
	}
	if only != nil {
		report, err := s.DecideOnly(ctx, *only)
		return []*simulator.Report{report}, err
	}
	keys := s.InQueueOrder(s.Placements())
	reports := map[types.NamespacedName]*simulator.Report{}
	for i, key := range keys {
		progress.say("decided %d of %s", i, number(len(keys), "Placement"))
		if reports[key], err = s.Decide(ctx, key); err != nil {
			return nil, err
		}
	}
	sorted := make([]*simulator.Report, 0, len(keys))
	for _, key := range s.Placements() {
		sorted = append(sorted, reports[key])
	}
	return sorted, nil
}

func addAllFlag(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVar(all, "all", false, "list every candidate, not only those selected and those nearest to the cut")
}

func (s *simulation) print(out io.Writer, rows clusterRows, format string) error {
	if structured(format) {
		return printObject(out, format, s)
	}
	if format == markdown {
		return s.printMarkdown(out)
	}
	return s.printTables(out, rows, format == "wide")
}

func (s *simulation) printTables(out io.Writer, rows clusterRows, wide bool) error {
	for i, report := range s.Results {
		if i > 0 {
			say(out, "\n")
		}
		if err := printReport(out, report, rows, wide); err != nil {
			return err
		}
	}
	for _, scenario := range s.Scenarios {
		for n, step := range scenario.Steps {
			say(out, "\n# scenario %s, step %d\n", scenario.ID, n+1)
			for _, r := range step.Refused {
				say(out, "refused: %s: %s\n", r.Object, r.Error)
			}
			for _, report := range step.Results {
				if err := printReport(out, report, rows, wide); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
