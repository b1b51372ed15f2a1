package tenancy

import (
	"iter"
	"slices"
	"strings"
)

// Tree is a valid configuration: the configured queues and the placement rules. It is immutable.
// Dynamic queues are not part of it; Members has them.
//
// Methods accept the full name of a queue in any letter case. A queue that is not configured
// inherits from its nearest configured ancestor. Their time is linear in the length of the name.
type Tree struct {
	root  *Queue
	rules []*Rule
}

// Queue is a configured queue. It must not be changed.
type Queue struct {
	Name                string // in full, in lower case
	SubmitACL, AdminACL ACL
	Quota               Quota
	Children            []*Queue // as written

	parent   bool     // as written
	sets     []string // sorted; nil where all of the queue above
	template *Template
	limits   [][]Limit         // each list for itself
	children map[string]*Queue // by the last level of their names, in lower case
}

// QueueSpec is the configuration of one queue and the queues below it.
type QueueSpec struct {
	Name string // one level
	// Parent is true for a parent queue, even without children.
	Parent              bool
	SubmitACL, AdminACL string
	Quota               Quota
	Limits              []Limit
	// ClusterSets are sorted; nil is no restriction beside those of the queues above.
	ClusterSets []string
	Template    *Template // nil for none
	Queues      []QueueSpec
}

// Template is the configuration of dynamic queues.
type Template struct {
	Quota       Quota
	ClusterSets []string // as a QueueSpec's
}

// Limits are the limits of users and groups in the queue and the queues below it.
func (q *Queue) Limits() []Limit { return slices.Concat(q.limits...) }

// Leaf is true if the queue is not configured to have queues below it. Only leaves hold
// applications.
func (q *Queue) Leaf() bool { return !q.parent && len(q.Children) == 0 && q.Name != RootName }

// NewTree builds a tree. From an invalid configuration it builds what it can, for further
// validation: it omits illegal access lists, and queues with illegal names with all queues below
// them. more are further limits of root.
func NewTree(root QueueSpec, more []Limit, rules []*Rule) *Tree {
	t := &Tree{rules: rules}
	t.root = t.add(&root, "")
	t.root.limits = append(t.root.limits, more)
	if len(t.rules) == 0 {
		t.rules = []*Rule{{Kind: RuleProvided}}
	}
	return t
}

func (t *Tree) add(spec *QueueSpec, prefix string) *Queue {
	name := prefix + strings.ToLower(spec.Name)
	q := &Queue{
		Name: name, parent: spec.Parent, sets: spec.ClusterSets, Quota: spec.Quota, template: spec.Template,
		limits: [][]Limit{spec.Limits}, children: make(map[string]*Queue, len(spec.Queues)),
	}
	q.SubmitACL, _, _ = ParseACL(spec.SubmitACL)
	q.AdminACL, _, _ = ParseACL(spec.AdminACL)
	for i := range spec.Queues {
		level := strings.ToLower(spec.Queues[i].Name)
		if !LegalLevel(level) || TooLong(name+"."+level) != "" {
			continue
		}
		q.children[level] = t.add(&spec.Queues[i], name+".")
		q.Children = append(q.Children, q.children[level])
	}
	return q
}

// Root is the queue above all others.
func (t *Tree) Root() *Queue { return t.root }

// Queue is the configured queue of that name, nil if there is none.
func (t *Tree) Queue(name string) *Queue {
	path, complete := t.path(name)
	if !complete {
		return nil
	}
	return path[len(path)-1]
}

// path returns the configured queues from root down to the named one, and whether it is one of
// them. It reads the name once, up to the first level that is not configured.
func (t *Tree) path(name string) (path []*Queue, complete bool) {
	first, rest, more := strings.Cut(name, ".")
	if !strings.EqualFold(first, RootName) {
		return nil, false
	}
	q := t.root
	path = append(path, q)
	for more {
		var level string
		level, rest, more = strings.Cut(rest, ".")
		if len(level) > maxLevel {
			return path, false
		}
		if q = q.children[strings.ToLower(level)]; q == nil {
			return path, false
		}
		path = append(path, q)
	}
	return path, true
}

// up yields the configured queues from the named one, or its nearest configured ancestor, to root.
func (t *Tree) up(name string) iter.Seq[*Queue] {
	return func(yield func(*Queue) bool) {
		path, _ := t.path(name)
		for _, q := range slices.Backward(path) {
			if !yield(q) {
				return
			}
		}
	}
}

// Nearest is the named queue, if it is configured, or the nearest one above it that is.
func (t *Tree) Nearest(name string) *Queue {
	for q := range t.up(name) {
		return q
	}
	return t.root
}

// SubmitAllowed is true if a user may submit to a queue: an access list of the queue or of an
// ancestor grants it, or none of them is set.
func (t *Tree) SubmitAllowed(queue, user string, groups []string) bool {
	open := true
	for q := range t.up(queue) {
		if q.SubmitACL.Allows(user, groups) || q.AdminACL.Allows(user, groups) {
			return true
		}
		open = open && !q.SubmitACL.IsSet() && !q.AdminACL.IsSet()
	}
	return open
}

// AdminAllowed is true if the adminacl of a queue or of an ancestor grants the user.
func (t *Tree) AdminAllowed(queue, user string, groups []string) bool {
	for q := range t.up(queue) {
		if q.AdminACL.Allows(user, groups) {
			return true
		}
	}
	return false
}

// settings returns the queues from root down to the named one whose settings apply to it, and
// whether it is one of them: the configured queues, and those that drain.
func (t *Tree) settings(members *Members, name string) (path []*Queue, complete bool) {
	path, complete = t.path(name)
	if complete || members == nil || len(path) == 0 {
		return path, complete
	}
	name = strings.ToLower(name)
	for _, below := range PathTo(name)[len(path):] {
		if q := members.removed[below]; q != nil && members.at(below).draining {
			path, complete = append(path, q), below == name
		}
	}
	return path, complete
}

// ClusterSets returns the cluster sets that a queue owns, sorted, and whether it is restricted to
// them. It is not if neither the queue nor an ancestor has the property clustersets.
func (t *Tree) ClusterSets(members *Members, queue string) (sets []string, restricted bool) {
	path, known := t.settings(members, queue)
	for _, q := range slices.Backward(path) {
		if q.sets != nil {
			sets, restricted = q.sets, true
			break
		}
	}
	tmpl := templateOf(path, known)
	if tmpl == nil || tmpl.ClusterSets == nil {
		return slices.Clone(sets), restricted
	}
	own := slices.Clone(tmpl.ClusterSets)
	if restricted {
		// A template of an ancestor must not allow sets that a queue below the ancestor excludes.
		own = slices.DeleteFunc(own, func(set string) bool { _, has := slices.BinarySearch(sets, set); return !has })
	}
	return own, true
}

// templateOf returns the template for the queue below a path: that of the nearest queue of the path
// that has one; nil for a queue with settings of its own.
func templateOf(path []*Queue, known bool) *Template {
	if known {
		return nil
	}
	for _, q := range slices.Backward(path) {
		if q.template != nil {
			return q.template
		}
	}
	return nil
}
