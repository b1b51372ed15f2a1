package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// draft is a column that is being decided. It needs no lock of the world.
type draft struct {
	key types.NamespacedName
	// names and rows are those of the world when it began; has are the published clusters.
	names []string
	rows  []int32
	has   []string
	// cells have marks of plugins by their position in plugins.
	cells   []byte
	plugins []string
	wants   []string
	skipped string
	err     error
}

// draft begins a column.
func (w *world) draft(key types.NamespacedName) (*draft, error) {
	subject := w.inventory.Subject(key)
	if subject == nil {
		return nil, fmt.Errorf("the Placement %q: %w", key, errUnknown)
	}
	d := &draft{key: key, names: w.names, rows: w.rows, has: published(subject)}
	d.wants, d.cells = d.has, []byte(strings.Repeat(string(noCandidate), len(w.names)))
	return d, nil
}

// mark marks clusters.
func (d *draft) mark(names []string, as byte) {
	for _, name := range names {
		if row, ok := slices.BinarySearch(d.names, name); ok {
			d.cells[row] = as
		}
	}
}

// decide marks the cells as the engine decides.
func (d *draft) decide(ctx context.Context, engine attempter) {
	d.skipped, d.err = engine.attempt(ctx, d.key, func(a *scheduler.Attempt) {
		set := func(i int, as byte) {
			if i < len(d.rows) && d.rows[i] >= 0 {
				d.cells[d.rows[i]] = as
			}
		}
		a.EachCandidate(func(i int) { set(i, excluded) })
		a.EachExcluded(func(i int, plugin string) { set(i, markOf(&d.plugins, plugin)) })
		for _, c := range a.Feasible {
			set(c.Index, feasible)
		}
		if a.Target != nil {
			d.wants = slices.Clone(a.Target.Clusters)
		}
	})
}

// markOf returns the mark for a plugin that excluded a cluster, and adds it to the plugins.
func markOf(plugins *[]string, name string) byte {
	i := slices.Index(*plugins, name)
	if i < 0 {
		i = len(*plugins)
		*plugins = append(*plugins, name)
	}
	return byte(min(firstPlugin+i, '~'))
}

// report marks the cells as the controller has answered.
func (w *world) report(ctx context.Context, d *draft) {
	report, err := w.decider.outline(ctx, d.key)
	if err != nil || report.Answer == nil {
		d.skipped, d.err = skippedOf(report), err
		return
	}
	if len(report.AvailableClusters) < report.Candidates {
		d.mark(w.names, unknown)
	}
	d.fill(report)
	if d.wants = target(report, d.has); report.Pending != nil {
		d.wants = w.pendingTarget(d.key, d.has)
	}
}

// finish returns the column.
func (w *world) finish(d *draft) Column {
	c := Column{Placement: d.key.String()}
	for i, cell := range d.cells {
		if plugin := int(cell) - firstPlugin; plugin >= 0 && plugin < len(d.plugins) {
			d.cells[i] = markOf(&w.plugins, d.plugins[plugin])
		}
	}
	switch {
	case errors.Is(d.err, context.DeadlineExceeded):
		c.Note = fmt.Sprintf("It takes more than %s to decide the Placement.", columnTime)
		d.mark(d.names, unknown)
	case d.err != nil:
		// An error of one Placement must not hide the others. What is published is known.
		c.Note = d.err.Error()
		d.mark(d.names, unknown)
	case d.skipped != "":
		c.Note = "The Placement is not decided: it is " + d.skipped + "."
	}
	d.mark(d.has, selected)
	d.mark(changes.Minus(d.wants, d.has), addition)
	d.mark(changes.Minus(d.has, d.wants), removal)
	c.Cells = string(d.cells)
	return c
}

// column returns the cells of one Placement.
func (w *world) column(ctx context.Context, key types.NamespacedName) (Column, error) {
	if known, ok := w.columns[key]; ok {
		return known, nil
	}
	d, err := w.draft(key)
	if err != nil {
		return Column{}, err
	}
	engine, decides := w.decider.(attempter)
	if decides {
		d.decide(ctx, engine)
	} else {
		w.report(ctx, d)
	}
	if ctx.Err() != nil {
		return Column{}, ctx.Err()
	}
	c := w.finish(d)
	if _, isRemote := w.decider.(*remote); d.err == nil && !isRemote {
		w.columns[key] = c
	}
	return c, nil
}

// pendingTarget returns the clusters that the open change selects. Answers of the controller do not
// list them.
func (w *world) pendingTarget(key types.NamespacedName, has []string) []string {
	record := changes.History(w.inventory.Subject(key).Records).Open()
	if record == nil {
		return has
	}
	added, removed, err := changes.Lists(record)
	if err != nil {
		return has
	}
	return changes.Sorted(append(slices.Clone(changes.Minus(has, removed)), added...))
}

func skippedOf(r *simulator.Report) string {
	if r == nil {
		return ""
	}
	return r.Skipped
}

// fill marks candidates from general to special results: the last mark of a cell stays.
func (d *draft) fill(r *simulator.Report) {
	// A candidate is marked with the filter after the last one that it passed.
	passed := r.AvailableClusters
	for _, filter := range r.FilterResults {
		if len(filter.Clusters) < len(passed) {
			d.mark(passed, markOf(&d.plugins, filter.Name[strings.LastIndexByte(filter.Name, ',')+1:]))
		}
		passed = filter.Clusters
	}
	d.mark(passed, excluded)
	d.mark(r.Ranking, feasible)
	for _, v := range r.Verdicts {
		switch {
		case v.Plugin != "":
			d.mark([]string{v.Cluster}, markOf(&d.plugins, v.Plugin))
		case v.Rank > 0:
			d.mark([]string{v.Cluster}, feasible)
		}
	}
}

// target returns the clusters that the decision selects, sorted. Without a decision they are the
// published ones.
func target(r *simulator.Report, published []string) []string {
	if r.Pending != nil {
		kept := changes.Minus(published, changes.Sorted(r.Pending.Removed))
		return changes.Sorted(append(slices.Clone(kept), r.Pending.Added...))
	}
	var names []string
	for _, page := range r.Decisions {
		names = append(names, page.Clusters...)
	}
	return changes.Sorted(names)
}

// scores returns the scores of the candidates of one Placement.
func (w *world) scores(ctx context.Context, placement string) (*Scores, error) {
	subject, err := w.subject(placement)
	if err != nil {
		return nil, err
	}
	s := &Scores{Placement: placement, Scores: map[string]int64{}}
	report, err := w.decider.outline(ctx, subject.Key())
	if err != nil || report.Answer == nil {
		return s, err
	}
	maps.Copy(s.Scores, report.Scores)
	return s, nil
}

// cell decides one Placement again, for the Verdict of one cluster and the change with which it
// would be selected.
func (w *world) cell(ctx context.Context, placement, cluster string) (*Cell, error) {
	subject, err := w.subject(placement)
	if err != nil {
		return nil, err
	}
	if _, ok := slices.BinarySearch(w.names, cluster); !ok {
		return nil, fmt.Errorf("the cluster %q: %w", cluster, errUnknown)
	}
	has := published(subject)
	c := &Cell{Placement: placement, Cluster: cluster, Published: slices.Contains(has, cluster)}
	report, err := w.decider.explain(ctx, subject.Key(), cluster)
	if err != nil {
		return nil, err
	}
	if report.Answer == nil {
		c.Note = "The Placement is not decided: it is " + report.Skipped + "."
		return c, nil
	}
	if row, _ := w.placementRow(subject.Key()); report.Pending != nil {
		report.Pending = pendingAsRecorded(report.Pending, row.Change)
	}
	c.Pending = pendingOf(report, has, cluster)
	c.Spread = w.spread(subject.Placement, report, has, cluster)
	switch i := slices.IndexFunc(report.Verdicts, func(v framework.Verdict) bool { return v.Cluster == cluster }); {
	case i >= 0:
		c.Verdict, c.Weights = &report.Verdicts[i], map[string]int64{}
		for plugin := range c.Verdict.Scores {
			c.Weights[plugin] = report.PrioritizerScores[plugin].Weight
		}
		return c, nil
	case !slices.Contains(report.AvailableClusters, cluster):
		c.Note = "No candidate: " + cmp.Or(report.NoCandidate, scheduler.NoCandidateUnknown) + "."
	default:
		c.Note = "There is no decision; the last published one stays."
	}
	for _, condition := range report.Conditions {
		if condition.Message != "" {
			c.Note += " " + condition.Type + ": " + condition.Message
		}
	}
	return c, nil
}

// pendingOf returns why a change of a cluster is not published; empty if it does not change.
func pendingOf(r *simulator.Report, has []string, cluster string) string {
	selects, had := slices.Contains(target(r, has), cluster), slices.Contains(has, cluster)
	switch p := r.Pending; {
	case p != nil && p.StateOf(cluster) != "":
		return p.StateOf(cluster) + ". " + p.Message
	case selects == had:
		return ""
	case p != nil:
		return p.Message
	case selects:
		return "It would be added, and is not on the pages yet."
	}
	return "It would be removed, and is still on the pages."
}

// spread counts the selected clusters by domain.
func (w *world) spread(pl *v1alpha1.Placement, r *simulator.Report, has []string, cluster string) []Spread {
	var all []Spread
	fleet, _ := w.inventory.View()
	for _, term := range pl.Spec.SpreadPolicy.SpreadConstraints {
		domainOf := func(name string) string {
			c := fleet.Cluster(name)
			switch {
			case c == nil:
				return ""
			case term.TopologyKeyType == v1alpha1.TopologyKeyTypeClaim:
				return c.Claims[term.TopologyKey]
			}
			return c.Labels[term.TopologyKey]
		}
		counts := map[string]*DomainCount{}
		count := func(names []string, add func(*DomainCount)) {
			for _, name := range names {
				domain := domainOf(name)
				if counts[domain] == nil {
					counts[domain] = &DomainCount{Domain: domain}
				}
				add(counts[domain])
			}
		}
		count(r.AvailableClusters, func(d *DomainCount) { d.Candidates++ })
		count(has, func(d *DomainCount) { d.Selected++ })
		s := Spread{Constraint: fmt.Sprintf("%s %s", strings.ToLower(string(term.TopologyKeyType)), term.TopologyKey), Mine: domainOf(cluster)}
		for _, domain := range slices.Sorted(maps.Keys(counts)) {
			s.Domains = append(s.Domains, *counts[domain])
		}
		all = append(all, s)
	}
	return all
}
