package queueconfig

import (
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/tenancy"
)

var legalRule = regexp.MustCompile(`^[_a-zA-Z][a-zA-Z0-9_]*$`)

// rule validates what a rule and its parents say by themselves.
func (v *validator) rule(r *ruleConfig) {
	name, at := strings.ToLower(r.name.value), r.name.or(r.position)
	switch {
	case !legalRule.MatchString(name):
		v.errorf(at, "invalid rule name %q: it must be a letter or _, then letters, digits and _", r.name.value)
	case !slices.Contains(tenancy.RuleKinds(), name):
		v.errorf(at, "unknown rule %q: it must be one of %s", r.name.value, strings.Join(tenancy.RuleKinds(), ", "))
	case (name == tenancy.RuleFixed || name == tenancy.RuleTag) && r.value.value == "":
		v.errorf(at, "rule %s needs a value", name)
	}
	if name == tenancy.RuleFixed && r.value.value != "" {
		if reason := tenancy.TooLong(r.value.value); reason != "" {
			v.errorf(r.value.position, "%s", tenancy.Part(reason))
		} else if !tenancy.LegalLevels(r.value.value) {
			v.errorf(r.value.position, "invalid queue name %q: each level must be 1 to 64 letters, digits and _ : # / @ -", r.value.value)
		}
		if tenancy.Qualified(r.value.value) && r.parent != nil {
			v.errorf(r.parent.position, "rule fixed must not have a parent: its value %s begins at root", r.value.value)
		}
	}
	v.filter(&r.filter)
	if r.parent != nil {
		v.rule(r.parent)
	}
}

func (v *validator) filter(f *filterConfig) {
	if kind := strings.ToLower(f.kind.value); !slices.Contains([]string{"", "allow", "deny"}, kind) {
		v.errorf(f.kind.position, "filter type %q must be allow or deny", f.kind.value)
	}
	var unusable [2]map[int]string
	f.compiled, unusable = tenancy.NewFilter(f.kind.value, values(f.users), values(f.groups), &v.patterns)
	for i, entries := range [][]text{f.users, f.groups} {
		for j, entry := range entries {
			if message := unusable[i][j]; message != "" {
				v.warnf(entry.position, "%s", tenancy.Part(message))
			}
		}
	}
}

// ruleInTree validates the fixed part of the queue name that a rule yields against the configured
// queues.
func (v *validator) ruleInTree(t *tenancy.Tree, c *ruleConfig) {
	queue, complete := c.rule().FixedPath()
	at := c.fixedPosition()
	if reason := tenancy.TooLong(queue); reason != "" {
		v.errorf(at, "%s", tenancy.Part(reason))
		return
	}
	for _, name := range tenancy.PathTo(tenancy.ParentOf(queue)) {
		if q := t.Queue(name); q != nil && q.Leaf() {
			v.errorf(at, "queue %s continues below %s, which must be a parent, not a leaf", queue, name)
			return
		}
	}
	q := t.Queue(queue)
	switch {
	case q != nil && complete && !q.Leaf():
		v.errorf(at, "queue %s is a parent, not a leaf: the rule must name a leaf", queue)
	case q != nil && !complete && q.Leaf():
		v.errorf(at, "queue %s must be a parent, not a leaf: the rule puts other queues below it", queue)
	}
	for ; c != nil; c = c.parent {
		if fixed, complete := c.rule().FixedPath(); complete && !c.create && t.Queue(fixed) == nil {
			v.warnf(c.position, "queue %s is not configured and create is not set: the rule matches only while the queue exists as a dynamic queue", fixed)
		}
	}
}

// fixedPosition returns the position of the last fixed part of a queue's name.
func (c *ruleConfig) fixedPosition() position {
	for fixed := c; fixed != nil; fixed = fixed.parent {
		if strings.EqualFold(fixed.name.value, tenancy.RuleFixed) {
			return fixed.value.or(fixed.position)
		}
	}
	return c.position
}
