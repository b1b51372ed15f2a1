package tenancy

import "strings"

// The kinds of rules.
const (
	RuleProvided = "provided"
	RuleUser     = "user"
	RuleFixed    = "fixed"
	RuleTag      = "tag"
)

// RuleKinds returns the kinds of rules.
func RuleKinds() []string { return []string{RuleProvided, RuleUser, RuleFixed, RuleTag} }

// Rule derives the name of a queue from a submission.
type Rule struct {
	Kind   string
	Create bool   // the queue need not exist
	Value  string // of fixed a queue's name, of tag a tag's in lower case
	Parent *Rule
	Filter Filter
}

// evaluation is the evaluation of the rules for one submission.
type evaluation struct {
	tree    *Tree
	members *Members
	request Request
	tags    map[string]string
}

// raw returns the input of a rule, or the reason why it is missing.
func (a *evaluation) raw(r *Rule) (raw, reason string) {
	switch r.Kind {
	case RuleProvided:
		return a.request.Queue, "no queue was requested"
	case RuleUser:
		return a.request.User, "the submission has no user"
	case RuleTag:
		return a.tags[r.Value], Messagef("tag %s is not set", r.Value)
	}
	return r.Value, "it has no value"
}

func illegal(queue string) string { return Messagef("%q is not a legal queue name", queue) }

// eval returns the queue that the rule yields, in lower case, or the reason why it yields none. It
// evaluates the parent rules first.
func (a *evaluation) eval(r *Rule) (queue, reason string) {
	raw, reason := a.raw(r)
	if raw == "" {
		return "", reason
	}
	if !r.Filter.Admits(a.request.User, a.request.Groups) {
		return "", Messagef("its filter excludes user %s", a.request.User)
	}
	if len(raw) > MaxQueueLength {
		return "", TooLong(raw)
	}
	if r.Kind != RuleUser && Qualified(raw) {
		if reason = TooLong(raw); reason != "" {
			return "", reason
		}
		if !LegalLevels(raw) {
			return "", illegal(raw)
		}
		queue = strings.ToLower(raw)
	} else if queue, reason = a.below(r, raw); queue == "" {
		return "", reason
	}
	if !r.Create && !a.exists(queue) {
		return "", Messagef("queue %s does not exist, and create is not set", queue)
	}
	return queue, ""
}

// below returns the name of a queue below that of the parent rule, or below root. Dots separate
// levels only in a fixed value: the name of a user or tag is one level.
func (a *evaluation) below(r *Rule, raw string) (queue, reason string) {
	child := raw
	if r.Kind != RuleFixed {
		child = strings.ReplaceAll(raw, ".", dot)
	}
	if reason = TooLong(child); reason != "" {
		return "", reason
	}
	if !LegalLevels(child) {
		return "", illegal(child)
	}
	parent := RootName
	if r.Parent != nil {
		if parent, reason = a.eval(r.Parent); parent == "" {
			return "", "parent rule " + r.Parent.Kind + ": " + reason
		}
		if a.exists(parent) && a.leaf(parent) {
			return "", Messagef("parent rule %s: queue %s is a leaf", r.Parent.Kind, parent)
		}
	}
	queue = parent + "." + strings.ToLower(child)
	if reason = TooLong(queue); reason != "" {
		return "", reason
	}
	return queue, ""
}

func (a *evaluation) exists(queue string) bool {
	return a.tree.Queue(queue) != nil || a.members.at(queue).total.Applications > 0
}

// leaf is true if an existing queue can hold applications: it has no queues below it and is not
// configured as a parent.
func (a *evaluation) leaf(queue string) bool {
	if q := a.tree.Queue(queue); q != nil && !q.Leaf() {
		return false
	}
	l := a.members.at(queue)
	return l.total.Applications == l.own
}

// FixedPath returns the part of a queue's name that a rule with its parents yields for every
// submission, at least root. complete is true if that is the whole name.
func (r *Rule) FixedPath() (queue string, complete bool) {
	if r.Kind == RuleFixed && Qualified(r.Value) {
		return strings.ToLower(r.Value), true
	}
	queue, complete = RootName, true
	if r.Parent != nil {
		queue, complete = r.Parent.FixedPath()
	}
	if r.Kind != RuleFixed || !complete {
		return queue, false
	}
	return queue + "." + strings.ToLower(r.Value), true
}

// UsedTags returns the tags that the rules read, in lower case.
func (t *Tree) UsedTags() (tags []string) {
	for _, r := range t.rules {
		for ; r != nil; r = r.Parent {
			if r.Kind == RuleTag {
				tags = append(tags, r.Value)
			}
		}
	}
	return tags
}
