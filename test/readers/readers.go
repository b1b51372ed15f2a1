package readers

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Page is what consumers read of a PlacementDecision.
type Page struct {
	Name     string
	Labels   map[string]string
	Clusters []string
}

// PageOf returns what consumers read of a page.
func PageOf(object *v1alpha1.PlacementDecision) Page {
	p := Page{Name: object.Name, Labels: object.Labels, Clusters: []string{}}
	for i := range object.Status.Decisions {
		p.Clusters = append(p.Clusters, object.Status.Decisions[i].ClusterName)
	}
	return p
}

// Union returns the clusters on all pages. Argo CD, scripts and pkg/client read them so.
func Union(pages []Page) map[string]bool {
	listed := map[string]bool{}
	for _, p := range pages {
		for _, cluster := range p.Clusters {
			listed[cluster] = true
		}
	}
	return listed
}

// ByGroups returns the clusters that the tracker in Open Cluster Management's sdk-go reports in any
// case. The tracker keeps one name for each group index, any of those on the pages, and ignores the
// index's pages with other names. It reads as many indexes from 0 as there are different ones, so
// it misses the highest group if an index below it has no page. It reports nothing if an index is
// no number.
func ByGroups(pages []Page) map[string]bool {
	groups := map[int]map[string][]string{} // the clusters by index and name
	for _, p := range pages {
		index, err := strconv.Atoi(p.Labels[v1alpha1.DecisionGroupIndexLabel])
		if err != nil {
			return nil
		}
		if groups[index] == nil {
			groups[index] = map[string][]string{}
		}
		name := p.Labels[v1alpha1.DecisionGroupNameLabel]
		groups[index][name] = append(groups[index][name], p.Clusters...)
	}
	read := map[string]bool{}
	for index := range len(groups) {
		names := map[string]int{} // by cluster: the number of the index's names with it
		for _, clusters := range groups[index] {
			slices.Sort(clusters)
			for _, cluster := range slices.Compact(clusters) {
				names[cluster]++
			}
		}
		for cluster, n := range names {
			read[cluster] = read[cluster] || n == len(groups[index])
		}
	}
	for cluster, is := range read {
		if !is {
			delete(read, cluster)
		}
	}
	return read
}
