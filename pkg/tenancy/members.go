package tenancy

import (
	"fmt"
	"slices"
	"strings"
)

// Application is one that has been placed: a Placement with the queue that is recorded for it.
type Application struct {
	Queue    string // in full
	User     string
	Groups   []string
	Clusters int64 // how many are selected
}

// Members are the placed applications, counted by queue. They are what makes a dynamic queue exist:
// one that is not configured exists as long as it has members, and so do the queues above it. A nil
// one has no members; otherwise start with NewMembers. One goroutine at a time may use it.
type Members struct {
	levels map[string]*level
}

// level counts one queue with all below it.
type level struct {
	own      int64 // applications in the queue itself
	total    Quota // used
	users    map[string]Quota
	shares   map[string]*share
	draining bool
	// groups are the sums of shares that a list of limits asked for, by the list's first element
	// and the group that they count as.
	groups map[*Limit]*groupSums
}

// share is the part of a level that belongs to those who are in certain groups.
type share struct {
	groups []string
	used   Quota
}

// groupSums adds up shares by the group that each counts as in a list of limits.
type groupSums struct {
	limits []Limit
	used   map[string]Quota
}

func (g *groupSums) add(groups []string, used Quota) {
	if as, _ := quotaFor(g.limits, Limit.groupsOf, groups...); as != "" {
		g.used[as] = g.used[as].plus(used)
	}
}

func (q Quota) plus(other Quota) Quota {
	return Quota{q.Applications + other.Applications, q.Clusters + other.Clusters}
}

// NewMembers counts applications.
func NewMembers(applications ...Application) *Members {
	m := &Members{levels: map[string]*level{}}
	for _, a := range applications {
		m.Add(a)
	}
	return m
}

// Add counts an application.
func (m *Members) Add(a Application) { m.count(a, 1) }

// Remove takes back an Add of the same application. A queue that is left empty no longer exists,
// and so no longer drains.
func (m *Members) Remove(a Application) {
	m.count(a, -1)
	for _, name := range Lineage(strings.ToLower(a.Queue)) {
		if m.at(name).total.Applications <= 0 {
			delete(m.levels, name)
		}
	}
}

// Replace is a Remove of one application and an Add of another, between which no queue of both is
// empty.
func (m *Members) Replace(old, current Application) {
	m.count(current, 1)
	m.Remove(old)
}

// Without does something while an application does not count. A queue that holds no other drains
// again afterwards if it did.
func (m *Members) Without(a Application, do func()) {
	m.count(a, -1)
	do()
	m.count(a, 1)
}

func (m *Members) count(a Application, n int64) {
	queue := strings.ToLower(a.Queue)
	groups := slices.Sorted(slices.Values(a.Groups))
	key := fmt.Sprintf("%q", groups)
	used := Quota{n, n * a.Clusters}
	for _, name := range Lineage(queue) {
		l := m.levels[name]
		if l == nil {
			l = &level{users: map[string]Quota{}, shares: map[string]*share{}, groups: map[*Limit]*groupSums{}}
			m.levels[name] = l
		}
		if name == queue {
			l.own += n
		}
		l.total = l.total.plus(used)
		if l.users[a.User] = l.users[a.User].plus(used); l.users[a.User].Applications <= 0 {
			delete(l.users, a.User)
		}
		s := l.shares[key]
		if s == nil {
			s = &share{groups: groups}
			l.shares[key] = s
		}
		if s.used = s.used.plus(used); s.used.Applications <= 0 {
			delete(l.shares, key)
		}
		for _, sums := range l.groups {
			sums.add(groups, used)
		}
	}
}

// at returns the count of one queue; of none, a count of nothing.
func (m *Members) at(name string) *level {
	if m != nil && m.levels[name] != nil {
		return m.levels[name]
	}
	return &level{}
}

// usedBy adds up what all have who count as one of the groups of a list. It asks every share once
// for each list.
func (l *level) usedBy(group string, limits []Limit) Quota {
	if l.groups == nil { // of a queue without members
		return Quota{}
	}
	sums := l.groups[&limits[0]]
	if sums == nil {
		sums = &groupSums{limits, map[string]Quota{}}
		for _, s := range l.shares {
			sums.add(s.groups, s.used)
		}
		l.groups[&limits[0]] = sums
	}
	return sums.used[group]
}

// Used returns how many applications are placed in a queue and below it, and how many clusters they
// selected.
func (m *Members) Used(queue string) Quota { return m.at(strings.ToLower(queue)).total }

// Drain lets a queue take no further applications until it has lost those it has. It does nothing
// to an empty one.
func (m *Members) Drain(queue string) {
	if l := m.at(strings.ToLower(queue)); l.total.Applications > 0 {
		l.draining = true
	}
}

// Draining says whether a queue, or one above it, drains.
func (m *Members) Draining(queue string) bool {
	return slices.ContainsFunc(Lineage(strings.ToLower(queue)), func(name string) bool { return m.at(name).draining })
}

// Reconfigure follows a change of the configuration: a queue with members drains if it was
// configured and no longer is, and stops to if it is again. A queue that was dynamic all along goes
// on. Either tree may be nil.
func (m *Members) Reconfigure(old, current *Tree) {
	for name, l := range m.levels {
		clear(l.groups)
		switch {
		case current != nil && current.Queue(name) != nil:
			l.draining = false
		case old != nil && old.Queue(name) != nil:
			l.draining = true
		}
	}
}
