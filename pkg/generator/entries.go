package generator

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

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
}

// entries describes the clusters of a Placement, in the published order.
func (f *fleet) entries(ctx context.Context, key types.NamespacedName) ([]entry, error) {
	clusters, err := f.decision(key)
	if err != nil {
		return nil, err
	}
	tiers := compileTiers(f.policy(key))
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
			if e.Labels = object.Labels; e.Labels == nil {
				e.Labels = map[string]string{}
			}
			e.Claims = make(map[string]string, len(object.Status.ClusterClaims))
			for _, claim := range object.Status.ClusterClaims {
				e.Claims[claim.Name] = claim.Value
			}
			e.Tier = tiers.of(ctx, object)
		}
		all = append(all, e)
	}
	return all, ctx.Err()
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
