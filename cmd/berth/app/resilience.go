package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// errBelow is for a Placement that survives the loss of too few domains.
var errBelow = &outcome{errors.New("a Placement survives the loss of too few domains"), exitChanges}

// domainKinds are the completions of a key.
var domainKinds = []cobra.Completion{"label:", "claim:", "cluster"}

// resilienceFlags are what resilience and simulate share.
type resilienceFlags struct {
	domains   string
	failBelow int
}

func (f *resilienceFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.domains, "domains", "", usage+": "+resilience.Syntax)
	cmd.Flags().IntVar(&f.failBelow, "fail-below", 0, "exit with code 3 if a Placement survives the loss of fewer than this number of domains, each alone")
	complete(cmd, "domains", cobra.FixedCompletions(domainKinds, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	complete(cmd, "fail-below", cobra.NoFileCompletions)
}

// key returns the key of --domains.
func (f *resilienceFlags) key() (resilience.Key, error) {
	if f.failBelow < 0 {
		return resilience.Key{}, usagef("--fail-below: %d must not be negative", f.failBelow)
	}
	key, err := resilience.ParseKey(f.domains)
	if err != nil {
		return key, usagef("--domains: %w", err)
	}
	return key, nil
}

// result selects the exit code.
func (f *resilienceFlags) result(r *resilience.Report) error {
	if len(r.Below(f.failBelow)) > 0 {
		return errBelow
	}
	return nil
}

type resilienceOptions struct {
	resilienceFlags
	simulation simulationFlags
	hub        placementFlags
	output     string
}

func newResilienceCommand(plugins framework.Registry) *cobra.Command {
	o := resilienceOptions{simulation: simulationFlags{plugins: plugins}}
	cmd := &cobra.Command{
		Use:   "resilience [[TYPE/]NAME… [-n NAMESPACE] | -A] --domains " + resilience.Syntax,
		Short: "Show which regions, zones or clusters Placements can lose",
		Long: `Show which regions, zones or clusters Placements can lose.

resilience reads the hub. For each Placement and each domain, which is a value of the label or claim, or a single cluster, it removes the
clusters of the domain and decides the Placement again, as the controller does. A Placement survives the loss if it is still
satisfied: it has as many clusters as it wants and violates no constraint. Without numberOfClusters, at least one cluster has to remain.
Only one domain is lost at a time, only domains with clusters that the Placement may use count, and other Placements keep their clusters.

The Placements that are not satisfied come first, then those that survive least. For one Placement, or with -o wide, it lists the domains
whose loss changes the decision, the weakest first. ` + placementHelp + `resilience
writes nothing. ` + askHelp,
		Example: `  berth resilience -A --domains label:region
  berth resilience web -n shop --domains claim:zone
  berth resilience -A --domains cluster --fail-below 1 -o markdown`,
		Args:              o.hub.placementsOrAll,
		ValidArgsFunction: o.hub.completePlacements(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output, markdown); err != nil {
				return err
			}
			if o.domains == "" {
				return usagef("--domains is required: %s", resilience.Syntax)
			}
			key, err := o.key()
			if err != nil {
				return err
			}
			progress := startProgress(cmd.ErrOrStderr())
			defer progress.stop()
			report, err := o.run(cmd.Context(), args, key, progress)
			if err != nil {
				return err
			}
			progress.stop()
			if err := printResilience(cmd.OutOrStdout(), o.output, key, report, len(args) == 1); err != nil {
				return err
			}
			return o.result(report)
		},
	}
	o.hub.add(cmd)
	o.add(cmd, "property of clusters whose values are the domains")
	o.simulation.add(cmd)
	addOutputFlag(cmd, &o.output, markdown)
	return cmd
}

func (o *resilienceOptions) run(ctx context.Context, args []string, by resilience.Key, progress *progress) (*resilience.Report, error) {
	with, err := o.simulation.settings(ctx)
	if err != nil {
		return nil, err
	}
	hub, namespace, err := o.hub.connect()
	if err != nil {
		return nil, err
	}
	refs, err := o.hub.refs(ctx, hub, namespace, args, nil)
	if err != nil {
		return nil, err
	}
	progress.say("reading the hub")
	var keys []types.NamespacedName
	for _, ref := range refs {
		if !slices.Contains(keys, ref.NamespacedName) {
			keys = append(keys, ref.NamespacedName)
		}
	}
	objects, asker, err := o.simulation.fleet(ctx, hub)
	if err != nil {
		return nil, err
	}
	if asker != nil {
		return asker.Resilience(ctx, by, keys, func(done, all int) {
			progress.say("decided %d of %s without each domain", done, number(all, "Placement"))
		})
	}
	s, err := simulator.New(ctx, objects, time.Now(), with)
	if err != nil {
		return nil, err
	}
	known := s.Placements()
	for _, key := range keys {
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("there is no Placement %s", key)
		}
	}
	return survey(ctx, s, by, keys, progress)
}

// survey decides the Placements without each domain.
func survey(ctx context.Context, s *simulator.Simulator, by resilience.Key, keys []types.NamespacedName, progress *progress) (*resilience.Report, error) {
	progress.say("deciding %s", number(len(keys), "Placement"))
	return s.Resilience(ctx, by, keys, func(done, all int) {
		progress.say("decided %d of %s without each domain", done, number(all, "Placement"))
	})
}

// maxDomains is the number of domains listed for one Placement in a table that is not wide.
const maxDomains = 20

// printResilience prints the table of Placements, or the domains of each one.
func printResilience(out io.Writer, format string, by resilience.Key, r *resilience.Report, one bool) error {
	switch {
	case structured(format):
		return printObject(out, format, r)
	case format == markdown:
		return printMarkdown(out, "Resilience by "+by.String(), resilienceTable(r), []string{resilienceSummary(r)})
	case len(r.Placements) == 0:
		return say(out, "No Placements found.\n")
	case one || format == "wide":
		for i := range r.Placements {
			if i > 0 {
				say(out, "\n")
			}
			if err := printDomains(out, &r.Placements[i], format == "wide"); err != nil {
				return err
			}
		}
		return nil
	}
	if err := resilienceTable(r).print(out, colourful(out)); err != nil {
		return err
	}
	return say(out, "\n%s\n", resilienceSummary(r))
}

// resilienceTable has one line for each Placement.
func resilienceTable(r *resilience.Report) *table {
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "CAN LOSE", "WEAKEST", "LOST", "REPLACED", "MISSING", "WHY"}}
	for i := range r.Placements {
		p := &r.Placements[i]
		namespace, name, _ := strings.Cut(p.Placement, "/")
		row := []cell{{text: namespace}, {text: name}, canLose(p)}
		switch l := p.Weakest(); {
		case l != nil:
			missing := cell{text: none}
			if !l.Satisfied {
				missing = cell{fmt.Sprint(l.Missing), red}
			}
			row = append(row, cell{text: resilience.Short(l.Domain)}, cell{text: fmt.Sprintf("%d of %d", l.Lost, p.Selected)}, cell{text: fmt.Sprint(l.Added)}, missing, why(l.Why))
		case p.Skipped == "" && p.Satisfied && p.Domains > 0:
			row = append(row, cell{text: none}, cell{text: none}, cell{text: none}, cell{text: none}, cell{text: none})
		default:
			row = append(row, cell{text: none}, cell{text: none}, cell{text: none}, cell{text: none}, why(p.Message))
		}
		t.add(row...)
	}
	return t
}

// canLose has how many domains a Placement survives.
func canLose(p *resilience.Placement) cell {
	switch {
	case p.Skipped != "":
		return cell{text: none}
	case !p.Satisfied:
		return cell{"0", red}
	case p.Survived == p.Domains && p.Domains > 0:
		return cell{fmt.Sprintf("%d of %d", p.Survived, p.Domains), green}
	}
	return cell{fmt.Sprintf("%d of %d", p.Survived, p.Domains), red}
}

// maxWhy is how many characters of a reason a table shows.
const maxWhy = 200

// why is the cell of a reason: its first line, cut if it is long.
func why(text string) cell {
	first, _, more := strings.Cut(text, "\n")
	if shown := []rune(first); len(shown) > maxWhy {
		first, more = string(shown[:maxWhy]), true
	}
	if more {
		first += " …"
	}
	return cell{text: cmp.Or(first, none)}
}

// resilienceSummary counts the Placements.
func resilienceSummary(r *resilience.Report) string {
	all, unsatisfied, skipped := 0, 0, 0
	for i := range r.Placements {
		switch p := &r.Placements[i]; {
		case p.Skipped != "":
			skipped++
		case !p.Satisfied:
			unsatisfied++
		case p.Survived == p.Domains && p.Domains > 0:
			all++
		}
	}
	text := fmt.Sprintf("%d of %s can lose each domain alone, %d not satisfied before a loss", all, number(len(r.Placements), "Placement"), unsatisfied)
	if skipped > 0 {
		text += fmt.Sprintf(", %d not decided", skipped)
	}
	return text + "."
}

// printDomains prints one Placement with the domains whose loss changes the decision.
func printDomains(out io.Writer, p *resilience.Placement, wide bool) error {
	say(out, "Placement %s: %s\n", p.Placement, p.Message)
	shown := p.Losses
	if !wide {
		shown = shown[:min(len(shown), maxDomains)]
	}
	if len(shown) > 0 {
		t := &table{indent: "  ", heading: []string{"DOMAIN", "CLUSTERS", "LOST", "REPLACED", "MORE REMOVED", "MISSING", "SATISFIED", "WHY"}, whole: wide}
		for _, l := range shown {
			colour := green
			if !l.Satisfied {
				colour = red
			}
			domain := l.Domain
			if !wide {
				domain = resilience.Short(domain)
			}
			t.add(cell{text: domain}, cell{text: fmt.Sprint(l.Clusters)}, cell{text: fmt.Sprint(l.Lost)}, cell{text: fmt.Sprint(l.Added)},
				cell{text: fmt.Sprint(l.Removed)}, cell{text: fmt.Sprint(l.Missing)}, cell{fmt.Sprint(l.Satisfied), colour}, why(l.Why))
		}
		if err := t.print(out, colourful(out)); err != nil {
			return err
		}
	}
	if rest := len(p.Losses) - len(shown); rest > 0 {
		say(out, "  %s more; -o wide shows them\n", number(rest, "domain"))
	}
	if rest := p.Domains - len(p.Losses); rest > 0 {
		say(out, "  The loss of %s changes nothing.\n", number(rest, "other domain"))
	}
	if p.WithoutDomain > 0 {
		return say(out, "  In no domain, and never lost: %s.\n", number(p.WithoutDomain, "cluster"))
	}
	return nil
}
