package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// times is the unit of ratios to the floor.
const times = "× floor"

// result is one line of the table.
type result struct {
	Row  string `json:"row"`
	Work string `json:"work"`
	// Target limits Value, in Unit; 0 is no target.
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Target float64 `json:"target,omitempty"`
	Met    *bool   `json:"met,omitempty"`

	Samples int `json:"samples"`
	// Took and Floor are in milliseconds; 0 if the row has none.
	Took  float64 `json:"tookMs,omitempty"`
	Floor float64 `json:"floorMs,omitempty"`
	// The controller's work for one sample: milliseconds of processor time, cycles (absent if it
	// does not count them), and the writes that a watch reported.
	CPU      float64  `json:"cpuMs"`
	Cycles   *float64 `json:"cycles,omitempty"`
	Pages    float64  `json:"pageWrites"`
	Statuses float64  `json:"statusWrites"`

	// Steps is set in the rows of changes in steps.
	Steps *stepsResult `json:"steps,omitempty"`
}

// stepsResult has the writes for one sample of changes in steps, and the peak of resident memory in
// MB.
type stepsResult struct {
	// LeastPages is the least number of page writes with which the steps can be published.
	LeastPages float64 `json:"leastPageWrites"`
	Records    float64 `json:"recordWrites"`
	Evictions  float64 `json:"evictionWrites"`
	Peak       float64 `json:"peakMB"`
}

// add appends a result with the controller's work for all its events.
func (r *run) add(line result, e effort, events int) {
	n := float64(events)
	line.CPU, line.Pages, line.Statuses = ms(e.cpu)/n, float64(e.pages)/n, float64(e.statuses)/n
	if e.counted {
		line.Cycles = new(e.cycles / n)
	}
	r.results = append(r.results, line)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns the largest of some durations that is not above a share q of them.
func quantile(of []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

type loadReport struct {
	When  time.Time    `json:"when"`
	CPUs  int          `json:"cpus"`
	Args  string       `json:"args"`
	Per   int          `json:"clustersPerPlacement"`
	Sizes []sizeReport `json:"sizes"`
}

type sizeReport struct {
	size
	Results []result `json:"results"`
}

func (r *loadReport) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// verdict reports whether a result met its target.
func (x *result) verdict() string {
	if x.Target == 0 {
		return ""
	}
	x.Met = new(x.Value <= x.Target)
	if *x.Met {
		return "met"
	}
	return "missed"
}

// number formats a value with three significant digits.
func number(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 99.95:
		return fmt.Sprintf("%.0f", x)
	case x >= 9.995:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

func orDash(x float64) string {
	if x == 0 {
		return "-"
	}
	return number(x)
}

// printSteps prints the rows of changes in steps.
func printSteps(out io.Writer, results []result) error {
	rows := [][]string{{
		"changes in steps", "time, ms", "measured", "page writes", "least", "status writes", "record writes", "eviction writes", "CPU, ms", "cycles", "peak, MB", "samples",
	}}
	for i := range results {
		x := &results[i]
		if x.Steps == nil {
			continue
		}
		cycles := "-"
		if x.Cycles != nil {
			cycles = number(*x.Cycles)
		}
		rows = append(rows, []string{
			x.Work, number(x.Took), number(x.Value) + " " + x.Unit, number(x.Pages), number(x.Steps.LeastPages), number(x.Statuses),
			number(x.Steps.Records), number(x.Steps.Evictions), number(x.CPU), cycles, number(x.Steps.Peak), fmt.Sprint(x.Samples),
		})
	}
	if len(rows) == 1 {
		return nil
	}
	_, err := fmt.Fprintf(out, "\n%s", table(rows))
	return err
}

func printTable(out io.Writer, s size, per int, results []result) error {
	rows := [][]string{{"work", "measured", "target", "", "time, ms", "floor, ms", "CPU, ms", "cycles", "page, status writes", "samples"}}
	for i := range results {
		x := &results[i]
		if x.Steps != nil {
			continue
		}
		target := "-"
		if x.Target > 0 {
			target = "≤ " + number(x.Target)
		}
		cycles := "-"
		if x.Cycles != nil {
			cycles = number(*x.Cycles)
		}
		verdict := x.verdict()
		effort := []string{number(x.CPU), cycles, number(x.Pages) + ", " + number(x.Statuses)}
		if x.Row == "memory" {
			effort = []string{"-", "-", "-"}
		}
		row := []string{x.Work, number(x.Value) + " " + x.Unit, target, verdict, orDash(x.Took), orDash(x.Floor)}
		rows = append(rows, append(append(row, effort...), fmt.Sprint(x.Samples)))
	}
	if _, err := fmt.Fprintf(out, "\n%s clusters × Placements, %d clusters each\n\n%s", s, per, table(rows)); err != nil {
		return err
	}
	return printSteps(out, results)
}

// printGrowth compares the sizes: the cost of a change of one Placement must not depend on the
// number of Placements.
func (r *loadReport) printGrowth(out io.Writer) error {
	if len(r.Sizes) < 2 {
		return nil
	}
	rows := [][]string{{"hot one, p50", "clusters", "Placements", "time, ms", "measured", "CPU, ms"}}
	for _, s := range r.Sizes {
		for _, x := range s.Results {
			if x.Row == "hot" {
				rows = append(rows, []string{"", fmt.Sprint(s.Clusters), fmt.Sprint(s.Placements), number(x.Took), number(x.Value) + " " + times, number(x.CPU)})
			}
		}
	}
	if len(rows) == 1 {
		return nil
	}
	_, err := fmt.Fprintf(out, "\n%s", table(rows))
	return err
}

// table prints an aligned Markdown table.
func table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			text.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
		}
		text.WriteString("|\n")
		if n == 0 {
			for _, w := range widths {
				text.WriteString("|" + strings.Repeat("-", w+2))
			}
			text.WriteString("|\n")
		}
	}
	return text.String()
}
