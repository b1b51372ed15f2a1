package faults

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/readers"
)

// answerLog has everything that the watches reported about one Placement.
type answerLog struct {
	// since is the resource version at which the decision first had a core cluster.
	since    map[string]uint64
	states   []pageState
	statuses []statusState
}

// pageState is what is published from a resource version on.
type pageState struct {
	at uint64
	// listed is true if the states between this one and the one before are unknown.
	listed   bool
	pages    map[string]bool
	clusters int
}

// statusState is what a status reported about the decision.
type statusState struct {
	at uint64
	// listed is true if the status was written at an unknown earlier time.
	listed bool
	number int32
	pages  []string
	groups string
}

// state records what is published from now on.
func (o *observer) state(w Watched, version string, pages map[string]readers.Page, listed bool) {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return
	}
	s := pageState{at: at, listed: listed, pages: map[string]bool{}}
	clusters := map[string]bool{}
	for name, p := range pages {
		s.pages[name] = true
		for _, c := range p.Clusters {
			clusters[c] = true
		}
	}
	s.clusters = len(clusters)
	o.mu.Lock()
	defer o.mu.Unlock()
	log := o.answers[w.key()]
	log.states = append(log.states, s)
}

// status records what a status reports, if it differs from the last one.
func (l *answerLog) status(pl *v1alpha1.Placement, listed bool) {
	at, err := strconv.ParseUint(pl.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	s := statusState{at: at, listed: listed, number: pl.Status.NumberOfSelectedClusters}
	for _, g := range pl.Status.DecisionGroups {
		s.pages = append(s.pages, g.Decisions...)
	}
	text, err := json.Marshal(pl.Status.DecisionGroups)
	if err != nil {
		return
	}
	s.groups = string(text)
	if n := len(l.statuses); n == 0 || l.statuses[n-1].groups != s.groups || l.statuses[n-1].number != s.number {
		l.statuses = append(l.statuses, s)
	}
}

// checkStatuses compares each status with what was published when it was written, that is, after
// its decision and before the next one.
func (l *answerLog) checkStatuses(broken func(format string, args ...any)) {
	for _, s := range l.statuses {
		published, known := l.before(s.at)
		if s.listed || !known {
			continue
		}
		if s.number != int32(published.clusters) {
			broken("the status at %d counts %d clusters when %d were published", s.at, s.number, published.clusters)
		}
		for _, name := range s.pages {
			if !published.pages[name] {
				broken("the status at %d names %s, which was not published", s.at, name)
			}
		}
	}
}

// before returns the state at a resource version. It is unknown if the watch was interrupted then.
func (l *answerLog) before(version uint64) (pageState, bool) {
	next, _ := slices.BinarySearchFunc(l.states, version, func(s pageState, v uint64) int {
		if s.at <= v {
			return -1
		}
		return 1
	})
	if next == 0 || next < len(l.states) && l.states[next].listed {
		return pageState{}, false
	}
	return l.states[next-1], true
}

// mayExist reports whether a page was written with that version. A write that the watches missed
// counts as possible.
func (l *answerLog) mayExist(version string) bool {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return false
	}
	for i, s := range l.states {
		if s.at == v || s.listed && s.at >= v && (i == 0 || l.states[i-1].at < v) {
			return true
		}
	}
	return false
}
