package tenancy

import (
	"iter"
	"slices"
	"strings"
)

// Tree is what a valid configuration comes to: its queues, from root down, and its placement rules. It never changes. Queues that
// exist only because something was placed in them are not part of it; they are Members.
//
// Every method takes a queue's full name in any case, and one that is not configured stands below
// its nearest configured ancestor. The time it takes is linear in the length of the name.
type Tree struct {
	root  *Queue
	rules []*rule
}

// Queue is a configured queue. It must not be changed.
type Queue struct {
	Name                string // in full, in lower case
	SubmitACL, AdminACL ACL
	Quota               Quota
	Children            []*Queue // as written

	parent   bool // as written
	sets     clusterSet
	template *template
	limits   [][]limit         // each list for itself
	children map[string]*Queue // by the last level of their names
}

// template is what dynamic queues get that have no configuration of their own.
type template struct {
	quota Quota
	sets  clusterSet
}

// clusterSet is what the property clustersets names, sorted; nil where there is no such property.
type clusterSet []string

func newClusterSet(properties map[string]text) clusterSet {
	if value, ok := properties[clusterSetsProperty]; ok {
		return clusterSets(value.value)
	}
	return nil
}

// clusterSetsProperty names the cluster sets that a queue owns.
const clusterSetsProperty = "clustersets"

// Leaf says whether nothing can be configured below the queue. Applications are placed in leaves only.
func (q *Queue) Leaf() bool { return !q.parent && len(q.Children) == 0 && q.Name != rootName }

// newTree builds what it can from a partition, also from an invalid one, whose tree serves its further validation.
func newTree(p *partitionConfig) *Tree {
	t := &Tree{}
	t.root = t.add(p.top(), "")
	t.root.limits = append(t.root.limits, newLimits(p.limits))
	for _, c := range p.rules {
		t.rules = append(t.rules, newRule(c))
	}
	if len(t.rules) == 0 {
		t.rules = []*rule{{kind: ruleProvided}}
	}
	return t
}

// top is the root queue: the one written, or else one that holds all that are written.
func (p *partitionConfig) top() *queueConfig {
	if len(p.queues) == 1 && strings.EqualFold(p.queues[0].name.value, rootName) {
		return p.queues[0]
	}
	return &queueConfig{place: p.place, name: text{value: rootName}, queues: p.queues}
}

// add leaves out queues whose names are not legal, with all below them: the validator reports
// those.
func (t *Tree) add(c *queueConfig, parent string) *Queue {
	name := join(parent, strings.ToLower(c.name.value))
	q := &Queue{
		Name: name, parent: c.parent, sets: newClusterSet(c.properties), Quota: newQuota(&c.quota),
		limits: [][]limit{newLimits(c.limits)}, children: make(map[string]*Queue, len(c.queues)),
	}
	// An error is the validator's to report.
	q.SubmitACL, _, _ = ParseACL(c.submitACL.value)
	q.AdminACL, _, _ = ParseACL(c.adminACL.value)
	if c.hasTemplate() {
		q.template = &template{newQuota(&c.template), newClusterSet(c.templateProperties)}
	}
	for _, child := range c.queues {
		level := strings.ToLower(child.name.value)
		if !legalLevel.MatchString(level) || tooLong(join(name, level)) != "" {
			continue
		}
		q.children[level] = t.add(child, name)
		q.Children = append(q.Children, q.children[level])
	}
	return q
}

func (c *queueConfig) hasTemplate() bool {
	return len(c.templateProperties) > 0 || len(c.template.max) > 0 || len(c.template.guaranteed) > 0 || c.template.maxApplications.value > 0
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
	if !strings.EqualFold(first, rootName) {
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

// nearest is the named queue, if it is configured, or the nearest one above it that is.
func (t *Tree) nearest(name string) *Queue {
	for q := range t.up(name) {
		return q
	}
	return t.root
}

// SubmitAllowed says whether a user may place applications in a queue: if either list of the queue or of an ancestor grants it, or
// if none of them is set.
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

// AdminAllowed says whether the adminacl of a queue or of an ancestor grants the user.
func (t *Tree) AdminAllowed(queue, user string, groups []string) bool {
	for q := range t.up(queue) {
		if q.AdminACL.Allows(user, groups) {
			return true
		}
	}
	return false
}

// ClusterSets returns the cluster sets that a queue owns, sorted, and whether it is restricted to them: without a property on
// the queue's way to root it is not, and owns what there is.
func (t *Tree) ClusterSets(queue string) (sets []string, restricted bool) {
	path, configured := t.path(queue)
	for _, q := range slices.Backward(path) {
		if q.sets != nil {
			sets, restricted = q.sets, true
			break
		}
	}
	tmpl := templateOf(path, configured)
	if tmpl == nil || tmpl.sets == nil {
		return slices.Clone(sets), restricted
	}
	own := slices.Clone(tmpl.sets)
	if restricted {
		// A template inherited from further up must not give back what a queue below it has taken away.
		own = slices.DeleteFunc(own, func(set string) bool { _, has := slices.BinarySearch(sets, set); return !has })
	}
	return own, true
}

// templateOf returns the template for the queue below a path: that of the nearest queue of the path
// that has one; nil for a configured queue.
func templateOf(path []*Queue, configured bool) *template {
	if configured {
		return nil
	}
	for _, q := range slices.Backward(path) {
		if q.template != nil {
			return q.template
		}
	}
	return nil
}

// clusterSets reads a comma-separated list. The empty text names no set.
func clusterSets(value string) []string {
	sets := []string{}
	for set := range strings.SplitSeq(value, ",") {
		if set = strings.TrimSpace(set); set != "" {
			sets = append(sets, set)
		}
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}
