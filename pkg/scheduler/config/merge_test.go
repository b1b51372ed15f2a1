package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// on enables plugins, each written "name" or "name=weight"; off disables them.
func on(plugins ...string) PluginSet {
	set := PluginSet{}
	for _, text := range plugins {
		name, weight, weighed := strings.Cut(text, "=")
		plugin := Plugin{Name: name}
		if weighed {
			n, err := strconv.ParseInt(weight, 10, 32)
			if err != nil {
				panic(err)
			}
			plugin.Weight = new(int32(n))
		}
		set.Enabled = append(set.Enabled, plugin)
	}
	return set
}

func off(names ...string) PluginSet { return PluginSet{}.off(names...) }

func (s PluginSet) off(names ...string) PluginSet {
	for _, name := range names {
		s.Disabled = append(s.Disabled, DisabledPlugin{name})
	}
	return s
}

// The plugins of these tests: what each implements.
var implemented = map[string][]Point{
	"sort":  {QueueSort},
	"foo":   {Filter, Reserve},
	"bar":   {Filter, Reserve},
	"other": {Filter, Reserve, Score},
	"cpu":   {Score},
	"new":   {Filter, Score},
}

func implements(name string, point Point) bool {
	return slices.Contains(implemented[name], point)
}

// The defaults of these tests: at filter and at reserve run foo, other; at score other counts 1 and
// cpu nothing.
var defaults = Profile{Plugins: Plugins{MultiPoint: on("sort", "foo", "other", "cpu=0")}}

// shown is what runs at a point: "foo, other"; with weights at score.
func shown(plugins []Plugin) string {
	var names []string
	for _, plugin := range plugins {
		if plugin.Weight != nil {
			plugin.Name += "=" + strconv.Itoa(int(*plugin.Weight))
		}
		names = append(names, plugin.Name)
	}
	return strings.Join(names, ", ")
}

func TestMergeAndResolve(t *testing.T) {
	type runs map[Point]string
	tests := map[string]struct {
		user Plugins
		// want is by point; points left out run the defaults.
		want runs
	}{
		"nothing said: the defaults": {want: runs{}},
		"an empty list says nothing": {user: Plugins{Filter: PluginSet{Enabled: []Plugin{}}}, want: runs{}},

		// 1. Defaults live in multiPoint, and lists merge.
		"a new name at a point is added to the defaults":          {user: Plugins{Filter: on("new")}, want: runs{Filter: "foo, other, new"}},
		"a new name under multiPoint is added where it can run":   {user: Plugins{MultiPoint: on("new")}, want: runs{Filter: "foo, other, new", Score: "other=1, cpu=0, new=1"}},
		"new names append in the order of the file":               {user: Plugins{Reserve: on("bar"), Filter: on("new", "bar")}, want: runs{Filter: "foo, other, new, bar", Reserve: "foo, other, bar"}},
		"under multiPoint before those at the point":              {user: Plugins{MultiPoint: on("bar"), Filter: on("new")}, want: runs{Filter: "foo, other, bar, new", Reserve: "foo, other, bar"}},
		"no point of a plugin but those named, without a default": {user: Plugins{Score: on("new")}, want: runs{Score: "other=1, cpu=0, new=1"}},

		// 2. Naming a default again.
		"in its own list it is replaced in place":           {user: Plugins{MultiPoint: on("new", "other=5")}, want: runs{Filter: "foo, other, new", Score: "other=5, cpu=0, new=1"}},
		"at one point it runs ahead of the others there":    {user: Plugins{Filter: on("other")}, want: runs{Filter: "other, foo"}},
		"several, in the order of the file":                 {user: Plugins{Filter: on("new", "other", "foo")}, want: runs{Filter: "other, foo, new"}},
		"ahead, then multiPoint, then the rest":             {user: Plugins{MultiPoint: on("bar"), Filter: on("new", "other")}, want: runs{Filter: "other, foo, bar, new", Reserve: "foo, other, bar"}},
		"a name under multiPoint and at a point runs ahead": {user: Plugins{MultiPoint: on("bar"), Reserve: on("bar")}, want: runs{Filter: "foo, other, bar", Reserve: "bar, foo, other"}},

		// 3. Disabling.
		"at one point":                                      {user: Plugins{Filter: off("foo")}, want: runs{Filter: "other"}},
		"everywhere, under multiPoint":                      {user: Plugins{MultiPoint: off("other")}, want: runs{Filter: "foo", Reserve: "foo", Score: "cpu=0"}},
		"all at one point":                                  {user: Plugins{Filter: off("*")}, want: runs{Filter: ""}},
		"all at one point, keeping what is named":           {user: Plugins{Filter: on("new", "foo").off("*")}, want: runs{Filter: "new, foo"}},
		"all everywhere, keeping what is named":             {user: Plugins{MultiPoint: on("new", "sort").off("*"), Reserve: on("foo")}, want: runs{Filter: "new", Score: "new=1", Reserve: "foo"}},
		"all at one point drops what multiPoint adds there": {user: Plugins{MultiPoint: on("new"), Filter: off("*")}, want: runs{Filter: "", Score: "other=1, cpu=0, new=1"}},
		"everywhere but at one point":                       {user: Plugins{MultiPoint: off("foo"), Filter: on("foo")}, want: runs{Filter: "other, foo", Reserve: "other"}},
		"and enabling under multiPoint moves to the end":    {user: Plugins{MultiPoint: on("foo").off("foo")}, want: runs{Filter: "other, foo", Reserve: "other, foo"}},
		"what does not run changes nothing":                 {user: Plugins{Filter: off("bar", "cpu")}, want: runs{}},

		// The recipe for another order, from the framework's first description.
		"enable bar and foo, disable foo: bar runs before foo": {user: Plugins{Reserve: on("bar", "foo").off("foo")}, want: runs{Reserve: "other, bar, foo"}},
		"without disabled: foo, others, bar":                   {user: Plugins{Reserve: on("bar", "foo")}, want: runs{Reserve: "foo, other, bar"}},

		// 4. Weights.
		"absent is 1, also for a default that counts nothing": {user: Plugins{Score: on("cpu")}, want: runs{Score: "cpu=1, other=1"}},
		"0 is off":                                   {user: Plugins{Score: on("other=0")}, want: runs{Score: "other=0, cpu=0"}},
		"of a new one, under multiPoint":             {user: Plugins{MultiPoint: on("new=-10")}, want: runs{Filter: "foo, other, new", Score: "other=1, cpu=0, new=-10"}},
		"at score it beats multiPoint":               {user: Plugins{MultiPoint: on("other=2"), Score: on("other=3")}, want: runs{Score: "other=3, cpu=0"}},
		"at score even its absence beats multiPoint": {user: Plugins{MultiPoint: on("other=2"), Score: on("other")}, want: runs{Score: "other=1, cpu=0"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := runs{QueueSort: "sort", Filter: "foo, other", Reserve: "foo, other", Score: "other=1, cpu=0"}
			maps.Copy(want, tc.want)
			got := runs{}
			for point, plugins := range Resolve(Merge(Profile{Plugins: tc.user}, defaults), implements) {
				if _, ok := want[point]; ok || len(plugins) > 0 {
					got[point] = shown(plugins)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestExampleOfKubernetes: the example of the page "Scheduler Configuration" of Kubernetes gives
// what kube-scheduler runs. Custom plugins run after defaults, although that page says "first".
func TestExampleOfKubernetes(t *testing.T) {
	points := map[string][]Point{
		"DefaultQueueSort": {QueueSort}, "CustomQueueSort": {QueueSort}, "DefaultPlugin1": {Score, Filter}, "DefaultPlugin2": {Score},
		"CustomPlugin1": {Score, Filter}, "CustomPlugin2": {Score, Filter},
	}
	defaults := Profile{Plugins: Plugins{MultiPoint: on("DefaultQueueSort", "DefaultPlugin1", "DefaultPlugin2")}}
	user := Plugins{
		MultiPoint: on("CustomQueueSort", "CustomPlugin1=3", "CustomPlugin2").off("DefaultQueueSort"), Filter: off("DefaultPlugin1"), Score: on("DefaultPlugin2"),
	}
	got := Resolve(Merge(Profile{Plugins: user}, defaults), func(name string, point Point) bool { return slices.Contains(points[name], point) })
	for point, want := range map[Point]string{
		QueueSort: "CustomQueueSort",
		Filter:    "CustomPlugin1, CustomPlugin2",
		Score:     "DefaultPlugin2=1, DefaultPlugin1=1, CustomPlugin1=3, CustomPlugin2=1",
	} {
		if got := shown(got[point]); got != want {
			t.Errorf("%s: %s, want %s", point, got, want)
		}
	}
}

// A default set may have lists at points, too; multiPoint's disabled reaches them.
func TestMergeWithDefaultsAtAPoint(t *testing.T) {
	defaults := Profile{Plugins: Plugins{MultiPoint: on("foo"), Filter: on("bar", "new").off("foo")}}
	tests := map[string]struct {
		user Plugins
		want string
	}{
		"untouched":               {want: "bar, new"},
		"replaced in place":       {user: Plugins{Filter: on("new", "bar")}, want: "bar, new"},
		"disabled at the point":   {user: Plugins{Filter: off("bar")}, want: "new"},
		"disabled everywhere":     {user: Plugins{MultiPoint: off("bar")}, want: "new"},
		"all disabled":            {user: Plugins{MultiPoint: off("*")}, want: ""},
		"disabled, but reenabled": {user: Plugins{Filter: on("foo")}, want: "bar, new, foo"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Resolve(Merge(Profile{Plugins: tc.user}, defaults), implements)[Filter]
			if diff := cmp.Diff(tc.want, shown(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
