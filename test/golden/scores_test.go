package golden

import (
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// coordinate is one prioritizer with a weight other than 0.
type coordinate struct {
	name   string
	addOn  *v1alpha1.AddOnScore
	weight int64
}

// coordinatesOf applies the configurations to the defaults; the last weight of a coordinate counts,
// 0 disables it.
func coordinatesOf(spec *v1alpha1.PlacementSpec) ([]coordinate, error) {
	var all []coordinate
	switch spec.PrioritizerPolicy.Mode {
	case "", v1alpha1.PrioritizerPolicyModeAdditive:
		all = []coordinate{{name: "Balance", weight: 1}, {name: "Steady", weight: 1}}
	case v1alpha1.PrioritizerPolicyModeExact:
	default:
		return nil, errMisconfigured
	}
	for _, c := range spec.PrioritizerPolicy.Configurations {
		if c.ScoreCoordinate == nil {
			return nil, errMisconfigured
		}
		one := coordinate{weight: 1, name: c.ScoreCoordinate.BuiltIn}
		if c.Weight != nil {
			one.weight = int64(*c.Weight)
		}
		if kind := c.ScoreCoordinate.Type; kind != "" && kind != v1alpha1.ScoreCoordinateTypeBuiltIn {
			one.name = "AddOn without addOn"
			if one.addOn = c.ScoreCoordinate.AddOn; one.addOn != nil {
				one.name = "AddOn/" + one.addOn.ResourceName + "/" + one.addOn.ScoreName
			}
		}
		all = lay(all, one)
	}
	var active []coordinate
	for _, c := range all {
		if c.weight == 0 {
			continue
		}
		switch c.name {
		case "Balance", "Steady", "Spread", "ResourceAllocatableCPU", "ResourceAllocatableMemory":
		default:
			if c.addOn == nil {
				return nil, errMisconfigured
			}
		}
		active = append(active, c)
	}
	return active, nil
}

func lay(all []coordinate, one coordinate) []coordinate {
	for i := range all {
		if all[i].name == one.name {
			all[i] = one
			return all
		}
	}
	return append(all, one)
}

// scoring computes the scores of one Placement's feasible clusters.
type scoring struct {
	*world
	feasible  []*v1alpha1.ManagedCluster
	own       []*v1alpha1.PlacementDecision
	published map[string]bool
	// expiring are the seconds until each used score expires.
	expiring []float64
}

func (s *scoring) of(c coordinate) map[string]int64 {
	switch c.name {
	case "Steady":
		return s.each(func(name string) int64 {
			if s.published[name] {
				return 100
			}
			return 0
		})
	case "Balance":
		return s.balance()
	case "ResourceAllocatableCPU":
		return s.resource(v1alpha1.ResourceCPU)
	case "ResourceAllocatableMemory":
		return s.resource(v1alpha1.ResourceMemory)
	}
	return s.each(func(name string) int64 { return s.addOn(name, c.addOn) })
}

func (s *scoring) each(score func(name string) int64) map[string]int64 {
	scores := map[string]int64{}
	for _, c := range s.feasible {
		scores[c.Name] = score(c.Name)
	}
	return scores
}

// balance counts all entries of all pages on the hub, except the Placement's own.
func (s *scoring) balance() map[string]int64 {
	own := map[*v1alpha1.PlacementDecision]bool{}
	for _, p := range s.own {
		own[p] = true
	}
	counts, most := map[string]int{}, 0
	for _, p := range s.pages {
		if own[p] {
			continue
		}
		for _, d := range p.Status.Decisions {
			counts[d.ClusterName]++
			most = max(most, counts[d.ClusterName])
		}
	}
	return s.each(func(name string) int64 {
		if counts[name] == 0 {
			return 100
		}
		return 2 * int64(100.0*(0.5-float64(counts[name])/float64(most)))
	})
}

// resource scales each amount to the range of all amounts. A cluster without allocatable or
// capacity has no score.
func (s *scoring) resource(name v1alpha1.ResourceName) map[string]int64 {
	amounts := map[string]float64{}
	least, most := math.Inf(1), math.Inf(-1)
	for _, c := range s.feasible {
		quantity, ok := c.Status.Allocatable[name]
		if _, known := c.Status.Capacity[name]; !ok || !known {
			continue
		}
		// The conversion uses decimal digits, so that the double is the nearest one.
		amount, err := strconv.ParseFloat(quantity.AsDec().String(), 64)
		if err != nil {
			continue
		}
		amounts[c.Name] = amount
		least, most = min(least, amount), max(most, amount)
	}
	scores := map[string]int64{}
	for cluster, amount := range amounts {
		scores[cluster] = 100
		if least != most {
			scores[cluster] = int64(((amount-least)/(most-least) - 0.5) * 2.0 * 100.0)
		}
	}
	return scores
}

// addOn reads a cluster's AddOnPlacementScore, unless it has expired.
func (s *scoring) addOn(cluster string, by *v1alpha1.AddOnScore) int64 {
	score := s.scores[types.NamespacedName{Namespace: cluster, Name: by.ResourceName}]
	if score == nil {
		return 0
	}
	if until := score.Status.ValidUntil; until != nil {
		if s.now.After(until.Time) {
			return 0
		}
		s.expiring = append(s.expiring, until.Sub(s.now).Round(time.Microsecond).Seconds())
	}
	value := int64(0)
	for _, item := range score.Status.Scores {
		if item.Name == by.ScoreName {
			value = int64(item.Value)
		}
	}
	return value
}
