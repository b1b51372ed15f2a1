package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var rangeOfWeights = fmt.Sprintf(" from %d to %d", MinWeight, MaxWeight)

// validate returns the mistakes that do not depend on the plugins.
func validate(c *PlacementSchedulerConfiguration) (mistakes field.ErrorList) {
	mistakes = validateSources(c.ReadinessSources)
	names := map[string]bool{}
	for i := range c.Profiles {
		p, at := &c.Profiles[i], profileAt(i)
		mistakes = append(mistakes, checkUnique(names, at.Child("name"), p.Name)...)
		for _, list := range lists {
			mistakes = append(mistakes, validateSet(at.Child("plugins", string(list)), list, p.Plugins.at(list))...)
		}
		configured := map[string]bool{}
		for j, pc := range p.PluginConfig {
			mistakes = append(mistakes, checkUnique(configured, at.Child("pluginConfig").Index(j).Child("name"), pc.Name)...)
		}
	}
	return mistakes
}

// validateSources finds mistakes in readiness sources, except those in expressions.
func validateSources(sources []ReadinessSource) (mistakes field.ErrorList) {
	names := map[string]bool{}
	for i, s := range sources {
		at := field.NewPath("readinessSources").Index(i)
		mistakes = append(mistakes, checkUnique(names, at.Child("name"), s.Name)...)
		for _, why := range validation.IsDNS1123Label(s.Name) {
			if s.Name != "" {
				mistakes = append(mistakes, field.Invalid(at.Child("name"), s.Name, why))
			}
		}
		if s.Name == ClusterSource {
			mistakes = append(mistakes, field.Forbidden(at.Child("name"), "the built-in source cluster cannot be replaced"))
		}
		if version, err := schema.ParseGroupVersion(s.APIVersion); err != nil || version.Version == "" {
			mistakes = append(mistakes, field.Invalid(at.Child("apiVersion"), s.APIVersion, "must be a group and a version, for example argoproj.io/v1alpha1"))
		}
		if s.Kind == "" {
			mistakes = append(mistakes, field.Required(at.Child("kind"), ""))
		}
		mistakes = append(mistakes, validateNamespace(s, at)...)
		if s.Ready == "" {
			mistakes = append(mistakes, field.Required(at.Child("ready"), ""))
		}
		mistakes = append(mistakes, metav1validation.ValidateLabelSelector(s.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
	}
	return mistakes
}

// validateNamespace finds mistakes in the fields that depend on where the objects of a source are.
func validateNamespace(s ReadinessSource, at *field.Path) (mistakes field.ErrorList) {
	label := at.Child("placementNamespaceLabel")
	switch s.Namespace {
	case PlacementNamespace:
		if s.Cluster == "" {
			mistakes = append(mistakes, field.Required(at.Child("cluster"), "with namespace placement"))
		}
		if s.PlacementNamespaceLabel != "" {
			mistakes = append(mistakes, field.Forbidden(label, "with namespace placement, the objects are in the Placement's namespace"))
		}
	case ClusterNamespace:
		if s.Cluster != "" {
			mistakes = append(mistakes, field.Forbidden(at.Child("cluster"), "with namespace cluster, the namespace is the cluster"))
		}
		if s.PlacementNamespaceLabel == "" {
			mistakes = append(mistakes, field.Required(label, "with namespace cluster: an object counts only for Placements in the namespace that this label gives"))
		} else {
			mistakes = append(mistakes, metav1validation.ValidateLabelName(s.PlacementNamespaceLabel, label)...)
		}
	default:
		mistakes = append(mistakes, field.NotSupported(at.Child("namespace"), s.Namespace, []string{PlacementNamespace, ClusterNamespace}))
	}
	return mistakes
}

func validateSet(at *field.Path, list Point, set *PluginSet) (mistakes field.ErrorList) {
	enabled := map[string]bool{}
	for i, plugin := range set.Enabled {
		at := at.Child("enabled").Index(i)
		if plugin.Name == All {
			mistakes = append(mistakes, field.Invalid(at.Child("name"), All, "means all defaults, and can only be disabled"))
			continue
		}
		mistakes = append(mistakes, checkUnique(enabled, at.Child("name"), plugin.Name)...)
		switch weight := plugin.Weight; {
		case weight == nil:
		case list != multiPoint && list != Score:
			mistakes = append(mistakes, field.Forbidden(at.Child("weight"), "only score and multiPoint accept weights"))
		case *weight < MinWeight || *weight > MaxWeight:
			mistakes = append(mistakes, field.Invalid(at.Child("weight"), *weight, "must be an integer"+rangeOfWeights))
		}
	}
	disabled := map[string]bool{}
	for i, plugin := range set.Disabled {
		mistakes = append(mistakes, checkUnique(disabled, at.Child("disabled").Index(i).Child("name"), plugin.Name)...)
	}
	return mistakes
}

// checkUnique requires a name that is not among the names seen so far, and adds it to them.
func checkUnique(seen map[string]bool, at *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if seen[name] {
		return field.ErrorList{field.Duplicate(at, name)}
	}
	seen[name] = true
	return nil
}

func profileAt(i int) *field.Path { return field.NewPath("profiles").Index(i) }

// Merged is a profile of the file, merged with the defaults.
type Merged struct {
	Profile
	// at is the path of the profile in the file, and file its content there. The built-in default
	// profile has its own path.
	at   *field.Path
	file Profile
}

// MergeAll merges every profile of a file with the defaults, and adds the default profile if the
// file has none. c may be nil. known are the names of all plugins. A file that names another one is
// an error, and so are arguments for a plugin that the profile does not use.
func MergeAll(c *PlacementSchedulerConfiguration, defaults Profile, known []string) ([]Merged, error) {
	var all []Merged
	var mistakes field.ErrorList
	if c != nil {
		for i, p := range c.Profiles {
			m := Merged{Profile: Merge(p, defaults), at: profileAt(i), file: p}
			mistakes = append(mistakes, m.checkNames(known)...)
			all = append(all, m)
		}
	}
	if !slices.ContainsFunc(all, func(m Merged) bool { return m.Name == DefaultProfile }) {
		builtIn := Profile{Name: DefaultProfile}
		all = append(all, Merged{Profile: Merge(builtIn, defaults), at: field.NewPath("built-in profile"), file: builtIn})
	}
	return all, join(mistakes)
}

func (m *Merged) checkNames(known []string) (mistakes field.ErrorList) {
	check := func(at *field.Path, name string) bool {
		if slices.Contains(known, name) {
			return true
		}
		mistakes = append(mistakes, field.NotSupported(at.Child("name"), name, known))
		return false
	}
	for _, list := range lists {
		at, set := m.at.Child("plugins", string(list)), m.file.Plugins.at(list)
		for i, plugin := range set.Enabled {
			check(at.Child("enabled").Index(i), plugin.Name)
		}
		for i, plugin := range set.Disabled {
			if plugin.Name != All {
				check(at.Child("disabled").Index(i), plugin.Name)
			}
		}
	}
	named := m.Names()
	for i, pc := range m.file.PluginConfig {
		at := m.at.Child("pluginConfig").Index(i)
		if check(at, pc.Name) && !slices.Contains(named, pc.Name) {
			mistakes = append(mistakes, unused(at, pc.Name))
		}
	}
	return mistakes
}

func unused(at *field.Path, name string) *field.Error {
	return field.Invalid(at.Child("name"), name, "is not used in this profile")
}

// Names returns the plugins to build, without duplicates.
func (m *Merged) Names() (names []string) {
	for _, list := range lists {
		for _, plugin := range m.Plugins.at(list).Enabled {
			if !slices.Contains(names, plugin.Name) {
				names = append(names, plugin.Name)
			}
		}
	}
	return names
}

// Args returns the arguments of a plugin; nil if it has none.
func (m *Merged) Args(name string) json.RawMessage {
	for _, pc := range m.PluginConfig {
		if pc.Name == name {
			return pc.Args
		}
	}
	return nil
}

// BuildError adds the path in the file to the error of building a plugin.
func (m *Merged) BuildError(name string, err error) error {
	for i, pc := range m.file.PluginConfig {
		if pc.Name == name && pc.Args != nil {
			return fmt.Errorf("%s: %w", m.at.Child("pluginConfig").Index(i).Child("args"), err)
		}
	}
	return fmt.Errorf("%s: building plugin %s: %w", m.at, name, err)
}

// Resolve calls the function Resolve and checks the result. Errors are a plugin at an extension
// point that it does not implement, a weight for a plugin that does not score, arguments for a
// plugin that does not run, more or less than one QueueSort plugin, and no Bind plugin.
func (m *Merged) Resolve(implements func(name string, point Point) bool) (map[Point][]Plugin, error) {
	resolved := Resolve(m.Profile, implements)
	var mistakes field.ErrorList
	for _, list := range lists {
		for i, plugin := range m.file.Plugins.at(list).Enabled {
			at := m.at.Child("plugins", string(list), "enabled").Index(i)
			mistakes = append(mistakes, checkPoints(at, list, plugin, implements)...)
		}
	}
	for i, pc := range m.file.PluginConfig {
		if !runs(resolved, pc.Name) {
			mistakes = append(mistakes, unused(m.at.Child("pluginConfig").Index(i), pc.Name))
		}
	}
	if sort := resolved[QueueSort]; len(sort) != 1 {
		mistakes = append(mistakes, field.Invalid(m.at.Child("plugins", "queueSort"), listed(sort),
			"exactly one plugin must order the queue: enable one and disable the others"))
	}
	if len(resolved[Bind]) == 0 {
		mistakes = append(mistakes, field.Required(m.at.Child("plugins", "bind"), "at least one plugin must publish decisions"))
	}
	return resolved, join(mistakes)
}

func checkPoints(at *field.Path, list Point, plugin Plugin, implements func(string, Point) bool) (mistakes field.ErrorList) {
	var points []string
	for _, point := range Points {
		if implements(plugin.Name, point) {
			points = append(points, string(point))
		}
	}
	switch {
	case len(points) == 0:
		return field.ErrorList{field.Invalid(at.Child("name"), plugin.Name, "implements no extension point")}
	case list != multiPoint && !slices.Contains(points, string(list)):
		return field.ErrorList{field.Invalid(at.Child("name"), plugin.Name,
			fmt.Sprintf("does not implement %s, only %s", list, strings.Join(points, ", ")))}
	case plugin.Weight != nil && !slices.Contains(points, string(Score)):
		return field.ErrorList{field.Forbidden(at.Child("weight"), plugin.Name+" does not score")}
	}
	return nil
}

func runs(resolved map[Point][]Plugin, name string) bool {
	for _, plugins := range resolved {
		if index(plugins, name) >= 0 {
			return true
		}
	}
	return false
}

func listed(plugins []Plugin) string {
	names := make([]string, 0, len(plugins))
	for _, plugin := range plugins {
		names = append(names, plugin.Name)
	}
	return strings.Join(names, ", ")
}

// CheckOneQueue returns an error if a profile orders the work queue in another way than the default
// profile, because all profiles share the queue. resolved has the result of Resolve for each
// profile.
func CheckOneQueue(all []Merged, resolved []map[Point][]Plugin) error {
	reference := slices.IndexFunc(all, func(m Merged) bool { return m.Name == DefaultProfile })
	want, where := resolved[reference][QueueSort][0].Name, all[reference].at
	var mistakes field.ErrorList
	for i, m := range all {
		if got := resolved[i][QueueSort][0].Name; got != want {
			mistakes = append(mistakes, field.Invalid(m.at.Child("plugins", "queueSort"), got,
				fmt.Sprintf("all profiles share one queue, which %s orders in %s", want, where)))
		} else if !sameJSON(m.Args(got), all[reference].Args(want)) {
			mistakes = append(mistakes, field.Invalid(m.at.Child("pluginConfig"), got,
				fmt.Sprintf("all profiles share one queue, and its plugin has other arguments in %s", where)))
		}
	}
	return join(mistakes)
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
