package golden

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// must is the expected result for one Placement.
type must struct {
	placement *v1alpha1.Placement
	// own are the Placement's current pages, and published the clusters on them.
	own       []*v1alpha1.PlacementDecision
	published map[string]bool
	// taken are the names of other Placements' pages in the namespace.
	taken map[string]bool

	skipped       string
	misconfigured bool
	// celUnknown: it is unknown whether the CEL expressions compile. unknown: it is also unknown
	// what they select.
	celUnknown, unknown bool

	available, matched, feasible []string
	parts                        map[string]part
	scores                       map[string]int64
	ranking                      []string
	// chosen is nil if only the Spread prioritizer determines it.
	chosen            map[string]bool
	satisfied, reason string
	requeue           *float64
	// groups are the selected clusters by the group that takes them, and length is the maximum
	// length of a group.
	groups map[string]map[string]bool
	length int
}

// decide derives the result from the documented rules. From the recording it uses only what CEL
// predicates select.
func decide(w *world, key types.NamespacedName, recorded *expected) *must {
	m := &must{placement: w.placements[key], published: map[string]bool{}, taken: map[string]bool{}}
	m.readPages(w)
	switch {
	case m.placement.DeletionTimestamp != nil:
		m.skipped = "terminating"
		return m
	case m.placement.Annotations["cluster.open-cluster-management.io/experimental-scheduling-disable"] == "true":
		m.skipped = "disabled"
		return m
	}
	if m.misconfigured = validate(m.placement) != nil; m.misconfigured {
		return m
	}
	bound, eligible, candidates := candidatesOf(w, m.placement)
	m.available = names(candidates)
	matched := m.match(candidates, recorded)
	m.matched = names(matched)
	if m.misconfigured || m.unknown {
		return m
	}
	spec := &m.placement.Spec
	lesser := map[string]bool{}
	feasible := slices.DeleteFunc(slices.Clone(matched), func(c *v1alpha1.ManagedCluster) bool {
		t := tolerate(c, spec, w.now, m.published[c.Name])
		lesser[c.Name] = t.lesser
		return t.excluded
	})
	m.feasible = names(feasible)
	timers := m.score(w, feasible)
	m.rank(lesser)
	short := m.selectClusters(feasible)
	for _, c := range feasible {
		if t := tolerate(c, spec, w.now, true); m.chosen[c.Name] && t.seconds != nil {
			timers = append(timers, *t.seconds)
		}
	}
	if len(timers) > 0 {
		m.requeue = new(slices.Min(timers))
	}
	m.satisfied, m.reason = m.satisfaction(len(bound), len(eligible), short)
	m.group(w)
	return m
}

func (m *must) readPages(w *world) {
	for _, p := range w.pages {
		owner, labelled := p.Labels[v1alpha1.PlacementLabel]
		switch {
		case p.Namespace != m.placement.Namespace:
		case labelled && owner == m.placement.Name:
			m.own = append(m.own, p)
			for _, d := range p.Status.Decisions {
				m.published[d.ClusterName] = true
			}
		case labelled:
			m.taken[p.Name] = true
		}
	}
	slices.SortFunc(m.own, func(a, b *v1alpha1.PlacementDecision) int { return cmp.Compare(a.Name, b.Name) })
}

// entries are all published entries, with repetitions.
func (m *must) entries() []string {
	var all []string
	for _, p := range m.own {
		for _, d := range p.Status.Decisions {
			all = append(all, d.ClusterName)
		}
	}
	return all
}

// validate finds the errors that need no CEL engine.
func validate(pl *v1alpha1.Placement) error {
	spec := &pl.Spec
	if len(pl.Name) > 63 || spec.NumberOfClusters != nil && *spec.NumberOfClusters < 0 {
		return errMisconfigured
	}
	if _, _, err := predicatesOf(spec); err != nil {
		return err
	}
	if err := checkTolerations(spec); err != nil {
		return err
	}
	if _, err := coordinatesOf(spec); err != nil {
		return err
	}
	for _, g := range spec.DecisionStrategy.GroupStrategy.DecisionGroups {
		if _, err := newClusterSelector(g.ClusterSelector.LabelSelector, g.ClusterSelector.ClaimSelector); err != nil {
			return err
		}
	}
	_, err := groupLength(spec, 1)
	return err
}

// candidatesOf returns the members of the sets that are bound, by a binding of their own name, and
// requested.
func candidatesOf(w *world, pl *v1alpha1.Placement) (bound, eligible map[string]bool, candidates []*v1alpha1.ManagedCluster) {
	bound, eligible = map[string]bool{}, map[string]bool{}
	for _, b := range w.bindings {
		if b.Namespace != pl.Namespace || w.sets[b.Name] == nil || b.Spec.ClusterSet != "" && b.Spec.ClusterSet != b.Name {
			continue
		}
		bound[b.Name] = true
		if len(pl.Spec.ClusterSets) == 0 || slices.Contains(pl.Spec.ClusterSets, b.Name) {
			eligible[b.Name] = true
		}
	}
	members := map[string]*v1alpha1.ManagedCluster{}
	for name := range eligible {
		isMember := memberOf(w.sets[name])
		for _, c := range w.clusters {
			if c.DeletionTimestamp == nil && isMember(c) {
				members[c.Name] = c
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		candidates = append(candidates, members[name])
	}
	return bound, eligible, candidates
}

// match applies the predicates. For CEL it uses the recording.
func (m *must) match(candidates []*v1alpha1.ManagedCluster, recorded *expected) []*v1alpha1.ManagedCluster {
	predicates, cel, err := predicatesOf(&m.placement.Spec)
	if err != nil {
		m.misconfigured = true
		return nil
	}
	if !cel {
		return slices.DeleteFunc(slices.Clone(candidates), func(c *v1alpha1.ManagedCluster) bool {
			return len(predicates) > 0 && !slices.ContainsFunc(predicates, func(s clusterSelector) bool { return s.matches(c) })
		})
	}
	if recorded.code() == "Misconfigured" && recorded.ScheduleStatus.Plugin == "Predicate" {
		m.misconfigured = true
		return nil
	}
	m.celUnknown = len(candidates) == 0
	if len(recorded.FilterResults) == 0 || !slices.Equal(m.available, recorded.AvailableClusters) {
		m.unknown = true
		return nil
	}
	return slices.DeleteFunc(slices.Clone(candidates), func(c *v1alpha1.ManagedCluster) bool {
		return !slices.Contains(recorded.FilterResults[0].Clusters, c.Name)
	})
}

// score fills in parts and totals, and returns when scores expire.
func (m *must) score(w *world, feasible []*v1alpha1.ManagedCluster) (expiring []float64) {
	m.parts, m.scores = map[string]part{}, map[string]int64{}
	for _, c := range feasible {
		m.scores[c.Name] = 0
	}
	s := &scoring{world: w, feasible: feasible, own: m.own, published: m.published}
	coordinates, _ := coordinatesOf(&m.placement.Spec)
	for _, c := range coordinates {
		if c.name == "Spread" {
			continue
		}
		scores := s.of(c)
		m.parts[c.name] = part{Weight: c.weight, Scores: scores}
		for name, x := range scores {
			m.scores[name] += c.weight * x
		}
	}
	return s.expiring
}

func (m *must) rank(lesser map[string]bool) {
	m.ranking = slices.SortedFunc(maps.Keys(m.scores), func(a, b string) int {
		if lesser[a] != lesser[b] {
			return map[bool]int{true: 1, false: -1}[lesser[a]]
		}
		return cmp.Or(cmp.Compare(m.scores[b], m.scores[a]), strings.Compare(a, b))
	})
}

func (m *must) selectClusters(feasible []*v1alpha1.ManagedCluster) (short bool) {
	k := len(m.ranking)
	if n := m.placement.Spec.NumberOfClusters; n != nil {
		k = min(k, int(*n))
	}
	terms := m.placement.Spec.SpreadPolicy.SpreadConstraints
	coordinates, _ := coordinatesOf(&m.placement.Spec)
	switch {
	case len(terms) == 0:
		m.chosen = setOf(m.ranking[:k])
	case slices.ContainsFunc(coordinates, func(c coordinate) bool { return c.name == "Spread" }):
		return false
	default:
		m.chosen, short = newSpreader(terms, feasible).pick(m.ranking, k)
	}
	return short
}

func (m *must) satisfaction(bound, eligible int, short bool) (status, reason string) {
	wanted := m.placement.Spec.NumberOfClusters
	switch {
	case bound == 0:
		return "False", "NoManagedClusterSetBindings"
	case eligible == 0:
		return "False", "NoIntersection"
	case len(m.available) == 0:
		return "False", "AllManagedClusterSetsEmpty"
	case wanted != nil && *wanted == 0:
		return "True", "AllDecisionsScheduled"
	case short:
		return "False", "SpreadUnsatisfiable"
	case len(m.chosen) == 0:
		return "False", "NoManagedClusterMatched"
	case wanted == nil || int(*wanted) == len(m.chosen):
		return "True", "AllDecisionsScheduled"
	}
	return "False", "NotAllDecisionsScheduled"
}

// group assigns clusters to the groups in the order of the spec; the remaining clusters have no
// group name.
func (m *must) group(w *world) {
	m.length, _ = groupLength(&m.placement.Spec, len(m.chosen))
	m.groups = map[string]map[string]bool{}
	left := maps.Clone(m.chosen)
	claim := func(name string, matches func(*v1alpha1.ManagedCluster) bool) {
		for c := range left {
			if !matches(w.clusters[c]) {
				continue
			}
			delete(left, c)
			if m.groups[name] == nil {
				m.groups[name] = map[string]bool{}
			}
			m.groups[name][c] = true
		}
	}
	for _, g := range m.placement.Spec.DecisionStrategy.GroupStrategy.DecisionGroups {
		if s, err := newClusterSelector(g.ClusterSelector.LabelSelector, g.ClusterSelector.ClaimSelector); err == nil {
			claim(g.GroupName, s.matches)
		}
	}
	claim("", func(*v1alpha1.ManagedCluster) bool { return true })
}

var percentage = regexp.MustCompile(`^([0-9.]+)%$`)

func groupLength(spec *v1alpha1.PlacementSpec, total int) (int, error) {
	per := spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup
	length := float64(per.IntVal)
	if per.Type == intstr.String {
		text := percentage.FindStringSubmatch(per.StrVal)
		if text == nil {
			return 0, errMisconfigured
		}
		share, err := strconv.ParseFloat(text[1], 64)
		if err != nil {
			return 0, errMisconfigured
		}
		length = math.Ceil(share / 100 * float64(total))
	}
	if length <= 0 || length > float64(total) {
		return total, nil
	}
	return int(length), nil
}

func names(clusters []*v1alpha1.ManagedCluster) []string {
	list := make([]string, 0, len(clusters))
	for _, c := range clusters {
		list = append(list, c.Name)
	}
	return list
}

func setOf(list []string) map[string]bool {
	set := map[string]bool{}
	for _, x := range list {
		set[x] = true
	}
	return set
}
