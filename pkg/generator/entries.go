package generator

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/client"
)

// entry describes one selected cluster. All values are strings or maps of strings: Argo CD prints
// large numbers with an exponent, and its templates compare texts. An absent value is left out.
type entry struct {
	// ID is for Flux only.
	ID     string            `json:"id,omitempty"`
	Name   string            `json:"name"`
	Server string            `json:"server,omitempty"`
	Labels map[string]string `json:"labels,omitzero"`
	Claims map[string]string `json:"claims,omitzero"`
	// Group and GroupIndex are the decision group; a group without a name has the name "".
	Group      string `json:"group"`
	GroupIndex string `json:"groupIndex"`
	Revision   string `json:"revision,omitempty"`
	Score      string `json:"score,omitempty"`
	Rank       string `json:"rank,omitempty"`
	Tier       string `json:"tier,omitempty"`
	// Cut is "labels", "claims" or "labels, claims" if some of them are left out.
	Cut string `json:"cut,omitempty"`
}

// maxPart is how many bytes the labels of one cluster have, and its claims. The cluster's agent
// writes both, and must not make answers too large for their readers.
const maxPart = 8 << 10

// cut returns the first values, in the order of their names, that have at most maxPart bytes in
// JSON. whole is false if some are left out.
func cut(values map[string]string) (first map[string]string, whole bool) {
	left := maxPart
	for name, value := range values {
		left -= jsonSize(name) + jsonSize(value)
	}
	if left >= 0 {
		return values, true
	}
	first, left = map[string]string{}, maxPart
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if left -= jsonSize(name) + jsonSize(values[name]); left < 0 {
			break
		}
		first[name] = values[name]
	}
	return first, false
}

// jsonSize is at least the size of a text in JSON, with a separator: a byte becomes at most six.
func jsonSize(text string) int {
	size := len(text) + 3
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= 0x80 {
			size += 5
		}
	}
	return size
}

// entries describes the clusters of a Placement, in the published order.
func (f *fleet) entries(key types.NamespacedName) ([]entry, error) {
	clusters, err := f.decision(key)
	if err != nil {
		return nil, err
	}
	tiers := f.tiersOf(key)
	rank := ranks(clusters)
	all := make([]entry, 0, len(clusters))
	for i, c := range clusters {
		e := entry{Name: c.Name, Server: f.server(c.Name), Group: c.Group, GroupIndex: strconv.Itoa(c.GroupIndex)}
		if c.Revision != 0 {
			e.Revision = strconv.FormatInt(c.Revision, 10)
		}
		if c.Score != nil {
			e.Score, e.Rank = strconv.FormatInt(*c.Score, 10), strconv.Itoa(rank[i])
		}
		// A cluster that is unknown has no labels, instead of empty ones: a template that uses them
		// fails instead of printing something else.
		if object, ok := f.clusters.Get(types.NamespacedName{Name: c.Name}); ok {
			e.describe(object)
			e.Tier = tiers[c.Name]
		}
		all = append(all, e)
	}
	return all, nil
}

// describe sets the labels and claims of a cluster.
func (e *entry) describe(cluster *v1alpha1.ManagedCluster) {
	claims := make(map[string]string, len(cluster.Status.ClusterClaims))
	for _, claim := range cluster.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	var parts []string
	add := func(part string, values map[string]string) map[string]string {
		first, whole := cut(values)
		if !whole {
			parts = append(parts, part)
		}
		if first == nil {
			first = map[string]string{}
		}
		return first
	}
	e.Labels, e.Claims = add("labels", cluster.Labels), add("claims", claims)
	e.Cut = strings.Join(parts, ", ")
}

// ranks returns the positions of the clusters by score, from 1. Equal scores keep their order.
func ranks(clusters []client.Cluster) []int {
	order := make([]int, len(clusters))
	for i := range order {
		order[i] = i
	}
	score := func(i int) int64 {
		if s := clusters[i].Score; s != nil {
			return *s
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score(b), score(a)) })
	rank := make([]int, len(clusters))
	for position, i := range order {
		rank[i] = position + 1
	}
	return rank
}
