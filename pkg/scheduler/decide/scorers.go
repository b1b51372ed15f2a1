package decide

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// scorer is one prioritizer with the weight that a Placement gives it.
type scorer struct {
	framework.ScorePlugin
	name   string
	weight int64
	// configuration is the prioritizer's index in the Placement's list, unless it is a default.
	configuration int
	// addOn is true for an AddOn coordinate, whose name may equal that of a BuiltIn.
	addOn bool
}

var policyPath = field.NewPath("spec", "prioritizerPolicy")

// coordinatePath is the path of the field that names the prioritizer of a configuration.
func coordinatePath(i int) *field.Path {
	return policyPath.Child("configurations").Index(i).Child("scoreCoordinate")
}

// scorersFor returns the prioritizers of a Placement with a weight other than 0: the defaults, then
// those that it lists, in its order. spread is the weight of the Spread prioritizer, which the
// selection applies. The error is a mistake of the Placement.
func scorersFor(p *plugins.Profile, pl *v1alpha1.Placement) (scorers []scorer, spread int64, mistake *field.Error) {
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
		return nil, 0, field.NotSupported(policyPath.Child("mode"), policy.Mode,
			[]v1alpha1.PrioritizerPolicyModeType{v1alpha1.PrioritizerPolicyModeAdditive, v1alpha1.PrioritizerPolicyModeExact})
	}
	for i, c := range policy.Configurations {
		if c.ScoreCoordinate == nil {
			return nil, 0, field.Required(coordinatePath(i), "name a prioritizer, for example {type: BuiltIn, builtIn: Steady}")
		}
		s, failure := scorerFor(p, c, i)
		if failure != nil {
			return nil, 0, field.InternalError(coordinatePath(i), failure)
		}
		scorers = addOrReplace(scorers, s)
	}
	kept := scorers[:0]
	for _, s := range scorers {
		switch {
		case s.weight == 0:
		case s.name == v1alpha1.PrioritizerSpread && !s.addOn:
			spread = s.weight
		case s.ScorePlugin == nil && s.addOn:
			return nil, 0, field.Required(coordinatePath(s.configuration).Child("addOn"), "addOn is required when type is AddOn")
		case s.ScorePlugin == nil:
			return nil, 0, field.NotSupported(coordinatePath(s.configuration).Child("builtIn"), s.name, builtIns(p))
		default:
			kept = append(kept, s)
		}
	}
	return kept, spread, nil
}

// scorerFor resolves one configuration. A BuiltIn ignores the field addOn, an AddOn the field
// builtIn. The error is a panic of the plugin.
func scorerFor(p *plugins.Profile, c v1alpha1.PrioritizerConfig, i int) (scorer, error) {
	s := scorer{weight: int64(ptr.Deref(c.Weight, v1alpha1.DefaultPrioritizerWeight)), configuration: i}
	coordinate := c.ScoreCoordinate
	switch {
	case coordinate.Type == v1alpha1.ScoreCoordinateTypeBuiltIn:
		s.name, s.ScorePlugin = coordinate.BuiltIn, p.ScorePlugin(coordinate.BuiltIn)
		if !isListable(p, s.ScorePlugin) {
			s.ScorePlugin = nil
		}
	case coordinate.AddOn == nil:
		s.addOn = true
	default:
		s.addOn = true
		const name = string(v1alpha1.ScoreCoordinateTypeAddOn)
		if addOn, forAddOn := p.ScorePlugin(name), p.Traits(name).ForAddOn; addOn != nil && forAddOn != nil {
			failure := plugins.Call(context.Background(), "ForAddOn", addOn, func() *framework.Status {
				s.ScorePlugin = forAddOn(*coordinate.AddOn)
				s.name = s.Name()
				return nil
			})
			return s, failure.Err()
		}
	}
	return s, nil
}

// isListable reports whether a Placement can list the plugin as a BuiltIn.
func isListable(p *plugins.Profile, plugin framework.ScorePlugin) bool {
	return plugin != nil && p.Traits(plugin.Name()).ForAddOn == nil && plugin.Name() != berthv1alpha1.PrioritizerPreference
}

// builtIns returns the names that a BuiltIn coordinate may have.
func builtIns(p *plugins.Profile) []string {
	names := []string{v1alpha1.PrioritizerSpread}
	for _, s := range p.Score {
		if isListable(p, s.ScorePlugin) {
			names = append(names, s.Name())
		}
	}
	slices.Sort(names)
	return names
}

// addOrReplace appends a scorer, or replaces the one with the same coordinate in place.
func addOrReplace(scorers []scorer, s scorer) []scorer {
	for i := range scorers {
		if scorers[i].name == s.name && scorers[i].addOn == s.addOn {
			scorers[i] = s
			return scorers
		}
	}
	return append(scorers, s)
}

// Reads returns the properties of clusters that a Placement's plugins read, beside those that its
// spec names.
func (s *Decider) Reads(pl *v1alpha1.Placement) framework.Reads {
	profile, failure := s.ProfileOf(pl)
	if failure != nil {
		return framework.Reads{}
	}
	var all framework.Reads
	add := func(plugin framework.Plugin) {
		one := framework.Reads{Everything: true}
		if reader, ok := plugin.(framework.ClusterReader); ok {
			plugins.Call(context.Background(), "Reads", plugin, func() *framework.Status {
				one = reader.Reads(pl)
				return nil
			})
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
	for _, plugin := range profile.PostFilter {
		if profile.Traits(plugin.Name()).ReportSelection != nil {
			add(plugin)
		}
	}
	// There are no scorers if the policy is misconfigured, or if a plugin panics.
	scorers, _, _ := scorersFor(profile, pl)
	for _, scorer := range scorers {
		if !scorer.addOn {
			add(scorer.ScorePlugin)
		}
	}
	return all
}
