package decisions

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Choice is one selected cluster.
type Choice struct {
	Name           string
	Labels, Claims map[string]string // read by group selectors
	Score          int64             // total score, published when the Placement sorts by Score
	Leaves         bool              // in a later step of a change: it does not count for lengths
}

// Grouping is a selection divided into decision groups by name: the input of NewPlan.
type Grouping struct {
	// Choices are the selected clusters in rank order, without duplicates.
	Choices []Choice
	// Groups divide the choices: one for each group of the strategy that selects any, in the
	// strategy's order, then the rest under the name "". Group indexes follow this order. Two may
	// have the same name. None is empty.
	Groups []GroupMembers
	// Length is the maximum number of clusters in a group: 1 to len(Choices), or 0 if nothing is
	// selected.
	Length int
	// SortByScore orders the clusters of a page by rank instead of by name, and publishes scores.
	SortByScore bool
	// DeferScores leaves a page unchanged if only its order or its scores are out of date, because
	// scoreRateLimit does not allow an update yet. A page without scores is written nevertheless.
	DeferScores bool
	// Compact merges groups that the lengths allow to be one: for a strategy that was edited.
	// Otherwise clusters keep their groups.
	Compact bool
	// Queue is the value of the pages' queue annotation; empty leaves the annotation unchanged.
	Queue string
	// Revision is the revision of the change for written pages; 0 leaves it unchanged.
	Revision int64
	// Edited reports whether another writer edited a page, which is then written again; nil for
	// none.
	Edited func(*v1alpha1.PlacementDecision) bool
	// onePage puts every page in a group of its own.
	onePage bool
}

// GroupMembers are the clusters of one group name.
type GroupMembers struct {
	GroupName string
	Choices   []int // indexes into Grouping.Choices, ascending
}

// Strategy is a compiled decision strategy. It is safe for concurrent use.
type Strategy struct {
	groups  []groupSelector
	length  int     // clusters in a group; 0 or less: all
	percent float64 // of the selected clusters; used when byShare
	byShare bool
}

type groupSelector struct {
	name           string
	labels, claims labels.Selector
}

// percentage is the required form of a group length that is a string.
var percentage = regexp.MustCompile(`^[0-9.]+%$`)

var strategyPath = field.NewPath("spec", "decisionStrategy", "groupStrategy")

// Compile validates and compiles a Placement's decision strategy. An error means that the Placement
// is misconfigured.
func Compile(strategy v1alpha1.DecisionStrategy) (*Strategy, *field.Error) {
	s := &Strategy{}
	if err := s.setLength(strategy.GroupStrategy.ClustersPerDecisionGroup); err != nil {
		return nil, err
	}
	for i, g := range strategy.GroupStrategy.DecisionGroups {
		at := strategyPath.Child("decisionGroups").Index(i)
		// Pages have it as a label. Other CRDs than Berth's do not validate it.
		if problems := validation.IsValidLabelValue(g.GroupName); len(problems) > 0 {
			return nil, field.Invalid(at.Child("groupName"), g.GroupName, problems[0])
		}
		byLabel, err := v1alpha1.CompileSelector(&g.ClusterSelector.LabelSelector, at.Child("groupClusterSelector", "labelSelector"))
		if err != nil {
			return nil, err
		}
		byClaim, err := g.ClusterSelector.ClaimSelector.Compile(at.Child("groupClusterSelector", "claimSelector"))
		if err != nil {
			return nil, err
		}
		s.groups = append(s.groups, groupSelector{name: g.GroupName, labels: byLabel, claims: byClaim})
	}
	return s, nil
}

func (s *Strategy) setLength(per intstr.IntOrString) *field.Error {
	if per.Type == intstr.Int {
		s.length = per.IntValue()
		return nil
	}
	share, err := strconv.ParseFloat(strings.TrimSuffix(per.StrVal, "%"), 64)
	if err != nil || !percentage.MatchString(per.StrVal) {
		return field.Invalid(strategyPath.Child("clustersPerDecisionGroup"), per.StrVal, "must be a number of clusters, or a percentage from 1% to 100%")
	}
	s.percent, s.byShare = share, true
	return nil
}

// groupLength is the maximum number of clusters in a group if n are selected. Percentages are
// rounded up with this order of IEEE double operations, as in Open Cluster Management: 14% of 100
// is 15.
func (s *Strategy) groupLength(n int) int {
	length := float64(s.length)
	if s.byShare {
		length = math.Ceil(s.percent / 100 * float64(n))
	}
	if length <= 0 {
		return n
	}
	return int(min(length, float64(n)))
}

// Group divides a selection, whose choices are in rank order.
func (s *Strategy) Group(choices []Choice, sortByScore bool) Grouping {
	a := Grouping{Choices: choices, SortByScore: sortByScore}
	a.Length = len(choices)
	if n := max(a.counted(nil), min(len(choices), 1)); s.groupLength(n) < n || s.length == 1 {
		a.Length = max(s.groupLength(n), 1)
	}
	left := make([]int, len(choices))
	for i := range left {
		left[i] = i
	}
	for _, g := range s.groups {
		var got []int
		rest := left[:0]
		for _, i := range left {
			if g.labels.Matches(labels.Set(choices[i].Labels)) && g.claims.Matches(labels.Set(choices[i].Claims)) {
				got = append(got, i)
			} else {
				rest = append(rest, i)
			}
		}
		left = rest
		if len(got) > 0 {
			a.Groups = append(a.Groups, GroupMembers{GroupName: g.name, Choices: got})
		}
	}
	if len(left) > 0 {
		a.Groups = append(a.Groups, GroupMembers{Choices: left})
	}
	return a
}

// counted returns how many of the choices count for lengths: of all, or of those with an index.
func (a *Grouping) counted(indexes []int) (n int) {
	if indexes == nil {
		for i := range a.Choices {
			if !a.Choices[i].Leaves {
				n++
			}
		}
		return n
	}
	for _, i := range indexes {
		if !a.Choices[i].Leaves {
			n++
		}
	}
	return n
}

// AsPublished divides choices into the groups of the published pages. It is for a Placement whose
// strategy is invalid, so that clusters that stay keep their groups. Clusters on no page form
// groups named "".
func AsPublished(pl *v1alpha1.Placement, published []*v1alpha1.PlacementDecision, choices []Choice, sortByScore bool) Grouping {
	type group struct {
		name  string
		index int
	}
	of, sizes := map[string]group{}, map[group]int{}
	for _, page := range published {
		if !pl.Publishes(page) {
			continue
		}
		g := group{page.Labels[v1alpha1.DecisionGroupNameLabel], indexOf(page.Labels[v1alpha1.DecisionGroupIndexLabel])}
		for _, d := range page.Status.Decisions {
			if _, known := of[d.ClusterName]; !known {
				of[d.ClusterName] = g
				sizes[g]++
			}
		}
	}
	a := Grouping{Choices: choices, Length: min(len(choices), 1), SortByScore: sortByScore}
	byName, first := map[string][]int{}, map[string]int{}
	for i, c := range choices {
		g, listed := of[c.Name]
		if !listed {
			g.index = math.MaxInt
		}
		at, known := first[g.name]
		if !known {
			at = g.index
		}
		first[g.name] = min(at, g.index)
		byName[g.name] = append(byName[g.name], i)
		a.Length = max(a.Length, min(sizes[g], len(choices)))
	}
	for name, all := range byName {
		a.Groups = append(a.Groups, GroupMembers{GroupName: name, Choices: all})
	}
	slices.SortFunc(a.Groups, func(x, y GroupMembers) int {
		return cmp.Or(cmp.Compare(first[x.GroupName], first[y.GroupName]), cmp.Compare(x.GroupName, y.GroupName))
	})
	return a
}
