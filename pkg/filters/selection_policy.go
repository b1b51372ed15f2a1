package filters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// SelectionPolicyName is the plugin's name.
const SelectionPolicyName = "SelectionPolicy"

// SelectionPolicy excludes clusters that the Placement's SelectionPolicy excludes by name, and
// clusters in none of its tiers. It also finds the clusters of groups and preferences, so a
// Placement with a SelectionPolicy is misconfigured if its profile does not have the plugin.
//
// It has the limits and the caches of Predicate. See framework.PolicyMatches.
type SelectionPolicy struct {
	*matcher
	compiled map[types.NamespacedName]*compiledPolicy

	// preparing protects prepared, the results of PreparePolicy; all other fields are used only in
	// cycles, which are serial.
	preparing sync.Mutex
	prepared  map[types.NamespacedName]*preparedPolicy
}

// preparedPolicy is a policy that was compiled outside a cycle.
type preparedPolicy struct {
	uid        types.UID
	generation int64
	compiled   *compiledPolicy
}

// compiledPolicy is a compiled SelectionPolicy and what it matches.
type compiledPolicy struct {
	uid  types.UID
	spec *berthv1alpha1.SelectionPolicySpec
	// mistake is why the policy is invalid; nil if it is valid.
	mistake *field.Error

	include, exclude           map[string]bool // include is nil if all are included
	names                      *matchCache
	tiers, groups, preferences []*selectorMatches
}

// NewSelectionPolicy is the plugin's factory.
func NewSelectionPolicy(_ context.Context, _ json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	return &SelectionPolicy{matcher: newMatcher(handle), compiled: map[types.NamespacedName]*compiledPolicy{}, prepared: map[types.NamespacedName]*preparedPolicy{}}, nil
}

// Name implements framework.Plugin.
func (*SelectionPolicy) Name() string { return SelectionPolicyName }

// Describe implements framework.Describer.
func (p *SelectionPolicy) Describe() framework.Traits {
	return framework.Traits{
		PolicyMistakes: true, ForcesRemoval: neverForced,
		ValidatePolicy: p.ValidatePolicy, PolicyPrepared: p.PolicyPrepared, PreparePolicy: p.PreparePolicy,
	}
}

// Reads implements framework.ClusterReader: the policy names it all.
func (*SelectionPolicy) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// Forget implements framework.Forgetter.
func (p *SelectionPolicy) Forget(key types.NamespacedName) {
	p.drop(key)
	p.preparing.Lock()
	defer p.preparing.Unlock()
	delete(p.prepared, key)
}

func (p *SelectionPolicy) drop(key types.NamespacedName) {
	if c := p.compiled[key]; c != nil {
		delete(p.compiled, key)
		p.takeBack(key)
		for _, s := range c.selectors() {
			p.release(s)
		}
	}
}

func (c *compiledPolicy) selectors() []*selectorMatches {
	return slices.Concat(c.tiers, c.groups, c.preferences)
}

// PreFilter rejects policies that are invalid and returns the clusters that pass.
func (p *SelectionPolicy) PreFilter(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	policies := state.Snapshot().Subject.SelectionPolicies
	if len(policies) != 1 && !state.Snapshot().Trial {
		p.Forget(nameOf(pl))
	}
	switch {
	case len(policies) == 0:
		return nil, skip
	case len(policies) > 1:
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf(
			"the SelectionPolicies %s name the Placement: it can have one", oldestNames(policies)))
	}
	c := p.of(state, policies[0])
	if c == nil {
		state.RequeueAt(state.Snapshot().Now.Add(slicePause))
		return nil, framework.Unfinished("the selectors of the SelectionPolicy are still being compiled")
	}
	mistake := c.mistake
	if mistake == nil {
		mistake = tooManyMinima(c.spec, pl)
	}
	if mistake != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "SelectionPolicy "+policies[0].Name+": "+mistake.Error())
	}
	return p.match(ctx, state, c)
}

// oldestNames names the oldest three policies, so that the text does not change with each of very
// many.
func oldestNames(policies []*berthv1alpha1.SelectionPolicy) string {
	oldest := slices.Clone(policies)
	slices.SortStableFunc(oldest, func(a, b *berthv1alpha1.SelectionPolicy) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	names := make([]string, 0, 3)
	for _, policy := range oldest[:min(len(oldest), cap(names))] {
		names = append(names, policy.Name)
	}
	slices.Sort(names)
	if len(oldest) > len(names) {
		return strings.Join(names, ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

// match brings all matches up to date.
func (p *SelectionPolicy) match(ctx context.Context, state *framework.CycleState, c *compiledPolicy) (*framework.PreFilterResult, *framework.Status) {
	matches := &framework.PolicyMatches{}
	for _, list := range []struct {
		to        *[]framework.Bitset
		selectors []*selectorMatches
		exclusive bool
	}{{&matches.Tiers, c.tiers, true}, {&matches.Groups, c.groups, true}, {&matches.Preferences, c.preferences, false}} {
		var earlier framework.Bitset
		for _, s := range list.selectors {
			matched, status := p.update(ctx, state, s)
			if status != nil {
				return nil, status
			}
			if list.exclusive {
				own := matched.Without(earlier)
				matched, earlier = own, earlier.Or(matched)
			}
			*list.to = append(*list.to, matched)
		}
	}
	state.Write(framework.PolicyMatchesKey, matches)
	if len(c.tiers) == 0 && !c.restrictsNames() {
		return nil, skip
	}
	passed := state.Snapshot().Candidates().Clone()
	if len(c.tiers) > 0 {
		var tiers framework.Bitset
		for _, tier := range matches.Tiers {
			tiers = tiers.Or(tier)
		}
		passed.And(tiers)
	}
	if c.restrictsNames() {
		if !c.names.update(state.Snapshot(), func(cluster *framework.Cluster) bool { return c.nameProblem(cluster.Name) == "" }, state.ShouldPause) {
			state.RequeueAt(state.Snapshot().Now.Add(shortPause))
			return nil, unfinishedEvaluation()
		}
		passed.And(c.names.matches)
	}
	return &framework.PreFilterResult{Clusters: passed, SkipFilter: true}, nil
}

func (c *compiledPolicy) restrictsNames() bool { return c.include != nil || len(c.exclude) > 0 }

// nameProblem returns why a name does not pass; empty if it passes.
func (c *compiledPolicy) nameProblem(name string) string {
	switch {
	case c.exclude[name]:
		return "in clusterNames.exclude"
	case c.include != nil && len(c.include) == 0:
		return "not in the empty clusterNames.include"
	case c.include != nil && !c.include[name]:
		return "not in clusterNames.include"
	}
	return ""
}

// Filter returns the reason why a cluster does not pass.
func (p *SelectionPolicy) Filter(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	policy, c := state.Snapshot().Subject.SelectionPolicy(), p.compiled[nameOf(pl)]
	if policy == nil || c == nil {
		return nil
	}
	if problem := c.nameProblem(cluster.Name); problem != "" {
		return framework.NewStatus(framework.Unschedulable, problem+" of SelectionPolicy "+policy.Name)
	}
	if len(c.tiers) > 0 {
		var mismatches []string
		for i, s := range c.tiers {
			mismatch := s.predicates[0].mismatch(ctx, state.Snapshot(), cluster)
			if mismatch == "" {
				return nil
			}
			mismatches = append(mismatches, "tier "+c.spec.Tiers[i].Name+": "+mismatch)
		}
		return framework.NewStatus(framework.Unschedulable, "in no tier of SelectionPolicy "+policy.Name+": "+strings.Join(mismatches, "; "))
	}
	return nil
}

// of returns the compiled policy of the Placement; nil if there was not enough time to compile it.
// A trial gets its own copy.
func (p *SelectionPolicy) of(state *framework.CycleState, policy *berthv1alpha1.SelectionPolicy) *compiledPolicy {
	key, trial := state.Snapshot().Subject.Key(), state.Snapshot().Trial
	c := p.compiled[key]
	known := c != nil && c.uid == policy.UID && (c.spec == &policy.Spec || c.spec.Equal(&policy.Spec))
	switch {
	case known && trial:
		return p.trial(key, c)
	case known:
		c.spec = &policy.Spec
		return c
	}
	if p.isExpensive(policy) && !trial {
		c = p.preparedForm(policy)
	} else {
		c = compilePolicy(policy, state.ShouldPause)
	}
	if c == nil || trial {
		return c
	}
	p.drop(key)
	for _, s := range c.selectors() {
		p.share(s)
	}
	p.compiled[key] = c
	return c
}

// isExpensive reports whether only PreparePolicy compiles a policy.
func (p *SelectionPolicy) isExpensive(policy *berthv1alpha1.SelectionPolicy) bool {
	if !p.prepares {
		return false
	}
	n := 0
	for _, s := range selectorsOf(&policy.Spec) {
		if n += 1 + requirementsAndValues(s.ClusterSelector); n > freeRequirements || len(s.CelSelector.CelExpressions) > 0 {
			return true
		}
	}
	return false
}

// preparedForm returns nil if PreparePolicy has not compiled the policy yet.
func (p *SelectionPolicy) preparedForm(policy *berthv1alpha1.SelectionPolicy) *compiledPolicy {
	p.preparing.Lock()
	defer p.preparing.Unlock()
	c := p.prepared[placementOf(policy)]
	if c == nil || c.uid != policy.UID || c.generation != policy.Generation {
		return nil
	}
	return c.compiled
}

// PolicyPrepared is that of framework.Traits.
func (p *SelectionPolicy) PolicyPrepared(policy *berthv1alpha1.SelectionPolicy) bool {
	return p.isCompiled(policy) && !p.hasCostlyWork(placementOf(policy))
}

func (p *SelectionPolicy) isCompiled(policy *berthv1alpha1.SelectionPolicy) bool {
	return !p.isExpensive(policy) || p.preparedForm(policy) != nil
}

func placementOf(policy *berthv1alpha1.SelectionPolicy) types.NamespacedName {
	return types.NamespacedName{Namespace: policy.Namespace, Name: policy.Spec.Placement}
}

// PreparePolicy is that of framework.Traits.
func (p *SelectionPolicy) PreparePolicy(policy *berthv1alpha1.SelectionPolicy, yield func() bool) (done bool) {
	p.evaluateOutside(placementOf(policy), policy, yield)
	if p.isCompiled(policy) {
		return true
	}
	c := compilePolicy(policy, yield)
	if c == nil {
		return false
	}
	p.preparing.Lock()
	defer p.preparing.Unlock()
	p.prepared[placementOf(policy)] = &preparedPolicy{policy.UID, policy.Generation, c}
	return true
}

func (p *SelectionPolicy) trial(key types.NamespacedName, c *compiledPolicy) *compiledPolicy {
	own := *c
	own.names = c.names.clone()
	for _, list := range []*[]*selectorMatches{&own.tiers, &own.groups, &own.preferences} {
		copied := make([]*selectorMatches, len(*list))
		for i, s := range *list {
			copied[i] = p.matcher.trial(key, s)
		}
		*list = copied
	}
	return &own
}

// compilePolicy returns nil if yield returns true before all is compiled.
func compilePolicy(policy *berthv1alpha1.SelectionPolicy, yield func() bool) *compiledPolicy {
	spec := &policy.Spec
	c := &compiledPolicy{uid: policy.UID, spec: spec, include: setOf(spec.ClusterNames.Include), exclude: setOf(spec.ClusterNames.Exclude), names: &matchCache{}}
	if c.mistake = policyMistake(spec); c.mistake != nil {
		return c
	}
	predicates, err := compileSelectors(selectorsOf(spec), field.NewPath("spec"), "the policy", yield)
	switch {
	case errors.Is(err, errYielded):
		return nil
	case err != nil:
		errors.As(err, &c.mistake)
		return c
	}
	matches := make([]*selectorMatches, len(predicates))
	for i := range predicates {
		matches[i] = newSelectorMatches(predicates[i : i+1])
	}
	groups := len(spec.Tiers) + len(spec.Groups)
	c.tiers, c.groups, c.preferences = matches[:len(spec.Tiers)], matches[len(spec.Tiers):groups], matches[groups:]
	return c
}

// selectorsOf returns the selectors of tiers, groups and preferences.
func selectorsOf(spec *berthv1alpha1.SelectionPolicySpec) []located {
	var all []located
	add := func(list string, i int, s *v1alpha1.ClusterSelector) {
		all = append(all, located{s, field.NewPath("spec", list).Index(i).Child("clusterSelector")})
	}
	for i := range spec.Tiers {
		add("tiers", i, &spec.Tiers[i].ClusterSelector)
	}
	for i := range spec.Groups {
		add("groups", i, &spec.Groups[i].ClusterSelector)
	}
	for i := range spec.Preferences {
		add("preferences", i, &spec.Preferences[i].ClusterSelector)
	}
	return all
}

// setOf returns a set of names; nil for nil.
func setOf(names []string) map[string]bool {
	if names == nil {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// Recheck implements framework.Rechecker. Without a policy, all clusters pass.
func (*SelectionPolicy) Recheck(state *framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	return nil, len(state.Snapshot().Subject.SelectionPolicies) == 0
}
