package config

import (
	"slices"
)

// Merge is what runs when a file says user and nothing configured would run defaults.
//
//   - A list of the file changes the defaults, it does not replace them: new names append.
//   - Naming a default again in the list where it is a default replaces it in place. All built-in defaults are in multiPoint.
//   - Disabling a name, or * for all, drops the default from that list, from every list under multiPoint. What the file itself
//     enables in the list stays.
//
// What multiPoint means at each point is for Resolve to say.
func Merge(user, defaults Profile) Profile {
	merged := Profile{Name: user.Name, PluginConfig: slices.Concat(user.PluginConfig, defaults.PluginConfig)}
	everywhere := user.Plugins.MultiPoint.Disabled
	for _, list := range lists {
		*merged.Plugins.at(list) = mergeSet(*user.Plugins.at(list), *defaults.Plugins.at(list), everywhere)
	}
	return merged
}

func mergeSet(user, defaults PluginSet, everywhere []DisabledPlugin) PluginSet {
	merged := PluginSet{Disabled: slices.Concat(user.Disabled, defaults.Disabled)}
	appended := slices.Clone(user.Enabled)
	for _, plugin := range defaults.Enabled {
		if disables(user.Disabled, plugin.Name) || disables(everywhere, plugin.Name) {
			continue
		}
		if i := index(appended, plugin.Name); i >= 0 {
			plugin = appended[i]
			appended = slices.Delete(appended, i, i+1)
		}
		merged.Enabled = append(merged.Enabled, plugin)
	}
	merged.Enabled = append(merged.Enabled, appended...)
	return merged
}

// Resolve is the order in which the plugins of a merged profile run at each point, with the weights
// of score plugins. At a point run
//
//  1. what both the point and multiPoint name, in the point's order: it was moved ahead,
//  2. what only multiPoint names and the point does not disable, where it implements the point,
//  3. what only the point names.
//
// The weight given at score beats the one given under multiPoint.
func Resolve(merged Profile, implements func(name string, point Point) bool) map[Point][]Plugin {
	resolved := map[Point][]Plugin{}
	for _, point := range Points {
		set := merged.Plugins.at(point)
		var ahead, multi, rest []Plugin
		for _, plugin := range merged.Plugins.MultiPoint.Enabled {
			if implements(plugin.Name, point) && !disables(set.Disabled, plugin.Name) {
				multi = append(multi, plugin)
			}
		}
		for _, plugin := range set.Enabled {
			if i := index(multi, plugin.Name); i >= 0 {
				multi = slices.Delete(multi, i, i+1)
				ahead = append(ahead, plugin)
			} else {
				rest = append(rest, plugin)
			}
		}
		order := slices.Concat(ahead, multi, rest)
		for i := range order {
			switch {
			case point != Score:
				order[i].Weight = nil
			case order[i].Weight == nil:
				order[i].Weight = new(int32(DefaultWeight))
			}
		}
		resolved[point] = order
	}
	return resolved
}

func disables(disabled []DisabledPlugin, name string) bool {
	return slices.ContainsFunc(disabled, func(d DisabledPlugin) bool { return d.Name == name || d.Name == All })
}

func index(plugins []Plugin, name string) int {
	return slices.IndexFunc(plugins, func(p Plugin) bool { return p.Name == name })
}
