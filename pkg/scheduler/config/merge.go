package config

import (
	"slices"
)

// Merge returns the profile of a file, merged with the default profile:
//
//   - A list in the file changes the default list and does not replace it. New plugins come last.
//   - A default that the file lists in the same list keeps its position, with the weight from the
//     file. All built-in defaults are in multiPoint.
//   - A disabled name, or * for all, removes the default from that list; in multiPoint, from every
//     list. Plugins that the file enables in the list stay.
//
// Resolve then computes the plugins of each extension point.
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

// Resolve returns the plugins of a merged profile by extension point, in the order in which they
// run, with the weights of score plugins. An extension point runs first the plugins that both its
// list and multiPoint name, in the order of its list; then those that only multiPoint names, if
// they implement the extension point and its list does not disable them; then those that only its
// list names. The weight in score has precedence over the weight in multiPoint.
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
