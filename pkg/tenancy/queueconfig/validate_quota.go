package queueconfig

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/pkg/tenancy"
)

// amounts are quantities of resources by name. One that is absent from a maximum is unlimited.
type amounts map[string]int64

func (a amounts) positive() bool {
	for _, n := range a {
		if n > 0 {
			return true
		}
	}
	return false
}

// maxima are the maximums of a queue or limit and those above it. The smallest applies. Nil sets
// none.
type maxima struct {
	own   amounts
	above *maxima
}

// of returns the smallest maximum of a resource, if there is one.
func (m *maxima) of(name string) (most int64, ok bool) {
	for ; m != nil; m = m.above {
		if n, has := m.own[name]; has && (!ok || n < most) {
			most, ok = n, true
		}
	}
	return most, ok
}

// amounts parses quantities. It reports and omits illegal ones.
func (v *validator) amounts(written map[string]text) amounts {
	read := amounts{}
	for _, name := range slices.Sorted(maps.Keys(written)) {
		n, err := parseQuantity(name, written[name].value)
		if err != nil {
			v.errorf(written[name].position, "%v", err)
			continue
		}
		read[name] = n
	}
	return read
}

// within reports each amount that is greater than its maximum.
func (v *validator) within(at position, what string, most *maxima, have amounts, than string) {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if limit, ok := most.of(name); ok && have[name] > limit {
			v.errorf(at, "%s of %s is %d, more than the %d of %s", what, name, have[name], limit, than)
		}
	}
}

// quotas validates the resources of a queue and the queues below it against the maximum of those
// above. It returns the guaranteed amounts of the queue, or the sums of its children.
func (v *validator) quotas(q *queueConfig, above *maxima) amounts {
	at := q.quota.position
	if at.path == "" {
		at = q.position
	}
	guaranteed, own := v.amounts(q.quota.guaranteed), v.amounts(q.quota.max)
	v.within(at, "the guaranteed amount", &maxima{own: own}, guaranteed, "its own maximum")
	v.within(at, "the maximum", above, own, "a queue above")
	most := &maxima{own, above}
	v.notEnforced(q.quota)
	v.notEnforced(q.template)
	v.within(q.template.position, "the guaranteed amount", &maxima{own: v.amounts(q.template.max)}, v.amounts(q.template.guaranteed), "its own maximum")

	sum := amounts{}
	for _, child := range q.queues {
		for name, n := range v.quotas(child, most) {
			if sum[name] += n; sum[name] < 0 { // beyond what a number holds
				sum[name] = tenancy.Unlimited
			}
		}
	}
	v.within(at, "the guaranteed sum of the children", &maxima{own: guaranteed}, sum, "what is guaranteed to their parent")
	v.within(at, "the guaranteed sum of the children", most, sum, "the maximum")
	if len(guaranteed) > 0 {
		return guaranteed
	}
	return sum
}

func (v *validator) notEnforced(q quotaConfig) {
	for _, name := range slices.Sorted(maps.Keys(q.max)) {
		if name != clustersResource {
			v.warnf(q.max[name].position, "this is not enforced: only %s is", clustersResource)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.guaranteed)) {
		v.warnf(q.guaranteed[name].position, "this is not enforced")
	}
}

// applications validates maxapplications of a queue and the queues below it: below a queue with a
// limit, every queue needs a limit that is not greater.
func (v *validator) applications(q *queueConfig) {
	most := q.quota.maxApplications.value
	v.noLimit(q.quota.maxApplications)
	v.noLimit(q.template.maxApplications)
	for _, child := range q.queues {
		have := child.quota.maxApplications
		switch {
		case most == 0 || have.value > 0 && have.value <= most:
		case have.value == 0:
			v.errorf(child.position, "maxapplications must be set, to at most the %d of the queue above", most)
		default:
			v.errorf(have.position, "maxapplications is %d, more than the %d of the queue above", have.value, most)
		}
		v.applications(child)
	}
}

// isZero is true if 0 is written.
func (c count) isZero() bool { return c.path != "" && c.value == 0 }

// noLimit warns about a written 0.
func (v *validator) noLimit(c count) {
	if c.isZero() {
		v.warnf(c.position, "0 is no limit")
	}
}

// bounds are the maximums for limits of queues below.
type bounds struct {
	applications uint64 // 0 is unlimited
	resources    *maxima
}

// within returns the smaller bounds of both. The receiver is below the other.
func (b bounds) within(o bounds) bounds {
	tight := bounds{b.applications, o.resources}
	if b.resources != nil {
		tight.resources = &maxima{b.resources.own, o.resources}
	}
	if tight.applications == 0 || o.applications > 0 && o.applications < tight.applications {
		tight.applications = o.applications
	}
	return tight
}

// limitBounds holds the bounds on the way from root to a queue, by "queue", "user NAME" and "group
// NAME".
type limitBounds map[string]bounds

// set sets a bound and returns a function that restores the old one.
func (l limitBounds) set(key string, b bounds) (undo func()) {
	old, had := l[key]
	l[key] = b
	return func() {
		if had {
			l[key] = old
		} else {
			delete(l, key)
		}
	}
}

// limits validates the limits of a queue and the queues below it. more are those of the partition,
// which apply to root. here is unchanged afterwards.
func (v *validator) limits(q *queueConfig, more []*limitConfig, here limitBounds) {
	own := bounds{q.quota.maxApplications.value, &maxima{own: amounts{}}}
	for name, value := range q.quota.max {
		if n, err := parseQuantity(name, value.value); err == nil {
			own.resources.own[name] = n
		}
	}
	defer here.set("queue", own.within(here["queue"]))()
	if len(q.limits) > 0 {
		more = nil // The same limits.
	}
	for _, list := range [][]*limitConfig{more, q.limits} {
		names := &limitNames{users: map[string]bool{}, groups: map[string]bool{}}
		for _, l := range list {
			for _, undo := range v.limit(l, names, here) {
				defer undo()
			}
		}
	}
	for _, child := range q.queues {
		v.limits(child, nil, here)
	}
}

// sameLimits reports limits of the partition and of root that differ: both apply to root.
func (v *validator) sameLimits(partition, root []*limitConfig) {
	if len(partition) == 0 || len(root) == 0 {
		return
	}
	same := func(a, b *limitConfig) bool {
		equal := func(a, b text) bool { return a.value == b.value }
		return a.maxApplications.value == b.maxApplications.value && slices.EqualFunc(a.users, b.users, equal) &&
			slices.EqualFunc(a.groups, b.groups, equal) && maps.EqualFunc(a.maxResources, b.maxResources, equal)
	}
	if !slices.EqualFunc(partition, root, same) {
		v.errorf(root[0].position, "the limits of the partition and of root differ: write them in one of the two places, or the same in both")
	}
}

// limitNames are the users and groups in the validated part of a list of limits.
type limitNames struct{ users, groups map[string]bool }

// limit validates one limit, adds it to the bounds, and returns functions that remove it again.
func (v *validator) limit(l *limitConfig, names *limitNames, here limitBounds) (undo []func()) {
	if len(l.users)+len(l.groups) == 0 {
		v.errorf(l.position, "a limit needs users or groups")
	}
	for _, user := range l.users {
		v.limitName(user, "user", names.users, tenancy.LegalUser(user.value))
	}
	for _, group := range l.groups {
		v.limitName(group, "group", names.groups, tenancy.LegalGroup(group.value))
		if group.value == tenancy.Wildcard && len(names.groups) == 1 {
			v.errorf(group.position, "the only group must not be *: set the maximum of the queue instead")
		}
	}
	have := bounds{l.maxApplications.value, &maxima{own: v.amounts(l.maxResources)}}
	switch {
	case len(have.resources.own) > 0 && !have.resources.own.positive():
		v.errorf(l.position, "the values of maxresources are all 0: a limit needs one above 0")
	case have.applications == 0 && len(l.maxResources) == 0:
		v.errorf(l.position, "a limit needs maxapplications or maxresources above 0")
	}
	v.notEnforced(quotaConfig{max: l.maxResources})
	v.noLimit(l.maxApplications)
	v.bound(l, have, here["queue"], "the queue or one above")
	for _, listed := range []struct {
		kind  string
		names []text
	}{{"user ", l.users}, {"group ", l.groups}} {
		for _, name := range listed.names {
			undo = append(undo, v.limitOf(l, listed.kind, name.value, have, here))
		}
	}
	return undo
}

// limitOf compares a limit of a user or group with the one above: that of the same name, or else of
// the wildcard.
func (v *validator) limitOf(l *limitConfig, kind, name string, have bounds, here limitBounds) (undo func()) {
	key := kind + name
	above, has := here[key]
	if !has && name != tenancy.Wildcard {
		above, has = here[kind+tenancy.Wildcard]
		key = kind + tenancy.Wildcard
	}
	if has && above.applications > 0 && l.maxApplications.isZero() {
		v.errorf(l.maxApplications.position, "maxapplications is 0, which is no limit, below the %d of %s in a queue above", above.applications, key)
	}
	v.bound(l, have, above, key+" in a queue above")
	return here.set(kind+name, have.within(here[kind+name]))
}

func (v *validator) limitName(name text, kind string, seen map[string]bool, legal bool) {
	switch {
	case name.value != tenancy.Wildcard && !legal:
		v.errorf(name.position, "invalid %s name %q", kind, name.value)
	case seen[name.value]:
		v.errorf(name.position, "%s %s has another limit in this list", kind, name.value)
	case seen[tenancy.Wildcard]:
		v.errorf(name.position, "%s %s comes after *, which must be the last", kind, name.value)
	}
	seen[name.value] = true
}

func (v *validator) bound(l *limitConfig, have, most bounds, than string) {
	if most.applications > 0 && have.applications > most.applications {
		v.errorf(l.maxApplications.position, "maxapplications is %d, more than the %d of %s", have.applications, most.applications, than)
	}
	v.within(l.position, "the maximum", most.resources, have.resources.own, than)
}
