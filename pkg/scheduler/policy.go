package scheduler

import (
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// scorer is one prioritizer that a Placement weighs.
type scorer struct {
	framework.ScorePlugin
	name   string
	weight int64
	// addOn tells a coordinate from a builtIn of the same name.
	addOn bool
}

// policy says which prioritizers a Placement weighs, in the order it lists them, defaults first.
// spread is the weight of the Spread prioritizer, which the selection applies. A non-nil Status
// names what is misconfigured.
func (p *Profile) policy(pl *v1alpha1.Placement) (scorers []scorer, spread int64, status *framework.Status) {
	policy := pl.Spec.PrioritizerPolicy
	scorers = make([]scorer, 0, len(p.Score)+len(policy.Configurations))
	switch policy.Mode {
	case "", v1alpha1.PrioritizerPolicyModeAdditive:
		for _, s := range p.Score {
			if s.Weight != 0 {
				scorers = append(scorers, scorer{name: s.Name(), ScorePlugin: s.ScorePlugin, weight: int64(s.Weight)})
			}
		}
	case v1alpha1.PrioritizerPolicyModeExact:
	default:
		return nil, 0, misconfigured("incorrect prioritizer policy mode: " + string(policy.Mode))
	}
	for _, c := range policy.Configurations {
		if c.ScoreCoordinate == nil {
			return nil, 0, misconfigured("scoreCoordinate field is required")
		}
		scorers = overlay(scorers, p.scorer(c))
	}
	kept := scorers[:0]
	for _, s := range scorers {
		switch {
		case s.weight == 0:
		case s.name == v1alpha1.PrioritizerSpread && !s.addOn:
			spread = s.weight
		case s.ScorePlugin == nil && s.addOn:
			return nil, 0, misconfigured("addOn should not be empty")
		case s.ScorePlugin == nil:
			return nil, 0, misconfigured("incorrect builtin prioritizer: " + s.name)
		default:
			kept = append(kept, s)
		}
	}
	return kept, spread, nil
}

// scorer resolves one configuration. A BuiltIn ignores a stray addOn block, an AddOn a stray
// builtIn.
func (p *Profile) scorer(c v1alpha1.PrioritizerConfig) scorer {
	s := scorer{weight: int64(v1alpha1.DefaultPrioritizerWeight)}
	if c.Weight != nil {
		s.weight = int64(*c.Weight)
	}
	coordinate := c.ScoreCoordinate
	switch {
	case coordinate.Type == v1alpha1.ScoreCoordinateTypeBuiltIn:
		s.name, s.ScorePlugin = coordinate.BuiltIn, p.score(coordinate.BuiltIn)
		if _, parametric := s.ScorePlugin.(framework.CoordinateScorer); parametric {
			s.ScorePlugin = nil
		}
	case coordinate.AddOn == nil:
		s.addOn = true
	default:
		s.addOn = true
		if addOn, ok := p.score(string(v1alpha1.ScoreCoordinateTypeAddOn)).(framework.CoordinateScorer); ok {
			s.ScorePlugin = addOn.ForAddOn(*coordinate.AddOn)
			s.name = s.Name()
		}
	}
	return s
}

// overlay adds a scorer; of equal coordinates the last weight wins, at the first one's place.
func overlay(scorers []scorer, s scorer) []scorer {
	for i := range scorers {
		if scorers[i].name == s.name && scorers[i].addOn == s.addOn {
			scorers[i] = s
			return scorers
		}
	}
	return append(scorers, s)
}

// misconfigured is the verdict on a mistake in the Placement that no plugin owns.
func misconfigured(message string) *framework.Status {
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, message)
}

// Reads says what the plugins that count for a Placement read of clusters, beside what its spec
// names.
func (s *Scheduler) Reads(pl *v1alpha1.Placement) framework.Reads {
	profile, failure := s.profileOf(pl)
	if failure != nil {
		return framework.Reads{}
	}
	var all framework.Reads
	add := func(plugin framework.Plugin) {
		one := framework.Reads{Everything: true}
		if reader, ok := plugin.(framework.ClusterReader); ok {
			one = reader.Reads(pl)
		}
		all.Labels, all.Claims, all.Scores = append(all.Labels, one.Labels...), append(all.Claims, one.Claims...), append(all.Scores, one.Scores...)
		all.CPU, all.Memory, all.Everything = all.CPU || one.CPU, all.Memory || one.Memory, all.Everything || one.Everything
	}
	for _, plugin := range profile.PreFilter {
		add(plugin)
	}
	for _, plugin := range profile.Filter {
		add(plugin)
	}
	// Where the policy is misconfigured nothing is weighed.
	scorers, _, _ := profile.policy(pl)
	for _, scorer := range scorers {
		if !scorer.addOn {
			add(scorer.ScorePlugin)
		}
	}
	return all
}
