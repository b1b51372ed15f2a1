package golden

import (
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// checkGroups compares the pages with the decision strategy: groups as assigned, none too long,
// indexes without gaps, status as the pages.
func (e *evaluation) checkGroups() {
	groups, byIndex := map[string]map[string]bool{}, map[int][]page{}
	for _, d := range e.got.Decisions {
		index, err := strconv.Atoi(d.Labels[v1alpha1.DecisionGroupIndexLabel])
		if err != nil || index < 0 || d.Labels[v1alpha1.PlacementLabel] != e.placement.Name {
			e.fail("labels of page %s: %v", d.Name, d.Labels)
			return
		}
		byIndex[index] = append(byIndex[index], d)
		for _, c := range d.Clusters {
			if groups[d.group()] == nil {
				groups[d.group()] = map[string]bool{}
			}
			groups[d.group()][c] = true
		}
	}
	e.equal("groups", e.groups, groups)
	var status []v1alpha1.DecisionGroupStatus
	for i := range len(byIndex) {
		pages := byIndex[i]
		if len(pages) == 0 {
			e.fail("group indexes are not dense: nothing has %d", i)
			return
		}
		group := v1alpha1.DecisionGroupStatus{DecisionGroupIndex: int32(i), DecisionGroupName: pages[0].group()}
		for _, d := range pages {
			e.equal("group name at one index", group.DecisionGroupName, d.group())
			group.Decisions = append(group.Decisions, d.Name)
			group.ClusterCount += int32(len(d.Clusters))
		}
		if int(group.ClusterCount) > e.length {
			e.fail("group %d has %d clusters, at most %d are allowed", i, group.ClusterCount, e.length)
		}
		status = append(status, group)
	}
	got := slices.Clone(e.got.GroupStatus)
	for _, list := range [][]v1alpha1.DecisionGroupStatus{status, got} {
		for i := range list {
			list[i].Decisions = slices.Sorted(slices.Values(list[i].Decisions))
		}
	}
	e.equal("groupStatus", status, got)
}

// checkPages checks the limits of each page: its size, its order, and a free name.
func (e *evaluation) checkPages() {
	old, seen := map[string]bool{}, map[string]bool{}
	for _, p := range e.own {
		old[p.Name] = true
	}
	position := map[string]int{}
	for i, c := range e.ranking {
		position[c] = i
	}
	for _, d := range e.got.Decisions {
		if len(d.Clusters) > v1alpha1.MaxDecisionsPerPage {
			e.fail("page %s has %d clusters", d.Name, len(d.Clusters))
		}
		switch {
		case seen[d.Name], !numbered(d.Name, e.placement.Name) && !old[d.Name]:
			e.fail("page name %s", d.Name)
		case e.taken[d.Name]:
			e.fail("page %s belongs to another Placement", d.Name)
		}
		seen[d.Name] = true
		inOrder := sort.StringsAreSorted(d.Clusters)
		if e.placement.Spec.SortBy == v1alpha1.SortByScore {
			inOrder = slices.IsSortedFunc(d.Clusters, func(a, b string) int { return position[a] - position[b] })
		}
		if !inOrder {
			e.fail("order within page %s: %v", d.Name, d.Clusters)
		}
	}
}

func numbered(page, placement string) bool {
	rest, ok := strings.CutPrefix(page, placement+"-decision-")
	n, err := strconv.Atoi(rest)
	return ok && err == nil && n > 0 && strconv.Itoa(n) == rest
}

// checkStays: if all clusters are in one group, a cluster that stays selected keeps its page while
// the page exists.
func (e *evaluation) checkStays() {
	groups := e.groups
	if len(groups) > 1 || e.length < len(e.chosen) {
		return
	}
	at, exists, listed := map[string]string{}, map[string]bool{}, map[string]int{}
	for _, d := range e.got.Decisions {
		exists[d.Name] = true
		for _, c := range d.Clusters {
			at[c] = d.Name
		}
	}
	for _, c := range e.entries() {
		listed[c]++
	}
	for _, p := range e.own {
		if groups[p.Labels[v1alpha1.DecisionGroupNameLabel]] == nil || !exists[p.Name] {
			continue
		}
		for _, d := range p.Status.Decisions {
			if now := at[d.ClusterName]; now != "" && now != p.Name && listed[d.ClusterName] == 1 {
				e.fail("%s moved from page %s to %s", d.ClusterName, p.Name, now)
			}
		}
	}
}

// checkRecordedPages compares pages and events with the recording, if the reference had no reason
// for another layout.
func (e *evaluation) checkRecordedPages() {
	if !maps.Equal(e.chosen, e.recorded) || slices.ContainsFunc(e.want.Decisions, func(d page) bool { return e.taken[d.Name] }) {
		return
	}
	several := len(e.got.Decisions) > 1
	if len(e.want.Decisions) != len(e.got.Decisions) || len(e.own) > 1 ||
		len(e.own) == 1 && (several || e.own[0].Name != e.placement.Name+"-decision-1") {
		e.met[pagesAreSticky] = true
		e.checkEventsOfPages()
		return
	}
	byScore := e.placement.Spec.SortBy == v1alpha1.SortByScore
	if byScore {
		e.met[sortedByScore] = true
	}
	if !byScore || !several {
		e.equal("decisions", shape(e.want.Decisions, byScore), shape(e.got.Decisions, byScore))
	}
	e.checkEventsOfPages()
	if !e.silent() && !several && !byScore {
		e.checkRecordedEvents()
	}
}

// shape has the compared fields of pages: only the labels that consumers read, and no order if it
// is by score.
func shape(pages []page, anyOrder bool) []page {
	var out []page
	for _, p := range pages {
		q := page{Name: p.Name, Labels: map[string]string{}, Clusters: slices.Clone(p.Clusters)}
		for _, key := range []string{v1alpha1.PlacementLabel, v1alpha1.DecisionGroupNameLabel, v1alpha1.DecisionGroupIndexLabel} {
			if value, ok := p.Labels[key]; ok {
				q.Labels[key] = value
			}
		}
		if anyOrder {
			slices.Sort(q.Clusters)
		}
		out = append(out, q)
	}
	return out
}

// silent reports whether the attempt selects exactly the published clusters, each once.
func (e *evaluation) silent() bool {
	entries := e.entries()
	return len(e.own) > 0 && len(setOf(entries)) == len(entries) && maps.Equal(setOf(entries), e.chosen)
}

// checkEventsOfPages: no events if the selection stays; otherwise one for each page that is created
// or deleted, and one for the scores.
func (e *evaluation) checkEventsOfPages() {
	count := map[[2]string]int{}
	for _, v := range e.got.Events {
		count[[2]string{v.Reason, v.Related}]++
		count[[2]string{v.Reason}]++
		if len(v.Note) > 1024 {
			e.fail("the note of %s has %d bytes", v.Reason, len(v.Note))
		}
	}
	if e.silent() {
		if len(e.want.Events) > 0 {
			e.met[silentWhenSame] = true
		}
		if len(e.got.Events) > 0 {
			e.fail("should be silent: %v", e.got.Events)
		}
		return
	}
	// A published decision that changes, and was scored, has an event with its scores.
	least := 0
	if len(e.own) > 0 && len(e.scores) > 0 {
		least = 1
	}
	if n := count[[2]string{"ScoreUpdate"}]; n > 1 || n < least {
		e.fail("%d ScoreUpdates", n)
	}
	existed, exists := map[string]bool{}, map[string]bool{}
	for _, p := range e.world.pages {
		existed[p.Name] = existed[p.Name] || p.Namespace == e.placement.Namespace
	}
	for _, d := range e.got.Decisions {
		exists[d.Name] = true
		if n := count[[2]string{"DecisionCreate", d.Name}]; !existed[d.Name] && n != 1 {
			e.fail("%d DecisionCreates of page %s", n, d.Name)
		}
	}
	for _, p := range e.own {
		if n := count[[2]string{"DecisionDelete", p.Name}]; !exists[p.Name] && n != 1 {
			e.fail("%d DecisionDeletes of page %s", n, p.Name)
		}
	}
}

// checkRecordedEvents compares events one by one. The notes of Warnings are Berth's own, and
// departures change totals.
func (e *evaluation) checkRecordedEvents() {
	head := func(events []event) (all []string) {
		for _, v := range events {
			all = append(all, strings.Join([]string{v.Type, v.Reason, v.Action, v.Related}, " "))
		}
		return all
	}
	if !e.equal("events", head(e.want.Events), head(e.got.Events)) {
		return
	}
	for i, want := range e.want.Events {
		if want.Type != "Normal" || want.Reason == "ScoreUpdate" && !maps.Equal(e.scores, e.want.Scores) {
			continue
		}
		notes := want.NoteAnyOf
		if len(notes) == 0 {
			notes = []string{want.Note}
		}
		got := strings.TrimSpace(e.got.Events[i].Note)
		if !slices.ContainsFunc(notes, func(note string) bool { return strings.TrimSpace(note) == got }) {
			e.fail("note of %s: want one of %q, got %q", want.Reason, notes, got)
		}
	}
}
