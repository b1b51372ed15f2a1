package app

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// maxOnPage is how many clusters of a page the normal form names. The table below has all of them.
const maxOnPage = 10

// printReport prints one Placement: first the decision, then the reason for each cluster.
func printReport(out io.Writer, r *simulator.Report, wide bool) error {
	if r.Skipped != "" {
		err := say(out, "Placement %s: skipped (%s)\n", r.Placement, r.Skipped)
		return err
	}
	candidates := max(r.Candidates, len(r.AvailableClusters))
	say(out, "Placement %s: %d of %d clusters selected\n", r.Placement, r.NumberOfSelectedClusters, candidates)
	for _, c := range r.Conditions {
		printCondition(out, c)
	}
	for _, intent := range r.Intents {
		say(out, "  %s %s: %s\n", intent.Plugin, intent.Reason, intent.Note)
	}
	for _, d := range r.Decisions {
		names := d.Clusters
		if more := len(names) - maxOnPage; more > 0 && !wide {
			names = append(slices.Clone(names[:maxOnPage]), fmt.Sprintf("… %d more", more))
		}
		say(out, "  %s: %s\n", d.Name, strings.Join(names, " "))
	}
	if len(r.Verdicts) == 0 {
		return nil
	}
	if r.Pending != nil {
		say(out, "  The clusters above are the published ones; the table shows the pending change.\n")
	}
	if err := verdictTable(r, wide).print(out, colourful(out)); err != nil {
		return err
	}
	if unproved(r.Verdicts) {
		say(out, "  More than %d clusters were not selected. explain --cluster NAME shows the change with which one would be selected.\n", scheduler.MaxSelectedWith)
	}
	return nil
}

// printCondition prints a condition. CEL's compiler marks mistakes in further lines of the message.
// These are indented more than all lines of the report, so that no text can imitate one.
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

func verdictTable(r *simulator.Report, wide bool) *table {
	t := &table{indent: "  ", heading: []string{"CLUSTER", "SELECTED", "SCORE", "RANK", "CUT", "WHY", "WOULD BE SELECTED WITH"}}
	if wide {
		t.heading = slices.Insert(t.heading, 3, "SCORES")
	}
	for _, v := range r.Verdicts {
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
			row = slices.Insert(row, 3, cell{text: scoresText(v.Scores, r.PrioritizerScores)})
		}
		t.add(row...)
	}
	return t
}

// scoresText lists the score of each prioritizer, with its weight unless that is 1.
func scoresText(scores map[string]int64, prioritizers map[string]simulator.PrioritizerScores) string {
	if len(scores) == 0 {
		return "-"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		part := fmt.Sprintf("%s=%d", name, scores[name])
		if weight := prioritizers[name].Weight; weight != 1 {
			part += fmt.Sprintf("×%d", weight)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// unproved is true if too many clusters were excluded to search for the edits that would select
// them.
func unproved(verdicts []framework.Verdict) bool {
	left := 0
	for _, v := range verdicts {
		if !v.Selected {
			left++
		}
	}
	return left > scheduler.MaxSelectedWith
}
