package config

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The required apiVersion and kind of a configuration file.
const (
	APIVersion = "config.berth.dev/v1alpha1"
	Kind       = "PlacementSchedulerConfiguration"
)

const (
	// DefaultProfile is the name of the profile of Placements without the profile annotation, and
	// of a profile without a name.
	DefaultProfile = "default"
	// All means every default in a disabled list.
	All = "*"
)

// MinWeight and MaxWeight bound the weight of a score plugin. DefaultWeight is the weight of one
// without a weight.
const (
	MinWeight     = -10
	MaxWeight     = 10
	DefaultWeight = 1
)

// MinCycleTimeout and MaxCycleTimeout bound cycleTimeout. DefaultCycleTimeout applies if it is
// missing.
const (
	MinCycleTimeout     = 10 * time.Millisecond
	MaxCycleTimeout     = time.Minute
	DefaultCycleTimeout = 100 * time.Millisecond
)

// PlacementSchedulerConfiguration selects the plugins that decide Placements.
type PlacementSchedulerConfiguration struct {
	// APIVersion is config.berth.dev/v1alpha1.
	// +kubebuilder:validation:Enum=config.berth.dev/v1alpha1
	APIVersion string `json:"apiVersion"`

	// Kind is PlacementSchedulerConfiguration.
	// +kubebuilder:validation:Enum=PlacementSchedulerConfiguration
	Kind string `json:"kind"`

	// CycleTimeout is how long the decision about one Placement may delay all others, from 10ms to
	// 1m. Default 100ms. A decision that takes longer fails: the published decision stays, and the
	// attempt is repeated after ten times this time, then twice as long each time, at most 5m. A
	// PreFilter plugin that works in parts, as Predicate does, ends a part at an eighth of this
	// time. A Placement is slow if its attempts take more than a quarter of this time. All slow
	// Placements of a namespace together get 10% of the time.
	// +optional
	CycleTimeout *metav1.Duration `json:"cycleTimeout,omitempty"`

	// ReadinessSources are from where DisruptionPolicies can read whether a cluster of a Placement
	// is ready, beside the built-in ones: argocd (Applications of Argo CD), manifestwork
	// (ManifestWorks of Open Cluster Management) and cluster (the cluster's own condition
	// Available). An entry named argocd or manifestwork replaces the built-in one.
	// +optional
	ReadinessSources []ReadinessSource `json:"readinessSources,omitempty"`

	// Profiles are the profiles that Placements can select. If none is named default, the built-in
	// defaults are the profile default.
	// +optional
	Profiles []Profile `json:"profiles,omitempty"`
}

// Timeout returns CycleTimeout, or the default if it is not set. c may be nil.
func (c *PlacementSchedulerConfiguration) Timeout() time.Duration {
	if c == nil || c.CycleTimeout == nil {
		return DefaultCycleTimeout
	}
	return c.CycleTimeout.Duration
}

// ReadinessSource is a kind of objects that report whether a cluster is ready. The objects are
// watched while a DisruptionPolicy uses the source; Berth needs permission to list and watch them.
type ReadinessSource struct {
	// Name is what spec.readiness.source of a DisruptionPolicy gives, of lower case letters, digits
	// and "-", at most 63.
	Name string `json:"name"`

	// APIVersion and Kind are those of the objects, which are namespaced.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Namespace is where the objects for a Placement and a cluster are: "placement" is the
	// Placement's namespace, "cluster" the namespace with the cluster's name.
	// +kubebuilder:validation:Enum=placement;cluster
	Namespace string `json:"namespace"`

	// PlacementNamespaceLabel is the label with the namespace of the Placements for which an object
	// in a cluster's namespace counts: the namespace alone, or followed by a dot and more text. An
	// object without it counts for none. Required with namespace cluster; not allowed with
	// namespace placement.
	// +optional
	PlacementNamespaceLabel string `json:"placementNamespaceLabel,omitempty"`

	// LabelSelector limits which objects are watched; absent: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// Cluster is a CEL expression over object that returns the cluster's name, for example
	// object.spec.destination.name. An object for which it fails belongs to no cluster. Required
	// with namespace placement; not allowed with namespace cluster.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// Ready is a CEL expression over object that returns whether it is ready, for example
	// object.status.health.status == 'Healthy'. An object for which it fails is not ready.
	Ready string `json:"ready"`
}

// The values of Namespace of a ReadinessSource.
const (
	PlacementNamespace = "placement"
	ClusterNamespace   = "cluster"
)

// ClusterSource is the name of the readiness source that reads the clusters themselves.
const ClusterSource = "cluster"

// Profile lists plugins. It is merged with the built-in defaults.
type Profile struct {
	// Name is the name of the profile. A Placement selects a profile by the annotation
	// berth.dev/profile; without it, the profile default applies. Names are unique.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`

	// Plugins changes the default plugins, by extension point.
	// +optional
	Plugins Plugins `json:"plugins,omitzero"`

	// PluginConfig has the arguments of plugins, at most one item for each plugin. The profile must
	// use each plugin that is named here.
	// +optional
	PluginConfig []PluginConfig `json:"pluginConfig,omitempty"`
}

// Plugins has one set for each extension point, in the order in which the points run, and
// multiPoint for all of them.
type Plugins struct {
	// MultiPoint enables a plugin at every extension point that it implements, or disables a
	// default at all of them. The set of a single extension point has precedence.
	// +optional
	MultiPoint PluginSet `json:"multiPoint,omitzero"`

	// QueueSort orders the Placements that wait to be decided: exactly one plugin, the same in all
	// profiles.
	// +optional
	QueueSort PluginSet `json:"queueSort,omitzero"`

	// PreEnqueue keeps a Placement from being decided, for example until its queue admits it.
	// +optional
	PreEnqueue PluginSet `json:"preEnqueue,omitzero"`

	// PreFilter runs once per attempt. It can narrow the candidates or find a mistake in the
	// Placement.
	// +optional
	PreFilter PluginSet `json:"preFilter,omitzero"`

	// Filter excludes clusters, one at a time.
	// +optional
	Filter PluginSet `json:"filter,omitzero"`

	// PostFilter runs if fewer clusters are feasible than wanted.
	// +optional
	PostFilter PluginSet `json:"postFilter,omitzero"`

	// PreScore runs once per attempt, with the feasible clusters.
	// +optional
	PreScore PluginSet `json:"preScore,omitzero"`

	// Score scores the feasible clusters. NormalizeScore is part of it.
	// +optional
	Score PluginSet `json:"score,omitzero"`

	// Reserve counts a change until it is published. Unreserve is part of it.
	// +optional
	Reserve PluginSet `json:"reserve,omitzero"`

	// Permit permits, denies or holds a change.
	// +optional
	Permit PluginSet `json:"permit,omitzero"`

	// Transition limits how much of a permitted change is published in one step.
	// +optional
	Transition PluginSet `json:"transition,omitzero"`

	// PreBind prepares the clusters that a change adds.
	// +optional
	PreBind PluginSet `json:"preBind,omitzero"`

	// Bind publishes: at least one plugin. The plugins run in order until one does not skip.
	// +optional
	Bind PluginSet `json:"bind,omitzero"`

	// PostBind receives each published change.
	// +optional
	PostBind PluginSet `json:"postBind,omitzero"`
}

// PluginSet changes the plugins of one extension point.
type PluginSet struct {
	// Enabled lists plugins to add after the defaults, in this order. A default that is listed in
	// multiPoint keeps its position and gets the listed weight. A default that is listed at an
	// extension point runs before the other defaults there.
	// +kubebuilder:validation:UniqueItems=true
	// +optional
	Enabled []Plugin `json:"enabled,omitempty"`

	// Disabled lists defaults that do not run; * means all of them. Plugins in Enabled run
	// nevertheless.
	// +kubebuilder:validation:UniqueItems=true
	// +optional
	Disabled []DisabledPlugin `json:"disabled,omitempty"`
}

// Plugin is one enabled plugin.
type Plugin struct {
	// Name is the name of the plugin.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// Weight is the weight of a score plugin in the mode Additive, from -10 to 10. With 0 it does
	// not run unless a Placement lists it. Only score and multiPoint accept weights; the weight in
	// score has precedence.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// DisabledPlugin is one disabled plugin.
type DisabledPlugin struct {
	// Name is the name of the plugin, or * for all defaults.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// PluginConfig has the arguments of one plugin.
type PluginConfig struct {
	// Name is the name of the plugin.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// Args are the arguments: see the page of the plugin. Missing ones have their default.
	// +kubebuilder:validation:Schemaless
	// +optional
	Args json.RawMessage `json:"args,omitempty"`
}

// Point is the key of an extension point in the file.
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

// multiPoint is the key of the set for all extension points.
const multiPoint Point = "multiPoint"

// Points are the extension points in the order in which they run.
var Points = []Point{QueueSort, PreEnqueue, PreFilter, Filter, PostFilter, PreScore, Score, Reserve, Permit, Transition, PreBind, Bind, PostBind}

// lists are the keys of all sets, in the order of the file.
var lists = append([]Point{multiPoint}, Points...)

// at returns the set of one key.
func (p *Plugins) at(point Point) *PluginSet {
	return map[Point]*PluginSet{
		multiPoint: &p.MultiPoint, QueueSort: &p.QueueSort, PreEnqueue: &p.PreEnqueue, PreFilter: &p.PreFilter,
		Filter: &p.Filter, PostFilter: &p.PostFilter,
		PreScore: &p.PreScore, Score: &p.Score, Reserve: &p.Reserve, Permit: &p.Permit, Transition: &p.Transition, PreBind: &p.PreBind, Bind: &p.Bind,
		PostBind: &p.PostBind,
	}[point]
}

// NamedPlugins returns the plugins that the file enables or configures, sorted. c may be nil.
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
