package assignment

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
)

// configuration is a valid configuration with its resolver of groups.
type configuration struct {
	*queueconfig.Config
	resolver *identity.GroupResolver
}

// Configure applies a configuration in one step. It refuses an invalid one, and one under which a
// queue with Placements could hold none; the current one stays. Without a current one, the error
// of an invalid one becomes the reason why no Placement is admitted.
func (a *Assignments) Configure(text []byte) (warnings []queueconfig.Problem, err error) {
	config, warnings, err := queueconfig.Parse(text)
	next := &configuration{Config: config}
	if err == nil {
		next.resolver, err = identity.NewGroupResolver(config.Resolver, a.options.Now)
	}
	a.update(func() []Key {
		a.refused = nil
		switch {
		case err == nil:
			if a.config != nil {
				err = a.blocked(config.Tree)
			}
			if err == nil {
				return a.apply(next)
			}
			a.refused = next
		case a.config == nil:
			a.problem = tenancy.Bound(err.Error())
			return slices.Collect(maps.Keys(a.placements))
		}
		return nil
	})
	return warnings, err
}

// apply makes a configuration the current one.
func (a *Assignments) apply(next *configuration) (affected []Key) {
	var old *tenancy.Tree
	if a.config != nil {
		old = a.config.Tree
		for _, s := range a.placements {
			a.endLeft(s)
		}
	}
	a.members.Reconfigure(old, next.Tree)
	a.config, a.problem, a.resolver = next.Config, "", next.resolver
	maps.Copy(a.pending, a.placements)
	return slices.Collect(maps.Keys(a.placements))
}

// applyRefused applies the refused configuration when the Placements that it was refused for have
// left their queues.
func (a *Assignments) applyRefused() (affected []Key) {
	if a.refused == nil || !a.left {
		return nil
	}
	a.left = false
	next := a.refused
	if a.blocked(next.Tree) != nil {
		return nil
	}
	a.refused = nil
	return a.apply(next)
}

// Unconfigured stores why there is no configuration. An earlier valid configuration stays.
func (a *Assignments) Unconfigured(why string) {
	a.update(func() []Key {
		a.refused = nil
		if a.config != nil || a.problem == why {
			return nil
		}
		a.problem = why
		return slices.Collect(maps.Keys(a.placements))
	})
}

// blocked returns an error if queues with Placements could hold none under a configuration.
func (a *Assignments) blocked(tree *tenancy.Tree) error {
	counts := map[string]int{}
	for _, s := range a.placements {
		if s.app == nil {
			continue
		}
		if why := cannotHold(tree, s.annotation); why != "" {
			counts[why]++
		}
	}
	if len(counts) == 0 {
		return nil
	}
	problems := make(queueconfig.Problems, 0, len(counts))
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		problems = append(problems, queueconfig.Problem{Message: tenancy.Messagef("%s: Placements that would lose their queue: %d", tenancy.Part(why), counts[why])})
	}
	return problems
}

// cannotHold returns why the queue of an annotation could hold no Placement under a configuration;
// empty if it could. A removed queue drains, a configured one must be a leaf, and a dynamic one
// must not be below a leaf.
func cannotHold(tree *tenancy.Tree, r annotation) string {
	if q := tree.Queue(r.Queue); q != nil {
		if !q.Leaf() {
			return tenancy.Messagef("queue %s is a parent in the configuration, and only leaves hold Placements", r.Queue)
		}
		return ""
	}
	if nearest := tree.Nearest(r.Queue); nearest.Leaf() && !removed(tree, r) {
		return tenancy.Messagef("queue %s is a leaf in the configuration, so there can be no queue %s; parent: true makes it a parent", nearest.Name, r.Queue)
	}
	return ""
}

// removed is true if the queue of an annotation, or one above it, was configured and no longer is.
func removed(tree *tenancy.Tree, r annotation) bool {
	return r.Configured != "" && tree.Queue(r.Configured) == nil
}
