package queueconfig

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/tenancy"
)

const (
	// clustersResource is the only resource that is enforced: how many clusters are selected.
	clustersResource = "clusters"
	// clusterSetsProperty names the cluster sets that a queue owns.
	clusterSetsProperty = "clustersets"
)

// tree builds the tree of a partition. From an invalid partition it builds what it can.
func (p *partitionConfig) tree() *tenancy.Tree {
	rules := make([]*tenancy.Rule, len(p.rules))
	for i, c := range p.rules {
		rules[i] = c.rule()
	}
	return tenancy.NewTree(p.top().spec(), limitsOf(p.limits), rules)
}

// top returns the root queue: the written one, or a new one above all written queues.
func (p *partitionConfig) top() *queueConfig {
	if len(p.queues) == 1 && strings.EqualFold(p.queues[0].name.value, tenancy.RootName) {
		return p.queues[0]
	}
	return &queueConfig{position: p.position, name: text{value: tenancy.RootName}, queues: p.queues}
}

func (c *queueConfig) spec() tenancy.QueueSpec {
	spec := tenancy.QueueSpec{
		Name: c.name.value, Parent: c.parent, SubmitACL: c.submitACL.value, AdminACL: c.adminACL.value,
		Quota: quotaOf(c.quota.maxApplications, c.quota.max), Limits: limitsOf(c.limits), ClusterSets: clusterSetsOf(c.properties),
		Queues: make([]tenancy.QueueSpec, len(c.queues)),
	}
	if c.hasTemplate() {
		spec.Template = &tenancy.Template{
			Quota: quotaOf(c.template.maxApplications, c.template.max), ClusterSets: clusterSetsOf(c.templateProperties),
		}
	}
	for i, child := range c.queues {
		spec.Queues[i] = child.spec()
	}
	return spec
}

func (c *queueConfig) hasTemplate() bool {
	return len(c.templateProperties) > 0 || len(c.template.max) > 0 || len(c.template.guaranteed) > 0 || c.template.maxApplications.value > 0
}

func (c *ruleConfig) rule() *tenancy.Rule {
	r := &tenancy.Rule{Kind: strings.ToLower(c.name.value), Create: c.create, Value: c.value.value, Filter: c.filter.compiled}
	if r.Kind == tenancy.RuleTag {
		r.Value = strings.ToLower(r.Value)
	}
	if c.parent != nil {
		r.Parent = c.parent.rule()
	}
	return r
}

func quotaOf(applications count, most map[string]text) tenancy.Quota {
	q := tenancy.Quota{Applications: tenancy.Unlimited, Clusters: tenancy.Unlimited}
	if applications.value > 0 {
		q.Applications = int64(applications.value)
	}
	if value, ok := most[clustersResource]; ok {
		if n, err := parseQuantity(clustersResource, value.value); err == nil {
			q.Clusters = n
		}
	}
	return q
}

func limitsOf(configs []*limitConfig) []tenancy.Limit {
	limits := make([]tenancy.Limit, len(configs))
	for i, c := range configs {
		limits[i] = tenancy.Limit{Quota: quotaOf(c.maxApplications, c.maxResources), Users: values(c.users), Groups: values(c.groups)}
	}
	return limits
}

func values(texts []text) []string {
	values := make([]string, len(texts))
	for i, t := range texts {
		values[i] = t.value
	}
	return values
}

// clusterSetsOf returns the sets in the property clustersets, sorted; nil without the property.
func clusterSetsOf(properties map[string]text) []string {
	if value, ok := properties[clusterSetsProperty]; ok {
		return clusterSets(value.value)
	}
	return nil
}

// clusterSets parses a comma-separated list. The empty text contains no set.
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
