package config

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a file must say it is.
const (
	APIVersion = "config.berth.dev/v1alpha1"
	Kind       = "PlacementSchedulerConfiguration"
)

const (
	// DefaultProfile is the profile of Placements that choose none, and of a profile without a
	// name.
	DefaultProfile = "default"
	// All stands, in a disabled list, for every default.
	All = "*"
)

// MinWeight to MaxWeight is what a score plugin may count; DefaultWeight is what it counts when its
// weight is not given.
const (
	MinWeight     = -10
	MaxWeight     = 10
	DefaultWeight = 1
)

// MinCycleTimeout to MaxCycleTimeout is what a file may give as cycleTimeout; DefaultCycleTimeout
// counts when it gives none.
const (
	MinCycleTimeout     = 10 * time.Millisecond
	MaxCycleTimeout     = time.Minute
	DefaultCycleTimeout = 100 * time.Millisecond
)

// PlacementSchedulerConfiguration says which plugins decide about Placements.
type PlacementSchedulerConfiguration struct {
	// APIVersion is config.berth.dev/v1alpha1.
	// +kubebuilder:validation:Enum=config.berth.dev/v1alpha1
	APIVersion string `json:"apiVersion"`

	// Kind is PlacementSchedulerConfiguration.
	// +kubebuilder:validation:Enum=PlacementSchedulerConfiguration
	Kind string `json:"kind"`

	// CycleTimeout is how long the decision about one Placement may delay all others, from 10ms to
	// 1m; 100ms when absent. A decision that takes longer fails: what is published stays, and the
	// attempt is repeated after ten times this, then twice as long each time, at most 5m. A
	// PreFilter plugin that evaluates in parts, as Predicate does, ends a part at half of it. A
	// Placement whose attempts take more than a quarter of it is slow, and all slow ones of a
	// namespace get 10% of the time together.
	// +optional
	CycleTimeout *metav1.Duration `json:"cycleTimeout,omitempty"`

	// Profiles are the choices that Placements have. Without one named default, the built-in
	// defaults are that profile.
	// +optional
	Profiles []Profile `json:"profiles,omitempty"`
}

// Timeout is CycleTimeout, or the default where nothing says it; c may be nil.
func (c *PlacementSchedulerConfiguration) Timeout() time.Duration {
	if c == nil || c.CycleTimeout == nil {
		return DefaultCycleTimeout
	}
	return c.CycleTimeout.Duration
}

// Profile is a choice of plugins. What it says is merged with the built-in defaults.
type Profile struct {
	// Name is what the annotation berth.dev/profile of a Placement chooses; the profile default is
	// for Placements without it. Names are unique; a profile without a name is the default one.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`

	// Plugins are changes to the defaults, by extension point.
	// +optional
	Plugins Plugins `json:"plugins,omitzero"`

	// PluginConfig are the arguments of plugins, at most one item a plugin. Only plugins that this
	// profile uses may be named.
	// +optional
	PluginConfig []PluginConfig `json:"pluginConfig,omitempty"`
}

// Plugins has one set for each extension point, in the order in which the points run, and
// multiPoint for all of them.
type Plugins struct {
	// MultiPoint enables a plugin at every extension point that it implements, or disables a
	// default everywhere. What is said at one point comes before it.
	// +optional
	MultiPoint PluginSet `json:"multiPoint,omitzero"`

	// QueueSort says which Placement is decided first: exactly one plugin, the same in all
	// profiles.
	// +optional
	QueueSort PluginSet `json:"queueSort,omitzero"`

	// PreEnqueue keeps Placements out, for example until their queue admits them.
	// +optional
	PreEnqueue PluginSet `json:"preEnqueue,omitzero"`

	// PreFilter runs once a cycle, and may narrow the candidates or find a mistake in the
	// Placement.
	// +optional
	PreFilter PluginSet `json:"preFilter,omitzero"`

	// Filter excludes clusters, one by one.
	// +optional
	Filter PluginSet `json:"filter,omitzero"`

	// PostFilter looks on when fewer clusters fit than are wanted.
	// +optional
	PostFilter PluginSet `json:"postFilter,omitzero"`

	// PreScore runs once a cycle, with the clusters that fit.
	// +optional
	PreScore PluginSet `json:"preScore,omitzero"`

	// Score rates the clusters that fit. NormalizeScore is part of it.
	// +optional
	Score PluginSet `json:"score,omitzero"`

	// Reserve keeps account of what is about to be published. Unreserve is part of it.
	// +optional
	Reserve PluginSet `json:"reserve,omitzero"`

	// Permit lets a change pass, refuses it or holds it.
	// +optional
	Permit PluginSet `json:"permit,omitzero"`

	// Transition says how much of a permitted change is published in one step.
	// +optional
	Transition PluginSet `json:"transition,omitzero"`

	// PreBind prepares what publishing needs.
	// +optional
	PreBind PluginSet `json:"preBind,omitzero"`

	// Bind publishes: at least one plugin, and the first that does not pass on is the last.
	// +optional
	Bind PluginSet `json:"bind,omitzero"`

	// PostBind is told what was published.
	// +optional
	PostBind PluginSet `json:"postBind,omitzero"`
}

// PluginSet changes which plugins run at a point.
type PluginSet struct {
	// Enabled are plugins to add, in this order, after the defaults. A default that is named in its
	// own list, multiPoint, is replaced where it stands; one that is named at a point runs ahead of
	// the other defaults there.
	// +kubebuilder:validation:UniqueItems=true
	// +optional
	Enabled []Plugin `json:"enabled,omitempty"`

	// Disabled are defaults not to run. The name * stands for all of them; what Enabled names
	// stays.
	// +kubebuilder:validation:UniqueItems=true
	// +optional
	Disabled []DisabledPlugin `json:"disabled,omitempty"`
}

// Plugin is one enabled plugin.
type Plugin struct {
	// Name is the plugin's.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// Weight is what a score plugin counts in the Additive mode, from -10 to 10; 0 leaves it out
	// unless a Placement lists it. Only score and multiPoint take weights, and the one in score
	// comes first.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// DisabledPlugin is one disabled plugin.
type DisabledPlugin struct {
	// Name is the plugin's, or * for all defaults.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// PluginConfig is one plugin's arguments.
type PluginConfig struct {
	// Name is the plugin's.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// Args is for the plugin to decode; what it leaves out has the plugin's defaults.
	// +kubebuilder:validation:Schemaless
	// +optional
	Args json.RawMessage `json:"args,omitempty"`
}

// Point is an extension point by its key in the file.
type Point string

// The extension points.
const (
	QueueSort  Point = "queueSort"
	PreEnqueue Point = "preEnqueue"
	PreFilter  Point = "preFilter"
	Filter     Point = "filter"
	PostFilter Point = "postFilter"
	PreScore   Point = "preScore"
	Score      Point = "score"
	Reserve    Point = "reserve"
	Permit     Point = "permit"
	Transition Point = "transition"
	PreBind    Point = "preBind"
	Bind       Point = "bind"
	PostBind   Point = "postBind"
)

// multiPoint is the key of the set that is no point.
const multiPoint Point = "multiPoint"

// Points are the extension points in the order in which they run.
var Points = []Point{QueueSort, PreEnqueue, PreFilter, Filter, PostFilter, PreScore, Score, Reserve, Permit, Transition, PreBind, Bind, PostBind}

// lists are the keys of all sets, in the order of the file.
var lists = append([]Point{multiPoint}, Points...)

// at is the set of one key.
func (p *Plugins) at(point Point) *PluginSet {
	return map[Point]*PluginSet{
		multiPoint: &p.MultiPoint, QueueSort: &p.QueueSort, PreEnqueue: &p.PreEnqueue, PreFilter: &p.PreFilter,
		Filter: &p.Filter, PostFilter: &p.PostFilter,
		PreScore: &p.PreScore, Score: &p.Score, Reserve: &p.Reserve, Permit: &p.Permit, Transition: &p.Transition, PreBind: &p.PreBind, Bind: &p.Bind,
		PostBind: &p.PostBind,
	}[point]
}

// NamedPlugins are the plugins that the file enables or configures, sorted; none where there is no
// file.
func (c *PlacementSchedulerConfiguration) NamedPlugins() []string {
	if c == nil {
		return nil
	}
	var names []string
	for i := range c.Profiles {
		profile := &c.Profiles[i]
		for _, p := range profile.PluginConfig {
			names = append(names, p.Name)
		}
		for _, point := range lists {
			for _, p := range profile.Plugins.at(point).Enabled {
				names = append(names, p.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
