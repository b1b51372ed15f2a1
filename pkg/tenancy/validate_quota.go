package tenancy

import (
	"maps"
	"slices"
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

// amounts reads quantities. Those that are not legal are errors, and left out.
func (v *validator) amounts(written map[string]text) amounts {
	read := amounts{}
	for name, value := range written {
		n, err := parseQuantity(name, value.value)
		if err != nil {
			v.errorf(value.place, "%v", err)
			continue
		}
		read[name] = n
	}
	return read
}

// within demands of each amount that the maximum, where it has one, is no smaller.
func (v *validator) within(at place, what string, most, have amounts, than string) {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if limit, ok := most[name]; ok && have[name] > limit {
			v.errorf(at, "%s of %s is %d, more than the %d of %s", what, name, have[name], limit, than)
		}
	}
}

// narrowed is the smaller of two maximums, resource by resource.
func narrowed(a, b amounts) amounts {
	narrow := maps.Clone(a)
	if narrow == nil {
		narrow = amounts{}
	}
	for name, n := range b {
		if have, ok := narrow[name]; !ok || n < have {
			narrow[name] = n
		}
	}
	return narrow
}

// quotas validates the resources of a queue and those below it against the maximum of those above, and returns what the queue
// guarantees: what it says, or else what its children say.
func (v *validator) quotas(q *queueConfig, above amounts) amounts {
	at := q.quota.place
	if at.path == "" {
		at = q.place
	}
	guaranteed, most := v.amounts(q.quota.guaranteed), v.amounts(q.quota.max)
	v.within(at, "the guaranteed amount", most, guaranteed, "its own maximum")
	v.within(at, "the maximum", above, most, "a queue above")
	most = narrowed(most, above)
	v.notEnforced(q.quota)
	v.notEnforced(q.template)
	v.within(q.template.place, "the guaranteed amount", v.amounts(q.template.max), v.amounts(q.template.guaranteed), "its own maximum")

	sum := amounts{}
	for _, child := range q.queues {
		for name, n := range v.quotas(child, most) {
			if sum[name] += n; sum[name] < 0 { // beyond what a number holds
				sum[name] = Unlimited
			}
		}
	}
	v.within(at, "the guaranteed sum of the children", guaranteed, sum, "what is guaranteed to their parent")
	v.within(at, "the guaranteed sum of the children", most, sum, "the maximum")
	if len(guaranteed) > 0 {
		return guaranteed
	}
	return sum
}

func (v *validator) notEnforced(q quotaConfig) {
	for name, value := range q.max {
		if name != clustersResource {
			v.warnf(value.place, "this is not enforced: only %s is", clustersResource)
		}
	}
	for _, value := range q.guaranteed {
		v.warnf(value.place, "this is not enforced")
	}
}

// applications validates maxapplications from a queue downwards: below a limit everything needs one that fits into it.
func (v *validator) applications(q *queueConfig) {
	most := q.quota.maxApplications.value
	for _, child := range q.queues {
		have := child.quota.maxApplications
		switch {
		case most == 0 || have.value > 0 && have.value <= most:
		case have.value == 0:
			v.errorf(child.place, "maxapplications must be set: the queue above has %d", most)
		default:
			v.errorf(have.place, "maxapplications is %d, more than the %d of the queue above", have.value, most)
		}
		v.applications(child)
	}
}

// bounds is what limits further down must fit into.
type bounds struct {
	applications uint64 // 0 is unlimited
	resources    amounts
}

// within is the tighter of both.
func (b bounds) within(o bounds) bounds {
	tight := bounds{b.applications, narrowed(b.resources, o.resources)}
	if tight.applications == 0 || o.applications > 0 && o.applications < tight.applications {
		tight.applications = o.applications
	}
	return tight
}

// limits validates the limits of a queue and those below it. More are the partition's, which count for root. Above holds the bounds by
// "queue", "user NAME" and "group NAME".
func (v *validator) limits(q *queueConfig, more []*limitConfig, above map[string]bounds) {
	own := bounds{q.quota.maxApplications.value, amounts{}}
	for name, value := range q.quota.max {
		if n, err := parseQuantity(name, value.value); err == nil {
			own.resources[name] = n
		}
	}
	here := maps.Clone(above)
	if here == nil {
		here = map[string]bounds{}
	}
	here["queue"] = own.within(above["queue"])
	for _, list := range [][]*limitConfig{more, q.limits} {
		names := &limitNames{users: map[string]bool{}, groups: map[string]bool{}}
		for _, l := range list {
			v.limit(l, names, here)
		}
	}
	for _, child := range q.queues {
		v.limits(child, nil, here)
	}
}

// limitNames are those that a list of limits has named so far.
type limitNames struct{ users, groups map[string]bool }

func (v *validator) limit(l *limitConfig, names *limitNames, here map[string]bounds) {
	if len(l.users)+len(l.groups) == 0 {
		v.errorf(l.place, "a limit needs users or groups")
	}
	for _, user := range l.users {
		v.limitName(user, "user", names.users, legalUser.MatchString(user.value))
	}
	for _, group := range l.groups {
		v.limitName(group, "group", names.groups, legalGroup.MatchString(group.value))
		if group.value == wildcard && len(names.groups) == 1 {
			v.errorf(group.place, "the only group must not be *: that is what the queue's own maximum is for")
		}
	}
	have := bounds{l.maxApplications.value, v.amounts(l.maxResources)}
	if have.applications == 0 && !have.resources.positive() {
		v.errorf(l.place, "a limit needs maxapplications or maxresources above 0")
	}
	v.notEnforced(quotaConfig{max: l.maxResources})
	v.bound(l, have, here["queue"], "the queue or one above")
	keys := []string{}
	for _, user := range l.users {
		keys = append(keys, "user "+user.value)
	}
	for _, group := range l.groups {
		keys = append(keys, "group "+group.value)
	}
	for _, key := range keys {
		v.bound(l, have, here[key], key+" in a queue above")
		here[key] = have.within(here[key])
	}
}

func (v *validator) limitName(name text, kind string, seen map[string]bool, legal bool) {
	switch {
	case name.value != wildcard && !legal:
		v.errorf(name.place, "invalid %s name %q", kind, name.value)
	case seen[name.value]:
		v.errorf(name.place, "%s %s has a limit already", kind, name.value)
	case seen[wildcard]:
		v.errorf(name.place, "%s %s comes after *, which must be the last", kind, name.value)
	}
	seen[name.value] = true
}

func (v *validator) bound(l *limitConfig, have, most bounds, than string) {
	if most.applications > 0 && have.applications > most.applications {
		v.errorf(l.maxApplications.place, "maxapplications is %d, more than the %d of %s", have.applications, most.applications, than)
	}
	v.within(l.place, "the maximum", most.resources, have.resources, than)
}
