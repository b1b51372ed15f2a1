package app

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// maxOnPage is the maximum number of clusters that are shown for a page without -o wide.
const maxOnPage = 10

// clusterRows are the rows of the table of clusters.
type clusterRows int

const (
	noRows      clusterRows = iota // no table
	nearestRows                    // those selected and those nearest to the cut
	allRows                        // every candidate
	oneRow                         // only the cluster that the user asked for
)

// maxChosen and maxOthers are the maximum numbers of selected and of other clusters in the table,
// unless all clusters are wanted or there are no more candidates than both together.
const (
	maxChosen = 10
	maxOthers = 5
)

// printReport prints one Placement: the decision, the numbers of clusters by reason, and the reason
// for each cluster.
func printReport(out io.Writer, r *simulator.Report, rows clusterRows, wide bool) error {
	if r.Skipped != "" {
		err := say(out, "Placement %s: skipped (%s)\n", r.Placement, r.Skipped)
		return err
	}
	candidates := max(r.Candidates, len(r.AvailableClusters))
	say(out, "Placement %s: %d of %d clusters selected\n", r.Placement, r.NumberOfSelectedClusters, candidates)
	for _, c := range r.Conditions {
		if !healthy(c) {
			printCondition(out, c)
		}
	}
	for _, intent := range r.Intents {
		say(out, "  %s %s: %s\n", intent.Plugin, intent.Reason, intent.Note)
	}
	for _, d := range r.Decisions {
		names := d.Clusters
		if more := len(names) - maxOnPage; more > 0 && !wide {
			names = append(slices.Clone(names[:maxOnPage]), fmt.Sprintf("… %d more", more))
		}
		say(out, "  %s: %s\n", d.Name, cmp.Or(strings.Join(names, " "), none))
	}
	if len(r.Verdicts) == 0 {
		return nil
	}
	switch {
	case r.Pending == nil:
	case r.Pending.InSteps():
		printMoving(out, r, wide)
		say(out, "  The clusters above are those of the next step; the tables show the whole change.\n")
	default:
		say(out, "  The clusters above are the published ones; the tables show the pending change.\n")
	}
	if rows != oneRow {
		if err := reasonTable(r, candidates).print(out, false); err != nil {
			return err
		}
	}
	if rows == noRows {
		return nil
	}
	return printVerdicts(out, r, rows, wide, candidates)
}

// printMoving prints the state of the clusters that a change in steps adds and removes: of those
// asked for if there are verdicts on some only.
func printMoving(out io.Writer, r *simulator.Report, wide bool) {
	t := &table{indent: "  ", heading: []string{"MOVING", "STATE"}, whole: wide}
	left := 0
	for _, m := range r.Pending.Moving {
		asked := slices.ContainsFunc(r.Verdicts, func(v framework.ClusterVerdict) bool { return v.Cluster == m.Cluster })
		switch {
		case !asked && len(r.Verdicts) == 1:
		case len(t.rows) >= maxOnPage && !wide:
			left++
		default:
			t.add(cell{text: m.Cluster}, cell{text: m.State})
		}
	}
	if len(t.rows) > 0 {
		_ = t.print(out, false)
	}
	if left > 0 {
		say(out, "  … %d more (-o wide shows all)\n", left)
	}
}

// printVerdicts prints the table of clusters, by rank.
func printVerdicts(out io.Writer, r *simulator.Report, rows clusterRows, wide bool, candidates int) error {
	shown := byRank(r)
	if rows == nearestRows {
		shown = nearestToCut(shown)
	}
	if err := verdictTable(r, shown, wide).print(out, colourful(out)); err != nil {
		return err
	}
	if hidden := candidates - len(shown); hidden > 0 && rows != oneRow {
		more := "--all lists them"
		if rows == allRows {
			more = "--cluster NAME shows one"
		}
		say(out, "  %d of %d clusters are not listed: %s.\n", hidden, candidates, more)
	}
	if tooManyToExplain(r.Verdicts) && slices.ContainsFunc(shown, func(v framework.ClusterVerdict) bool { return !v.Selected && v.SelectedWith == "" }) {
		say(out, "  More than %d clusters were not selected. explain --cluster NAME shows the change with which one would be selected.\n", decide.MaxSelectedWith)
	}
	return nil
}

// byRank returns the verdicts by rank. Excluded clusters come last: those of the last filter first,
// and of one filter those that need the fewest changes first.
func byRank(r *simulator.Report) []framework.ClusterVerdict {
	filter := map[string]int{}
	for i, c := range r.Counts {
		filter[c.Reason] = i
	}
	verdicts := slices.Clone(r.Verdicts)
	slices.SortStableFunc(verdicts, func(a, b framework.ClusterVerdict) int {
		if a.Rank > 0 && b.Rank > 0 {
			return cmp.Compare(a.Rank, b.Rank)
		}
		return cmp.Or(-cmp.Compare(min(a.Rank, 1), min(b.Rank, 1)), -cmp.Compare(filter[a.Plugin], filter[b.Plugin]),
			cmp.Compare(changesToSelect(a), changesToSelect(b)), cmp.Compare(a.Cluster, b.Cluster))
	})
	return verdicts
}

// changesToSelect returns the number of changes with which a cluster would be selected;
// math.MaxInt if it is unknown.
func changesToSelect(v framework.ClusterVerdict) int {
	if v.SelectedWith == "" {
		return math.MaxInt
	}
	return strings.Count(v.SelectedWith, " and ")
}

// nearestToCut returns the last clusters that were selected and the first that were not, in order.
func nearestToCut(verdicts []framework.ClusterVerdict) []framework.ClusterVerdict {
	if len(verdicts) <= maxChosen+maxOthers {
		return verdicts
	}
	chosen := 0
	for _, v := range verdicts {
		if v.Selected {
			chosen++
		}
	}
	var shown []framework.ClusterVerdict
	skip, others := max(chosen-maxChosen, 0), 0
	for _, v := range verdicts {
		switch {
		case v.Selected && skip > 0:
			skip--
		case v.Selected:
			shown = append(shown, v)
		case others < maxOthers:
			others++
			shown = append(shown, v)
		}
	}
	return shown
}

// maxReasons is the maximum number of rows for one filter in the table of reasons.
const maxReasons = 5

// reasonTable counts the candidates by reason. Reasons of a filter are listed one by one if the
// report has all verdicts.
func reasonTable(r *simulator.Report, candidates int) *table {
	t := &table{indent: "  ", heading: []string{"CLUSTERS", "WHY"}}
	byReason := map[string]map[string]int{}
	for _, v := range r.Verdicts {
		if byReason[v.Plugin] == nil {
			byReason[v.Plugin] = map[string]int{}
		}
		byReason[v.Plugin][v.Reason]++
	}
	for _, c := range r.Counts {
		reasons := byReason[c.Reason]
		if len(reasons) == 0 || len(r.Verdicts) < candidates {
			t.add(cell{text: fmt.Sprint(c.Clusters)}, cell{text: berthv1alpha1.CountText(c.Reason)})
			continue
		}
		order := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
			return cmp.Or(-cmp.Compare(reasons[a], reasons[b]), cmp.Compare(a, b))
		})
		rest := int(c.Clusters)
		for _, reason := range order[:min(len(order), maxReasons)] {
			t.add(cell{text: fmt.Sprint(reasons[reason])}, cell{text: c.Reason + ": " + reason})
			rest -= reasons[reason]
		}
		if rest > 0 {
			t.add(cell{text: fmt.Sprint(rest)}, cell{text: c.Reason + ": " + number(len(order)-maxReasons, "other reason")})
		}
	}
	return t
}

// printCondition prints a condition. It indents further lines of the message, such as those of
// CEL's compiler, more than all lines of the report, so that a message cannot imitate a line.
func printCondition(out io.Writer, c simulator.Condition) {
	first, further, _ := strings.Cut(c.Message, "\n")
	say(out, "  %s=%s %s: %s\n", c.Type, c.Status, c.Reason, first)
	if further == "" {
		return
	}
	for line := range strings.SplitSeq(further, "\n") {
		say(out, "      %s\n", line)
	}
}

func verdictTable(r *simulator.Report, verdicts []framework.ClusterVerdict, wide bool) *table {
	t := &table{indent: "  ", heading: []string{"CLUSTER", "SELECTED", "SCORE", "RANK", "CUT", "WHY", "WOULD BE SELECTED WITH"}, whole: wide}
	if wide {
		t.heading = slices.Insert(t.heading, 3, "SCORES")
	}
	for _, v := range verdicts {
		score, rank, cut, why, selectedWith, chosen := "-", "-", "-", v.Reason, v.SelectedWith, plain
		if v.Selected {
			chosen = green
		}
		if v.Score != nil {
			score, rank = fmt.Sprint(*v.Score), fmt.Sprint(v.Rank)
		}
		if v.Distance != nil {
			cut = fmt.Sprintf("%+d", *v.Distance)
		}
		if v.Plugin != "" {
			why = v.Plugin + ": " + why
		}
		if selectedWith == "" {
			selectedWith = "-"
		}
		row := []cell{{text: v.Cluster}, {fmt.Sprint(v.Selected), chosen}, {text: score}, {text: rank}, {text: cut}, {text: why}, {text: selectedWith}}
		if wide {
			row = slices.Insert(row, 3, cell{text: scoresText(&v, r.PrioritizerScores)})
		}
		t.add(row...)
	}
	return t
}

// scoresText lists the score of each prioritizer, with its weight unless that is 1, or why it is
// missing.
func scoresText(v *framework.ClusterVerdict, prioritizers map[string]simulator.PrioritizerScores) string {
	if len(v.Scores) == 0 {
		return "-"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(v.Scores)) {
		if why := v.Unscored[name]; why != "" {
			parts = append(parts, fmt.Sprintf("%s=(%s)", name, why))
			continue
		}
		part := fmt.Sprintf("%s=%d", name, v.Scores[name])
		if weight := prioritizers[name].Weight; weight != 1 {
			part += fmt.Sprintf("×%d", weight)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// tooManyToExplain reports whether too many clusters were not selected to compute SelectedWith.
func tooManyToExplain(verdicts []framework.ClusterVerdict) bool {
	left := 0
	for _, v := range verdicts {
		if !v.Selected {
			left++
		}
	}
	return left > decide.MaxSelectedWith
}
