package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// Values of a matrix cell. From firstPlugin on, the plugin of that number excluded the cluster.
const (
	noCandidate = '0'
	selected    = '1'
	feasible    = '2'
	// heldAddition and heldRemoval: the held change would add or remove the cluster.
	heldAddition = '3'
	heldRemoval  = '4'
	// excluded is a candidate that no known filter excluded.
	excluded    = '5'
	firstPlugin = 'A'
)

// Matrix has the result for every cluster and Placement, in a compact form.
type Matrix struct {
	// At is when the hub was read, and the time of the decisions.
	At       time.Time `json:"at"`
	Clusters []string  `json:"clusters"`
	// Plugins are those that excluded a cluster.
	Plugins    []string `json:"plugins"`
	Placements []Column `json:"placements"`
}

// Column is one Placement.
type Column struct {
	Placement string `json:"placement"`
	// Skipped is "disabled" or "terminating" for a Placement that is not decided.
	Skipped string `json:"skipped,omitempty"`
	// Held is true if a change is held. Error is why the Placement could not be decided.
	Held  bool   `json:"held,omitempty"`
	Error string `json:"error,omitempty"`
	// Cells has one character for each cluster, in the order of Matrix.Clusters.
	Cells string `json:"cells"`
}

// Placement has the details of one Placement.
type Placement struct {
	Placement  string               `json:"placement"`
	Skipped    string               `json:"skipped,omitempty"`
	Error      string               `json:"error,omitempty"`
	Conditions simulator.Conditions `json:"conditions,omitempty"`
	Pending    *simulator.Pending   `json:"pending,omitempty"`
	Intents    []framework.Intent   `json:"intents,omitempty"`
}

// Cell is why one cluster was, or was not, selected for one Placement.
type Cell struct {
	At        time.Time `json:"at"`
	Placement string    `json:"placement"`
	Cluster   string    `json:"cluster"`
	// Verdict is missing if there was no decision; then Note is the reason.
	Verdict *framework.Verdict `json:"verdict,omitempty"`
	Note    string             `json:"note,omitempty"`
	// Weights are the weights of the prioritizers in Verdict.
	Weights map[string]int64 `json:"weights,omitempty"`
	// Pending is why a change of this cell is not published yet.
	Pending string `json:"pending,omitempty"`
}

// view has one state of the hub.
type view struct {
	simulator  *simulator.Simulator
	matrix     Matrix
	placements map[string]*Placement
}

// errUnknown is the error for an object that was not on the hub when it was read.
var errUnknown = errors.New("not found")

func newView(ctx context.Context, objects simulator.Objects, now time.Time, o simulator.Options) (*view, error) {
	s, err := simulator.New(ctx, objects, now, o)
	if err != nil {
		return nil, err
	}
	v := &view{simulator: s, matrix: Matrix{At: now, Clusters: []string{}, Plugins: []string{}, Placements: []Column{}}, placements: map[string]*Placement{}}
	for _, c := range simulator.List[*v1alpha1.ManagedCluster](objects) {
		v.matrix.Clusters = append(v.matrix.Clusters, c.Name)
	}
	slices.Sort(v.matrix.Clusters)
	rows := make(map[string]int, len(v.matrix.Clusters))
	for row, name := range v.matrix.Clusters {
		rows[name] = row
	}
	for _, key := range s.Placements() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		report, err := s.Outline(ctx, key)
		if err != nil {
			// An error of one Placement must not hide the others.
			report = &simulator.Report{Placement: key.String()}
		}
		v.add(report, err, rows)
	}
	return v, nil
}

func (v *view) add(r *simulator.Report, failed error, rows map[string]int) {
	column := Column{Placement: r.Placement, Skipped: r.Skipped}
	details := &Placement{Placement: r.Placement, Skipped: r.Skipped}
	if failed != nil {
		column.Error, details.Error = failed.Error(), failed.Error()
	}
	cells := []rune(strings.Repeat(string(noCandidate), len(rows)))
	if r.Answer != nil {
		column.Held = held(r.Answer)
		details.Conditions, details.Pending, details.Intents = r.Conditions, r.Pending, r.Intents
		v.fill(cells, r.Answer, rows)
	}
	column.Cells = string(cells)
	v.matrix.Placements = append(v.matrix.Placements, column)
	v.placements[r.Placement] = details
}

// fill marks the cells from general to special results: the last mark of a cell stays.
func (v *view) fill(cells []rune, a *simulator.Answer, rows map[string]int) {
	mark := func(names []string, as rune) {
		for _, name := range names {
			if row, ok := rows[name]; ok {
				cells[row] = as
			}
		}
	}
	// A candidate is marked with the filter after the last one that it passed.
	passed := a.AvailableClusters
	for _, filter := range a.FilterResults {
		if len(filter.Clusters) < len(passed) {
			mark(passed, v.plugin(filter.Name[strings.LastIndexByte(filter.Name, ',')+1:]))
		}
		passed = filter.Clusters
	}
	mark(passed, excluded)
	mark(a.Ranking, feasible)
	for _, page := range a.Decisions {
		mark(page.Clusters, selected)
	}
	if held(a) {
		mark(a.Pending.Added, heldAddition)
		mark(a.Pending.Removed, heldRemoval)
	}
}

// held reports whether a change is held or refused, so that no part of it is published.
func held(a *simulator.Answer) bool {
	return a.Pending != nil && !a.Pending.InSteps()
}

// plugin returns the mark for a plugin that excluded a cluster.
func (v *view) plugin(name string) rune {
	i := slices.Index(v.matrix.Plugins, name)
	if i < 0 {
		i = len(v.matrix.Plugins)
		v.matrix.Plugins = append(v.matrix.Plugins, name)
	}
	return firstPlugin + rune(i)
}

// pendingOf returns why a change of a cluster is not published yet; empty if it does not change. p
// may be nil.
func pendingOf(p *simulator.Pending, cluster string) string {
	switch {
	case p == nil:
		return ""
	case p.StateOf(cluster) != "":
		return p.StateOf(cluster) + ". " + p.Message
	case slices.Contains(p.Added, cluster) || slices.Contains(p.Removed, cluster):
		return p.Message
	}
	return ""
}

// cell decides one Placement again, for the Verdict of one cluster and the change with which it
// would be selected.
func (v *view) cell(ctx context.Context, placement, cluster string) (*Cell, error) {
	if v.placements[placement] == nil {
		return nil, fmt.Errorf("the Placement %q: %w", placement, errUnknown)
	}
	if _, ok := slices.BinarySearch(v.matrix.Clusters, cluster); !ok {
		return nil, fmt.Errorf("the cluster %q: %w", cluster, errUnknown)
	}
	namespace, name, _ := strings.Cut(placement, "/")
	report, err := v.simulator.Explain(ctx, types.NamespacedName{Namespace: namespace, Name: name}, cluster)
	if err != nil {
		return nil, err
	}
	c := &Cell{At: v.matrix.At, Placement: placement, Cluster: cluster}
	if report.Answer == nil {
		c.Note = "The Placement is not decided: it is " + report.Skipped + "."
		return c, nil
	}
	c.Pending = pendingOf(report.Pending, cluster)
	switch {
	case len(report.Verdicts) > 0:
		c.Verdict, c.Weights = &report.Verdicts[0], map[string]int64{}
		for plugin := range c.Verdict.Scores {
			c.Weights[plugin] = report.PrioritizerScores[plugin].Weight
		}
	case !slices.Contains(report.AvailableClusters, cluster):
		c.Note = "No candidate: the cluster is in none of the cluster sets that the Placement may use."
	default:
		c.Note = "There is no decision; the last published one stays."
	}
	for _, condition := range report.Conditions {
		if c.Verdict == nil && condition.Message != "" {
			c.Note += " " + condition.Type + ": " + condition.Message
		}
	}
	return c, nil
}
