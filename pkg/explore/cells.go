package explore

import (
	"cmp"
	"context"
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

// column returns the cells of one Placement.
func (w *world) column(ctx context.Context, key types.NamespacedName) (Column, error) {
	if known, ok := w.columns[key]; ok {
		return known, nil
	}
	subject := w.inventory.Subject(key)
	if subject == nil {
		return Column{}, fmt.Errorf("the Placement %q: %w", key, errUnknown)
	}
	cells := []byte(strings.Repeat(string(noCandidate), len(w.names)))
	mark := func(names []string, as byte) {
		for _, name := range names {
			if row, ok := slices.BinarySearch(w.names, name); ok {
				cells[row] = as
			}
		}
	}
	has := published(subject)
	wants, skipped, err := w.mark(ctx, key, has, cells, mark)
	c := Column{Placement: key.String()}
	switch {
	case ctx.Err() != nil:
		return c, ctx.Err()
	case err != nil:
		// An error of one Placement must not hide the others. What is published is known.
		c.Note = err.Error()
		mark(w.names, unknown)
	case skipped != "":
		c.Note = "The Placement is not decided: it is " + skipped + "."
	}
	mark(has, selected)
	mark(changes.Minus(wants, has), addition)
	mark(changes.Minus(has, wants), removal)
	c.Cells = string(cells)
	if _, isRemote := w.decider.(*remote); err == nil && !isRemote {
		w.columns[key] = c
	}
	return c, nil
}

// mark marks the cells of one Placement as it is decided. It returns the clusters that the decision
// selects; without a decision, those that it has.
func (w *world) mark(
	ctx context.Context, key types.NamespacedName, has []string, cells []byte, mark func([]string, byte),
) (wants []string, skipped string, err error) {
	wants = has
	engine, ok := w.decider.(attempter)
	if !ok {
		report, err := w.decider.outline(ctx, key)
		if err != nil || report.Answer == nil {
			return has, skippedOf(report), err
		}
		if len(report.AvailableClusters) < report.Candidates {
			mark(w.names, unknown)
		}
		w.fill(mark, report)
		if report.Pending != nil {
			return w.pendingTarget(key, has), "", nil
		}
		return target(report, has), "", nil
	}
	skipped, err = engine.attempt(ctx, key, func(a *scheduler.Attempt) {
		set := func(i int, as byte) {
			if i < len(w.rows) && w.rows[i] >= 0 {
				cells[w.rows[i]] = as
			}
		}
		a.EachCandidate(func(i int) { set(i, excluded) })
		a.EachExcluded(func(i int, plugin string) { set(i, w.plugin(plugin)) })
		for _, c := range a.Feasible {
			set(c.Index, feasible)
		}
		if a.Target != nil {
			wants = slices.Clone(a.Target.Clusters)
		}
	})
	return wants, skipped, err
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
func (w *world) fill(mark func([]string, byte), r *simulator.Report) {
	// A candidate is marked with the filter after the last one that it passed.
	passed := r.AvailableClusters
	for _, filter := range r.FilterResults {
		if len(filter.Clusters) < len(passed) {
			mark(passed, w.plugin(filter.Name[strings.LastIndexByte(filter.Name, ',')+1:]))
		}
		passed = filter.Clusters
	}
	mark(passed, excluded)
	mark(r.Ranking, feasible)
	for _, v := range r.Verdicts {
		switch {
		case v.Plugin != "":
			mark([]string{v.Cluster}, w.plugin(v.Plugin))
		case v.Rank > 0:
			mark([]string{v.Cluster}, feasible)
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

// plugin returns the mark for a plugin that excluded a cluster.
func (w *world) plugin(name string) byte {
	i := slices.Index(w.plugins, name)
	if i < 0 {
		i = len(w.plugins)
		w.plugins = append(w.plugins, name)
	}
	return byte(min(firstPlugin+i, '~'))
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
