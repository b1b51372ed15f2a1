package faults

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/readers"
)

// broken records a broken promise. The caller holds the lock.
func (o *observer) broken(law int, format string, args ...any) {
	o.Violations++
	o.ByLaw[law]++
	if len(o.Examples) < 10 {
		o.Examples = append(o.Examples, fmt.Sprintf("law %d: ", law)+fmt.Sprintf(format, args...))
	}
}

// check compares one decision with the promises. The caller holds the lock.
func (o *observer) check(w Watched, version string, pages []readers.Page) {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		o.unread(err)
		return
	}
	groups := map[string]map[string]bool{} // the names by index
	listed := 0
	for _, page := range pages {
		index, name := page.Labels[v1alpha1.DecisionGroupIndexLabel], page.Labels[v1alpha1.DecisionGroupNameLabel]
		if groups[index] == nil {
			groups[index] = map[string]bool{}
		}
		groups[index][name] = true
		listed += len(page.Clusters)
	}
	o.checkPages(w, at, pages, groups, listed)
	o.Pages, o.Groups = max(o.Pages, len(pages)), max(o.Groups, len(groups))
}

// checkPages compares pages with the promises. The caller holds the lock.
func (o *observer) checkPages(w Watched, at uint64, pages []readers.Page, groups map[string]map[string]bool, listed int) {
	if listed == 0 && len(pages) > 0 {
		o.broken(1, "%s at %d: no page lists a cluster", w.key(), at)
	}
	for _, page := range pages {
		if n := len(page.Clusters); n > v1alpha1.MaxDecisionsPerPage {
			o.broken(2, "%s at %d: %s lists %d clusters", w.key(), at, page.Name, n)
		}
		if _, ok := page.Labels[v1alpha1.DecisionGroupNameLabel]; !ok {
			o.broken(2, "%s at %d: %s has no group name", w.key(), at, page.Name)
		}
	}
	for i := range len(groups) {
		if names := groups[strconv.Itoa(i)]; len(names) != 1 {
			o.broken(2, "%s at %d: of %d group indexes, %d has %d names", w.key(), at, len(groups), i, len(names))
		}
	}
	reader, missing := "pages", o.missing(w, at, readers.Union(pages))
	if len(missing) == 0 {
		reader, missing = "groups", o.missing(w, at, readers.ByGroups(pages))
	}
	if len(missing) > 0 {
		law := 2
		switch {
		case len(missing) == len(w.Core):
			law = 1 // all of the answer is gone
		case len(missing) > len(w.Core)/4:
			law = 7 // so much at once is what a controller does that does not know the fleet yet
		}
		o.broken(law, "%s at %d: missing for a reader of %s: %s", w.key(), at, reader, strings.Join(missing[:min(len(missing), 5)], " "))
	}
}

// missing returns the core clusters that the decision had before and lacks now.
func (o *observer) missing(w Watched, at uint64, listed map[string]bool) (names []string) {
	since := o.answers[w.key()].since
	for _, cluster := range w.Core {
		seen, ever := since[cluster]
		switch {
		case listed[cluster] && (!ever || at < seen):
			since[cluster] = at
		case !listed[cluster] && ever && at >= seen:
			names = append(names, cluster)
		}
	}
	return names
}

// checkLogs checks the promises that need the whole log: each status describes the published
// decision, and each event reports exactly one write.
func (o *observer) checkLogs(ctx context.Context) {
	namespaces := map[string]bool{}
	for _, w := range o.Placements {
		namespaces[w.Namespace] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, log := range o.answers {
		log.checkStatuses(func(format string, args ...any) { o.broken(5, key+": "+format, args...) })
	}
	for namespace := range namespaces {
		list := &eventsv1.EventList{}
		if err := o.hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
			o.unread(err)
			continue
		}
		sent := map[string]int{}
		// If one attempt changes a page and the next deletes it, the score events of both have the
		// same version.
		gone := map[string]bool{}
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == "DecisionDelete" && e.Related != nil {
				gone["ScoreUpdate "+e.Related.Name+" at "+e.Related.ResourceVersion] = true
			}
		}
		for i := range list.Items {
			e := &list.Items[i]
			log := o.answers[namespace+"/"+e.Regarding.Name]
			if log == nil || e.Related == nil {
				continue
			}
			o.Events++
			what := e.Reason + " " + e.Related.Name + " at " + e.Related.ResourceVersion
			if sent[what]++; sent[what] == 2 && !gone[what] {
				o.broken(5, "%s/%s: sent twice: %s", namespace, e.Regarding.Name, what)
			}
			if !log.mayExist(e.Related.ResourceVersion) {
				o.broken(5, "%s/%s: never happened: %s", namespace, e.Regarding.Name, what)
			}
		}
	}
}
