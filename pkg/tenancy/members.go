package tenancy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Application is a Placement that has a queue.
type Application struct {
	Namespace, Name string
	Queue           string // in full
	User            string
	Groups          []string
	Clusters        int64 // how many are selected
}

// Members counts the applications in each queue. A queue that is not configured (dynamic), and the
// queues above it, exist as long as they have members. Nil has no members; otherwise use
// NewMembers. It is not safe for concurrent use.
type Members struct {
	levels map[string]*level
	// removed has the last configuration of queues that are no longer configured, by name.
	removed map[string]*Queue
	// namespaces has the applications of each namespace, sorted by name.
	namespaces map[string][]*Application
}

// level counts the applications of one queue and the queues below it.
type level struct {
	own      int64 // applications in the queue itself
	total    Quota // used
	users    map[string]Quota
	shares   map[string]*share
	draining bool
	// groups caches the sums of shares by group, for each list of limits, by its first element.
	groups map[*Limit]*groupSums
}

// share is the part of a level that users with one exact set of groups use.
type share struct {
	groups []string
	used   Quota
}

// groupSums sums shares by the group as which a list of limits counts them.
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
	m := &Members{levels: map[string]*level{}, removed: map[string]*Queue{}, namespaces: map[string][]*Application{}}
	for _, a := range applications {
		m.Add(a)
	}
	return m
}

// Add counts an application.
func (m *Members) Add(a Application) {
	m.count(a, 1)
	m.list(a)
}

// list adds an application to those of its namespace.
func (m *Members) list(a Application) {
	named := m.namespaces[a.Namespace]
	i, _ := slices.BinarySearchFunc(named, a.Name, compareName)
	a.Queue = strings.ToLower(a.Queue)
	m.namespaces[a.Namespace] = slices.Insert(named, i, &a)
}

// Remove reverses an Add of the same application. A dynamic queue without members no longer exists,
// and so no longer drains.
func (m *Members) Remove(a Application) {
	m.count(a, -1)
	for _, name := range PathTo(strings.ToLower(a.Queue)) {
		if m.at(name).total.Applications <= 0 {
			delete(m.levels, name)
			delete(m.removed, name)
		}
	}
	named := m.namespaces[a.Namespace]
	if i, found := slices.BinarySearchFunc(named, a.Name, compareName); found {
		named = slices.Delete(named, i, i+1)
	}
	if m.namespaces[a.Namespace] = named; len(named) == 0 {
		delete(m.namespaces, a.Namespace)
	}
}

func compareName(a *Application, name string) int { return strings.Compare(a.Name, name) }

// Replace removes one application and adds another. A queue of both is never empty in between.
func (m *Members) Replace(old, current Application) {
	m.count(current, 1)
	m.Remove(old)
	m.list(current)
}

// Without calls do while an application does not count. It does not end the draining of a queue.
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
	for _, name := range PathTo(queue) {
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

// at returns the counts of a queue; zero counts for a queue without members.
func (m *Members) at(name string) *level {
	if m != nil && m.levels[name] != nil {
		return m.levels[name]
	}
	return &level{}
}

// usedBy returns what all users together use that count as a group in a list of limits. It sums the
// shares once for each list.
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

// maxNamed is how many Placements a message about a quota names.
const maxNamed = 5

// describe returns how much of a quota others than the named Placement use, and the first of those
// in its namespace by name.
func (m *Members) describe(s scope, used int64, namespace, name string, use func(*Application) (text string, uses bool)) string {
	if s.queue == "" {
		return "" // no quota
	}
	if used == 0 {
		return " (none used by others)"
	}
	var named []string
	for _, a := range m.namespaces[namespace] {
		text, uses := use(a)
		if a.Name == name || !uses || !s.counts(a) {
			continue
		}
		if len(named) == maxNamed {
			named = append(named, "…")
			break
		}
		named = append(named, text)
	}
	here := "none in this namespace"
	if len(named) > 0 {
		here = "in this namespace by " + strings.Join(named, ", ")
	}
	return fmt.Sprintf(" (%d used by others, %s)", used, here)
}

// Drain makes a queue accept no more applications until it is empty. It does nothing if the queue
// is empty.
func (m *Members) Drain(queue string) {
	if l := m.at(strings.ToLower(queue)); l.total.Applications > 0 {
		l.draining = true
	}
}

// Draining is true if a queue, or one above it, drains.
func (m *Members) Draining(queue string) bool {
	return slices.ContainsFunc(PathTo(strings.ToLower(queue)), func(name string) bool { return m.at(name).draining })
}

// Reconfigure applies a change of the configuration. A queue that is no longer configured keeps its
// quotas, limits and cluster sets for the time that it drains. A queue that is configured again
// stops draining. Either tree may be nil.
func (m *Members) Reconfigure(old, current *Tree) {
	if len(m.levels) > 0 { // Else this replica does not lead, and does not know which queues are empty.
		maps.DeleteFunc(m.removed, func(name string, _ *Queue) bool { return m.levels[name] == nil })
	}
	if old != nil {
		m.keepRemoved(old, old.root, current)
	}
	for name, l := range m.levels {
		clear(l.groups)
		if current != nil && current.Queue(name) != nil {
			l.draining = false
		}
	}
	maps.DeleteFunc(m.removed, func(name string, _ *Queue) bool { return current != nil && current.Queue(name) != nil })
}

// keepRemoved keeps the configuration of a queue, and of those below it, if the current tree lacks
// them.
func (m *Members) keepRemoved(old *Tree, q *Queue, current *Tree) {
	if current == nil || current.Queue(q.Name) == nil {
		kept := *q
		kept.Children, kept.children = nil, nil
		if sets, restricted := old.ClusterSets(nil, q.Name); restricted {
			kept.sets = sets
		}
		m.removed[q.Name] = &kept
	}
	for _, child := range q.Children {
		m.keepRemoved(old, child, current)
	}
}

// KnowsRemoved is true if the last configuration of a queue that is no longer configured is known.
func (m *Members) KnowsRemoved(queue string) bool { return m.removed[strings.ToLower(queue)] != nil }
