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

// Members are the placed applications, counted by queue. They are what makes a dynamic queue exist: one that is not configured exists as
// long as it has members, and so do the queues above it. A nil one has no members; otherwise start with NewMembers.
// One goroutine at a time may use it.
type Members struct {
	levels map[string]*level
}

// level counts one queue with all below it.
type level struct {
	own      int64 // applications in the queue itself
	total    Quota // used
	shares   map[string]*share
	draining bool
}

// share is the part of a level that belongs to one user with certain groups.
type share struct {
	user   string
	groups []string
	used   Quota
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

// Remove takes back an Add of the same application. A queue that is left empty no longer exists, and so no longer drains.
func (m *Members) Remove(a Application) { m.count(a, -1) }

func (m *Members) count(a Application, n int64) {
	queue := strings.ToLower(a.Queue)
	groups := slices.Sorted(slices.Values(a.Groups))
	key := fmt.Sprintf("%q", append([]string{a.User}, groups...))
	for _, name := range lineage(queue) {
		l := m.levels[name]
		if l == nil {
			l = &level{shares: map[string]*share{}}
			m.levels[name] = l
		}
		if name == queue {
			l.own += n
		}
		s := l.shares[key]
		if s == nil {
			s = &share{user: a.User, groups: groups}
			l.shares[key] = s
		}
		for _, used := range []*Quota{&l.total, &s.used} {
			used.Applications += n
			used.Clusters += n * a.Clusters
		}
		if s.used.Applications <= 0 {
			delete(l.shares, key)
		}
		if l.total.Applications <= 0 {
			delete(m.levels, name)
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

// sum adds up the shares that count.
func (l *level) sum(counts func(*share) bool) (used Quota) {
	for _, s := range l.shares {
		if counts(s) {
			used.Applications += s.used.Applications
			used.Clusters += s.used.Clusters
		}
	}
	return used
}

// Used returns how many applications are placed in a queue and below it, and how many clusters they selected.
func (m *Members) Used(queue string) Quota { return m.at(strings.ToLower(queue)).total }

// Drain lets a queue take no further applications until it has lost those it has. It does nothing to an empty one.
func (m *Members) Drain(queue string) {
	if l := m.at(strings.ToLower(queue)); l.total.Applications > 0 {
		l.draining = true
	}
}

// Draining says whether a queue, or one above it, drains.
func (m *Members) Draining(queue string) bool {
	return slices.ContainsFunc(lineage(strings.ToLower(queue)), func(name string) bool { return m.at(name).draining })
}

// Reconfigure follows a change of the configuration: a queue with members drains if it was configured and no longer is, and
// stops to if it is again. A queue that was dynamic all along goes on. Either tree may be nil.
func (m *Members) Reconfigure(old, current *Tree) {
	for name, l := range m.levels {
		switch {
		case current != nil && current.Queue(name) != nil:
			l.draining = false
		case old != nil && old.Queue(name) != nil:
			l.draining = true
		}
	}
}
