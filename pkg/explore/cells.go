package explore

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// column returns the cells of one Placement, as far as they are known.
func (w *world) column(key types.NamespacedName) (Column, error) {
	subject := w.inventory.Subject(key)
	if subject == nil {
		return Column{}, fmt.Errorf("the Placement %q: %w", key, errUnknown)
	}
	if r, ok := w.decider.(*remote); ok {
		return w.answeredColumn(r, subject), nil
	}
	if e := w.columns[key]; e != nil && e.decided {
		return e.column, nil
	}
	return columnOf(key, w.names, make([]byte, len(w.names)), published(subject), recordedTarget(subject), "", errDeciding), nil
}

// answeredColumn returns the cells of one Placement as the controller has answered.
func (w *world) answeredColumn(r *remote, subject *framework.Subject) Column {
	key, has := subject.Key(), published(subject)
	cells := bytes.Repeat([]byte{noCandidate}, len(w.names))
	report, err := r.outline(key)
	if err == nil && report.Answer != nil {
		mark := func(names []string, as byte) {
			for _, name := range names {
				if row, ok := slices.BinarySearch(w.names, name); ok {
					cells[row] = as
				}
			}
		}
		if len(report.AvailableClusters) < report.Candidates {
			mark(w.names, unknown)
		}
		w.fill(mark, report)
	}
	return columnOf(key, w.names, cells, has, recordedTarget(subject), skippedOf(report), err)
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
			mark(passed, markOf(&w.plugins, filter.Name[strings.LastIndexByte(filter.Name, ',')+1:]))
		}
		passed = filter.Clusters
	}
	mark(passed, excluded)
	mark(r.Ranking, feasible)
	for _, v := range r.Verdicts {
		switch {
		case v.Plugin != "":
			mark([]string{v.Cluster}, markOf(&w.plugins, v.Plugin))
		case v.Rank > 0:
			mark([]string{v.Cluster}, feasible)
		}
	}
}

// scores returns the scores of the candidates of one Placement.
func (w *world) scores(placement string, a answer) (*Scores, error) {
	if _, err := w.subject(placement); err != nil {
		return nil, err
	}
	s := &Scores{Placement: placement, Scores: map[string]int64{}}
	if a.err != nil || a.report.Answer == nil {
		return s, a.err
	}
	maps.Copy(s.Scores, a.report.Scores)
	return s, nil
}

// cell returns the Verdict of one cluster and the change with which it would be selected.
func (w *world) cell(placement, cluster string, a answer) (*Cell, error) {
	subject, err := w.subject(placement)
	if err != nil {
		return nil, err
	}
	if _, ok := slices.BinarySearch(w.names, cluster); !ok {
		return nil, fmt.Errorf("the cluster %q: %w", cluster, errUnknown)
	}
	has := published(subject)
	c := &Cell{Placement: placement, Cluster: cluster, Published: slices.Contains(has, cluster)}
	if a.err != nil {
		return nil, a.err
	}
	report := a.report
	if report.Answer == nil {
		c.Note = "The Placement is not decided: it is " + report.Skipped + "."
		return c, nil
	}
	c.Pending = pendingText(w.pending(subject, report), cluster)
	c.Spread = w.spread(subject.Placement, report, has, cluster)
	switch i := slices.IndexFunc(report.Verdicts, func(v framework.ClusterVerdict) bool { return v.Cluster == cluster }); {
	case i >= 0:
		c.Verdict, c.Weights = &report.Verdicts[i], map[string]int64{}
		for plugin := range c.Verdict.Scores {
			c.Weights[plugin] = report.PrioritizerScores[plugin].Weight
		}
		return c, nil
	case !slices.Contains(report.AvailableClusters, cluster):
		c.Note = "No candidate: " + cmp.Or(report.NoCandidate, decide.NoCandidateUnknown) + "."
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
