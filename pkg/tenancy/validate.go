package tenancy

import (
	"fmt"
	"slices"
	"strings"
)

// validator judges what has been read, and collects everything that is wrong.
type validator struct {
	errors, warnings []Problem
}

func (v *validator) errorf(at place, format string, args ...any) {
	v.errors = append(v.errors, Problem{at.line, at.path, fmt.Sprintf(format, args...)})
}

func (v *validator) warnf(at place, format string, args ...any) {
	v.warnings = append(v.warnings, Problem{at.line, at.path, fmt.Sprintf(format, args...)})
}

// or is the text's own place where it was written, else that of what it belongs to.
func (t text) or(owner place) place {
	if t.path == "" {
		return owner
	}
	return t.place
}

// partitions validates all of them and returns the tree of each.
func (v *validator) partitions(partitions []*partitionConfig) []*Tree {
	if len(partitions) == 0 && len(v.errors) == 0 {
		v.errorf(place{}, "queue config is not set: there is no partition")
	}
	trees := make([]*Tree, len(partitions))
	seen := map[string]bool{}
	hasDefault := false
	for i, p := range partitions {
		name := strings.ToLower(p.name.value)
		if p.isDefault() {
			name, hasDefault = DefaultPartition, true
		} else {
			v.warnf(p.name.or(p.place), "partition %s has no effect: only %s has", p.name.value, DefaultPartition)
		}
		if seen[name] {
			v.errorf(p.name.or(p.place), "duplicate partition %s", name)
		}
		seen[name] = true
		trees[i] = v.partition(p)
	}
	if !hasDefault && len(partitions) > 0 {
		v.warnf(partitions[0].place, "there is no partition %s: nothing can be placed", DefaultPartition)
	}
	return trees
}

func (v *validator) partition(p *partitionConfig) *Tree {
	if !p.hasQueues {
		v.errorf(p.place, "queue config is not set: the partition has no queues")
	}
	if !KnownGroupResolver(p.resolver.value) {
		v.errorf(p.resolver.place, "unknown resolver %q: it must be none, os or test", p.resolver.value)
	}
	for _, at := range p.unused {
		v.warnf(at, "this is not enforced")
	}
	top := p.top()
	if top.quota.guaranteed != nil || top.quota.max != nil {
		v.errorf(top.quota.place, "the root queue must not have resource limits")
	}
	v.queue(top)
	v.clusterSets(top, nil)
	v.quotas(top, nil)
	v.applications(top)
	v.limits(top, p.limits, nil)
	tree := newTree(p)
	for i, r := range p.rules {
		errors := len(v.errors)
		if v.rule(r); len(v.errors) == errors {
			v.ruleInTree(tree, tree.rules[i], r)
		}
	}
	return tree
}

// queue validates what a queue and those below it say by themselves.
func (v *validator) queue(q *queueConfig) {
	if !legalLevel.MatchString(q.name.value) {
		v.errorf(q.name.or(q.place), "invalid queue name %q: it must be 1 to 64 letters, digits and _ : # / @ -", q.name.value)
	}
	for _, acl := range []text{q.submitACL, q.adminACL} {
		_, dropped, err := ParseACL(acl.value)
		if err != nil {
			v.errorf(acl.place, "%v", err)
		}
		if users, groups, _ := strings.Cut(acl.value, " "); err == nil && strings.HasSuffix(users, ",") {
			v.warnf(acl.place, "%q are groups: what follows the blank is", groups)
		}
		for _, name := range dropped {
			v.warnf(acl.place, "%q is ignored: it is not a legal name", name)
		}
	}
	v.properties(q.properties)
	v.properties(q.templateProperties)
	siblings := map[string]bool{}
	for _, child := range q.queues {
		name := strings.ToLower(child.name.value)
		if siblings[name] {
			v.errorf(child.name.or(child.place), "duplicate child name %s: queue %s has one already", child.name.value, q.name.value)
		}
		siblings[name] = true
		v.queue(child)
	}
}

func (v *validator) properties(properties map[string]text) {
	for key, value := range properties {
		for _, prefix := range []string{"application.sort.", "priority.", "preemption."} {
			if strings.HasPrefix(key, prefix) {
				v.warnf(value.place, "this is not enforced")
			}
		}
		if key != clusterSetsProperty && strings.EqualFold(key, clusterSetsProperty) {
			v.warnf(value.place, "this has no effect: the property is written %s", clusterSetsProperty)
		}
	}
}

// clusterSets demands that a queue owns nothing that the queue above it does not own. Owned is nil where all sets are.
func (v *validator) clusterSets(q *queueConfig, owned []string) {
	for i, properties := range []map[string]text{q.templateProperties, q.properties} {
		value, ok := properties[clusterSetsProperty]
		if !ok {
			continue
		}
		of, sets := owned, clusterSets(value.value)
		if own, ok := q.properties[clusterSetsProperty]; ok && i == 0 {
			of = clusterSets(own.value)
		}
		for _, set := range sets {
			if of != nil && !slices.Contains(of, set) {
				v.errorf(value.place, "cluster set %s is not among those of the queue above", set)
			}
		}
		if i == 1 {
			owned = sets
		}
	}
	for _, child := range q.queues {
		v.clusterSets(child, owned)
	}
}
