package queueconfig

import "go.yaml.in/yaml/v3"

// The functions below list the legal keys of each mapping. Any other key is an error.

func (r *reader) document(n *yaml.Node) []*partitionConfig {
	var partitions []*partitionConfig
	r.visit(n, "", func(n *yaml.Node) {
		r.mapping(n, "", fields{
			"partitions": func(n *yaml.Node, path string) {
				r.list(n, path, func(n *yaml.Node, path string) { partitions = append(partitions, r.partition(n, path)) })
			},
			"checksum": r.text(new(text)), // YuniKorn adds it to the configuration that it shows
		})
	})
	return partitions
}

func (r *reader) partition(n *yaml.Node, path string) *partitionConfig {
	p := &partitionConfig{position: position{n.Line, path}}
	unused := func(read fields) func(*yaml.Node, string) {
		return func(n *yaml.Node, path string) {
			p.unused = append(p.unused, position{n.Line, path})
			r.mapping(n, path, read)
		}
	}
	r.mapping(n, path, fields{
		"name": r.text(&p.name),
		"queues": func(n *yaml.Node, path string) {
			p.hasQueues = r.list(n, path, func(n *yaml.Node, path string) { p.queues = append(p.queues, r.queue(n, path)) })
		},
		"placementrules": func(n *yaml.Node, path string) {
			r.list(n, path, func(n *yaml.Node, path string) { p.rules = append(p.rules, r.rule(n, path)) })
		},
		"limits":            r.limits(&p.limits),
		"usergroupresolver": func(n *yaml.Node, path string) { r.mapping(n, path, fields{"type": r.text(&p.resolver)}) },
		"nodesortpolicy":    unused(fields{"type": r.text(new(text)), "resourceweights": r.textMap(new(map[string]text))}),
		"preemption":        unused(fields{"enabled": r.flag(new(bool)), "quotapreemptionenabled": r.flag(new(bool))}),
	})
	return p
}

func (r *reader) queue(n *yaml.Node, path string) *queueConfig {
	q := &queueConfig{position: position{n.Line, path}}
	r.mapping(n, path, fields{
		"name":   r.text(&q.name),
		"parent": r.flag(&q.parent),
		"queues": func(n *yaml.Node, path string) {
			r.list(n, path, func(n *yaml.Node, path string) { q.queues = append(q.queues, r.queue(n, path)) })
		},
		"submitacl":       r.text(&q.submitACL),
		"adminacl":        r.text(&q.adminACL),
		"resources":       r.resources(&q.quota),
		"maxapplications": r.count(&q.quota.maxApplications),
		"properties":      r.textMap(&q.properties),
		"limits":          r.limits(&q.limits),
		"childtemplate": func(n *yaml.Node, path string) {
			r.mapping(n, path, fields{
				"properties":      r.textMap(&q.templateProperties),
				"resources":       r.resources(&q.template),
				"maxapplications": r.count(&q.template.maxApplications),
			})
		},
	})
	return q
}

func (r *reader) resources(into *quotaConfig) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		into.position = position{n.Line, path}
		r.mapping(n, path, fields{"guaranteed": r.amounts(&into.guaranteed), "max": r.amounts(&into.max)})
	}
}

func (r *reader) rule(n *yaml.Node, path string) *ruleConfig {
	rule := &ruleConfig{position: position{n.Line, path}}
	r.mapping(n, path, fields{
		"name":   r.text(&rule.name),
		"create": r.flag(&rule.create),
		"value":  r.text(&rule.value),
		"parent": func(n *yaml.Node, path string) { rule.parent = r.parent(n, path) },
		"filter": func(n *yaml.Node, path string) {
			r.mapping(n, path, fields{
				"type":   r.text(&rule.filter.kind),
				"users":  r.texts(&rule.filter.users),
				"groups": r.texts(&rule.filter.groups),
			})
		},
	})
	return rule
}

// parent reads the rule of the parent queue: a rule, or a list of one rule.
func (r *reader) parent(n *yaml.Node, path string) *ruleConfig {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return r.rule(n, path)
	}
	var rules []*ruleConfig
	r.list(n, path, func(n *yaml.Node, path string) { rules = append(rules, r.rule(n, path)) })
	if len(rules) != 1 {
		r.failf(n, path, "the parent must be one rule, or a list of one, not of %d; write the parent's parent inside of it", len(rules))
		return nil
	}
	return rules[0]
}

func (r *reader) limits(into *[]*limitConfig) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		r.list(n, path, func(n *yaml.Node, path string) {
			l := &limitConfig{position: position{n.Line, path}}
			r.mapping(n, path, fields{
				"limit":           r.text(new(text)),
				"users":           r.texts(&l.users),
				"groups":          r.texts(&l.groups),
				"maxapplications": r.count(&l.maxApplications),
				"maxresources":    r.amounts(&l.maxResources),
			})
			*into = append(*into, l)
		})
	}
}
