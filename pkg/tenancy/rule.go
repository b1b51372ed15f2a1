package tenancy

import "strings"

// The rules there are.
const (
	ruleProvided = "provided"
	ruleUser     = "user"
	ruleFixed    = "fixed"
	ruleTag      = "tag"
)

var ruleKinds = []string{ruleProvided, ruleUser, ruleFixed, ruleTag}

// rule makes the name of a queue from a submission.
type rule struct {
	kind   string
	create bool
	value  string // of fixed a queue's name, of tag a tag's in lower case
	parent *rule
	filter filter
	place  place
}

func newRule(c *ruleConfig) *rule {
	r := &rule{kind: strings.ToLower(c.name.value), create: c.create, value: c.value.value, filter: c.filter.compiled, place: c.place}
	if r.kind == ruleTag {
		r.value = strings.ToLower(r.value)
	}
	if c.parent != nil {
		r.parent = newRule(c.parent)
	}
	return r
}

// attempt is one submission on its way through the rules.
type attempt struct {
	tree    *Tree
	members *Members
	request Request
	tags    map[string]string
}

// raw returns what the rule makes its queue from, or why there is nothing.
func (a *attempt) raw(r *rule) (raw, reason string) {
	switch r.kind {
	case ruleProvided:
		return a.request.Queue, "no queue was requested"
	case ruleUser:
		return a.request.User, "the submission has no user"
	case ruleTag:
		return a.tags[r.value], messagef("tag %s is not set", r.value)
	}
	return r.value, "it has no value"
}

func illegal(queue string) string { return messagef("%q is not a legal queue name", queue) }

// eval returns the queue that the rule yields, in lower case, or the reason why it yields none. Nothing is known of other rules but the
// rule's parents, which run first.
func (a *attempt) eval(r *rule) (queue, reason string) {
	raw, reason := a.raw(r)
	if raw == "" {
		return "", reason
	}
	if !r.filter.admits(a.request.User, a.request.Groups) {
		return "", messagef("its filter keeps out user %s", a.request.User)
	}
	if len(raw) > MaxQueueLength {
		return "", tooLong(raw)
	}
	if r.kind != ruleUser && qualified(raw) {
		if reason = tooLong(raw); reason != "" {
			return "", reason
		}
		if !legalLevels(raw) {
			return "", illegal(raw)
		}
		queue = strings.ToLower(raw)
	} else if queue, reason = a.below(r, raw); queue == "" {
		return "", reason
	}
	if !r.create && !a.exists(queue) {
		return "", messagef("queue %s does not exist, and create is not set", queue)
	}
	return queue, ""
}

// below puts a name that does not begin at root below the queue of the parent rule, or else below root. Dots make levels in a
// fixed value only: a user's or a tag's name is one level.
func (a *attempt) below(r *rule, raw string) (queue, reason string) {
	child := raw
	if r.kind != ruleFixed {
		child = strings.ReplaceAll(raw, ".", dot)
	}
	if !legalLevels(child) {
		return "", illegal(child)
	}
	parent := rootName
	if r.parent != nil {
		if parent, reason = a.eval(r.parent); parent == "" {
			return "", "parent rule " + r.parent.kind + ": " + reason
		}
		if a.exists(parent) && a.leaf(parent) {
			return "", messagef("parent rule %s: queue %s is a leaf", r.parent.kind, parent)
		}
	}
	queue = parent + "." + strings.ToLower(child)
	if reason = tooLong(queue); reason != "" {
		return "", reason
	}
	return queue, ""
}

func (a *attempt) exists(queue string) bool {
	return a.tree.Queue(queue) != nil || a.members.at(queue).total.Applications > 0
}

// leaf says of a queue that exists whether it can hold applications: whether it neither has queues below it nor is made to.
func (a *attempt) leaf(queue string) bool {
	if q := a.tree.Queue(queue); q != nil && !q.Leaf() {
		return false
	}
	l := a.members.at(queue)
	return l.total.Applications == l.own
}

// fixedPath returns the part of a queue's name that a rule with its parents yields for every submission, root if there is
// none, and whether that is all of it.
func (r *rule) fixedPath() (queue string, complete bool) {
	if r.kind == ruleFixed && qualified(r.value) {
		return strings.ToLower(r.value), true
	}
	queue, complete = rootName, true
	if r.parent != nil {
		queue, complete = r.parent.fixedPath()
	}
	if r.kind != ruleFixed || !complete {
		return queue, false
	}
	return queue + "." + strings.ToLower(r.value), true
}
