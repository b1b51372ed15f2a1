package framework

import (
	"cmp"
	"slices"
	"time"
)

// Eviction excludes one cluster from a Placement, because of a valid PlacementEviction.
type Eviction struct {
	Cluster string
	// Name is that of the PlacementEviction; if several exclude the cluster, that of the one that
	// ends last.
	Name string
	// Until is the end of the exclusion; zero until the eviction is executed.
	Until time.Time
}

// EvictionOf returns the eviction that excludes a cluster now; nil if there is none.
func (s *Snapshot) EvictionOf(cluster string) *Eviction {
	all := s.Subject.Evictions
	i, found := slices.BinarySearchFunc(all, cluster, func(e Eviction, name string) int { return cmp.Compare(e.Cluster, name) })
	if !found || !all[i].Until.IsZero() && !s.Now.Before(all[i].Until) {
		return nil
	}
	return &all[i]
}

// EndsAfter reports whether an eviction ends later than another one of the same cluster.
func (e Eviction) EndsAfter(other Eviction) bool {
	switch {
	case e.Until.IsZero() != other.Until.IsZero():
		return e.Until.IsZero()
	case e.Until.Equal(other.Until):
		return e.Name < other.Name
	}
	return e.Until.After(other.Until)
}
