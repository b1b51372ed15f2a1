package queueconfig

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// validator validates a configuration and collects its problems.
type validator struct {
	errors, warnings problemList
	patterns         int // instructions of all regular expressions
}

func (v *validator) errorf(at position, format string, args ...any) {
	v.errors.addf(at, format, args...)
}

func (v *validator) warnf(at position, format string, args ...any) {
	v.warnings.addf(at, format, args...)
}

// or returns the position of the text, or that of its owner if the text is absent.
func (t text) or(owner position) position {
	if t.path == "" {
		return owner
	}
	return t.position
}

// partitions validates all partitions and returns the tree of each.
func (v *validator) partitions(partitions []*partitionConfig) []*tenancy.Tree {
	if len(partitions) == 0 && v.errors.total == 0 {
		v.errorf(position{}, "queue config is not set: partitions must have at least one entry")
	}
	trees := make([]*tenancy.Tree, len(partitions))
	seen := map[string]bool{}
	hasDefault := false
	for i, p := range partitions {
		name := strings.ToLower(p.name.value)
		if p.isDefault() {
			name, hasDefault = DefaultPartition, true
		} else {
			v.warnf(p.name.or(p.position), "partition %s has no effect: only the partition %s is used", p.name.value, DefaultPartition)
		}
		if seen[name] {
			v.errorf(p.name.or(p.position), "duplicate partition %s", name)
		}
		seen[name] = true
		trees[i] = v.partition(p)
	}
	if !hasDefault && len(partitions) > 0 {
		v.errorf(partitions[0].name.or(partitions[0].position), "there is no partition %s: only that one is used", DefaultPartition)
	}
	return trees
}

func (v *validator) partition(p *partitionConfig) *tenancy.Tree {
	if !p.hasQueues {
		v.errorf(p.position, "queue config is not set: the partition has no queues")
	}
	if !identity.KnownGroupResolver(p.resolver.value) {
		v.errorf(p.resolver.position, "unknown resolver %q: it must be none, os or test", p.resolver.value)
	}
	for _, at := range p.unused {
		v.warnf(at, "this is not enforced")
	}
	top := p.top()
	if top.quota.guaranteed != nil || top.quota.max != nil {
		v.errorf(top.quota.position, "the root queue must not have resource limits")
	}
	v.queue(top, "")
	v.clusterSets(top, nil)
	v.quotas(top, nil)
	v.applications(top)
	v.sameLimits(p.limits, top.limits)
	v.limits(top, p.limits, limitBounds{})
	valid := make([]bool, len(p.rules))
	for i, r := range p.rules {
		errors := v.errors.total
		v.rule(r)
		valid[i] = v.errors.total == errors
	}
	tree := p.tree()
	for i, r := range p.rules {
		if valid[i] {
			v.ruleInTree(tree, r)
		}
	}
	return tree
}

// queue validates the fields of a queue and of the queues below it. It ignores everything below a
// queue whose name is too long.
func (v *validator) queue(q *queueConfig, parent string) {
	name := join(parent, strings.ToLower(q.name.value))
	if reason := tenancy.TooLong(q.name.value); reason != "" {
		v.errorf(q.name.or(q.position), "%s", tenancy.Part(reason))
		name = parent
	} else if !tenancy.LegalLevel(q.name.value) {
		v.errorf(q.name.or(q.position), "invalid queue name %q: it must be 1 to 64 letters, digits and _ : # / @ -", q.name.value)
		name = parent
	} else if reason := tenancy.TooLong(name); reason != "" {
		v.errorf(q.name.or(q.position), "%s", tenancy.Part(reason))
		return
	}
	for _, acl := range []text{q.submitACL, q.adminACL} {
		_, dropped, err := tenancy.ParseACL(acl.value)
		if err != nil {
			v.errorf(acl.position, "%v", err)
		}
		if users, groups, _ := strings.Cut(acl.value, " "); err == nil && strings.HasSuffix(users, ",") {
			v.warnf(acl.position, "%q are groups: the users come before the space, the groups after it", groups)
		}
		for _, name := range dropped {
			v.warnf(acl.position, "%q is ignored: it is not a legal name", name)
		}
	}
	v.properties(q.properties)
	v.properties(q.templateProperties)
	siblings := map[string]bool{}
	for _, child := range q.queues {
		level := strings.ToLower(child.name.value)
		if siblings[level] {
			v.errorf(child.name.or(child.position), "duplicate child name %s: names must be unique in queue %s", child.name.value, q.name.value)
		}
		siblings[level] = true
		v.queue(child, name)
	}
}

func (v *validator) properties(properties map[string]text) {
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		value := properties[key]
		for _, prefix := range []string{"application.", "priority.", "preemption.", "quota.preemption."} {
			if strings.HasPrefix(key, prefix) {
				v.warnf(value.position, "this is not enforced")
			}
		}
		if key != clusterSetsProperty && strings.EqualFold(key, clusterSetsProperty) {
			v.warnf(value.position, "this has no effect: the property is written %s", clusterSetsProperty)
		}
	}
}

// clusterSets demands that a queue owns nothing that the queue above it does not own. Owned is nil
// where all sets are.
func (v *validator) clusterSets(q *queueConfig, owned map[string]bool) {
	of := owned
	if value, ok := q.properties[clusterSetsProperty]; ok {
		of = v.ownedSets(value, owned)
	}
	if value, ok := q.templateProperties[clusterSetsProperty]; ok {
		v.ownedSets(value, of)
	}
	for _, child := range q.queues {
		v.clusterSets(child, of)
	}
}

// ownedSets returns the sets that a property names. Those that are not among the owned ones are
// errors.
func (v *validator) ownedSets(value text, owned map[string]bool) map[string]bool {
	sets := map[string]bool{}
	for _, set := range clusterSets(value.value) {
		if sets[set] = true; owned != nil && !owned[set] {
			v.errorf(value.position, "cluster set %s is not among those of the queue above", set)
		}
	}
	return sets
}
