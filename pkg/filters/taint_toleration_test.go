package filters

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

const (
	noSelect     = v1alpha1.TaintEffectNoSelect
	noSelectNew  = v1alpha1.TaintEffectNoSelectIfNew
	preferNoSel  = v1alpha1.TaintEffectPreferNoSelect
	exists       = v1alpha1.TolerationOpExists
	equal        = v1alpha1.TolerationOpEqual
	hundredYears = int64(100 * 365 * 24 * 3600)
)

// hub is an inventory of clusters in set s, all that Placement n/p sees.
func hub(p fixture.PlacementBuilder, clusters ...fixture.ClusterBuilder) *inventory.Inventory {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("n", "s"))
	inv.Update(p.Obj())
	for _, c := range clusters {
		inv.Update(c.Set("s").Obj())
	}
	return inv
}

func ask() fixture.PlacementBuilder { return fixture.Placement("n", "p") }

// stateOf begins an attempt on the one Placement.
func stateOf(inv *inventory.Inventory) *framework.CycleState {
	return framework.NewCycleState(inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil))
}

func TestTaintToleration(t *testing.T) {
	tainted := func(effect v1alpha1.TaintEffect) fixture.ClusterBuilder {
		return fixture.Cluster("c").Taint("k", "v", effect)
	}
	// Added ten seconds before Now.
	timed := func(effect v1alpha1.TaintEffect) fixture.ClusterBuilder {
		return fixture.Cluster("c").TaintAt("k", "v", effect, fixture.At(-10))
	}
	tests := map[string]struct {
		cluster   fixture.ClusterBuilder
		placement fixture.PlacementBuilder
		published bool
		// wantReason excludes the cluster.
		wantReason  string
		wantDemoted bool
		// wantUntil and wantRankUntil are in seconds from Now; nil when the verdict, or the rank,
		// does not end.
		wantUntil, wantRankUntil *int
	}{
		"no taint":                      {cluster: fixture.Cluster("c"), placement: ask()},
		"NoSelect":                      {cluster: tainted(noSelect), placement: ask(), wantReason: "taint k=v:NoSelect is not tolerated"},
		"NoSelect, of an incumbent":     {cluster: tainted(noSelect), placement: ask(), published: true, wantReason: "taint k=v:NoSelect is not tolerated"},
		"a taint without a value":       {cluster: fixture.Cluster("c").Taint("k", "", noSelect), placement: ask(), wantReason: "taint k:NoSelect is not tolerated"},
		"NoSelectIfNew":                 {cluster: tainted(noSelectNew), placement: ask(), wantReason: "taint k=v:NoSelectIfNew is not tolerated"},
		"NoSelectIfNew of an incumbent": {cluster: tainted(noSelectNew), placement: ask(), published: true},
		"PreferNoSelect":                {cluster: tainted(preferNoSel), placement: ask(), wantDemoted: true},
		"PreferNoSelect of an incumbent": {
			cluster: tainted(preferNoSel), placement: ask(), published: true, wantDemoted: true,
		},
		"PreferNoSelect tolerated": {cluster: tainted(preferNoSel), placement: ask().Toleration("k", exists, "", "")},

		"equal":                 {cluster: tainted(noSelect), placement: ask().Toleration("k", equal, "v", noSelect)},
		"no operator is equal":  {cluster: tainted(noSelect), placement: ask().Toleration("k", "", "v", noSelect)},
		"any effect":            {cluster: tainted(noSelect), placement: ask().Toleration("k", equal, "v", "")},
		"another value":         {cluster: tainted(noSelect), placement: ask().Toleration("k", equal, "w", ""), wantReason: "taint k=v:NoSelect is not tolerated"},
		"another key":           {cluster: tainted(noSelect), placement: ask().Toleration("l", exists, "", ""), wantReason: "taint k=v:NoSelect is not tolerated"},
		"another effect":        {cluster: tainted(noSelect), placement: ask().Toleration("k", exists, "", noSelectNew), wantReason: "taint k=v:NoSelect is not tolerated"},
		"an unknown operator":   {cluster: tainted(noSelect), placement: ask().Toleration("k", "Near", "v", ""), wantReason: "taint k=v:NoSelect is not tolerated"},
		"exists":                {cluster: tainted(noSelect), placement: ask().Toleration("k", exists, "", "")},
		"every key":             {cluster: tainted(noSelect), placement: ask().Toleration("", exists, "", "")},
		"the second toleration": {cluster: tainted(noSelect), placement: ask().Toleration("l", exists, "", "").Toleration("k", exists, "", "")},
		"one taint of two": {
			cluster: tainted(noSelect).Taint("l", "", noSelect), placement: ask().Toleration("k", exists, "", ""),
			wantReason: "taint l:NoSelect is not tolerated",
		},

		"a second before the end": {cluster: timed(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(11), wantUntil: new(1)},
		"at the end":              {cluster: timed(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(10), wantReason: "taint k=v:NoSelect is not tolerated: the toleration ran out at 2026-08-01T12:00:00Z"},
		"zero seconds":            {cluster: timed(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(0), wantReason: "taint k=v:NoSelect is not tolerated: the toleration ran out at 2026-08-01T11:59:50Z"},
		"less than nothing":       {cluster: timed(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(-5), wantReason: "taint k=v:NoSelect is not tolerated: the toleration ran out at 2026-08-01T11:59:45Z"},
		"the least number":        {cluster: timed(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(-1 << 63), wantReason: "taint k=v:NoSelect is not tolerated: the toleration ran out at 1776-09-30T11:59:50Z"},
		"a hundred years":         {cluster: timed(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(hundredYears), wantUntil: new(int(hundredYears) - 10)},
		"a taint without a time was added in the year 1": {
			cluster: tainted(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(hundredYears),
			wantReason: "taint k=v:NoSelect is not tolerated: the toleration has tolerationSeconds, and the taint has no timeAdded",
		},
		"two that ran out": {
			cluster: timed(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(9).Toleration("k", equal, "v", "").Seconds(5),
			wantReason: "taint k=v:NoSelect is not tolerated: the toleration ran out at 2026-08-01T11:59:59Z",
		},
		"what ran out, and another that holds": {
			cluster: timed(noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(5).Toleration("k", equal, "v", ""),
		},
		"the end of two taints is the first": {
			cluster:   timed(noSelect).TaintAt("l", "", noSelect, fixture.At(-5)),
			placement: ask().Toleration("", exists, "", "").Seconds(30), wantUntil: new(20),
		},
		"NoSelectIfNew, once selected, needs no toleration": {
			cluster: timed(noSelectNew), placement: ask().Toleration("k", exists, "", "").Seconds(30),
		},
		"the end of a tolerated PreferNoSelect ends the rank": {
			cluster: timed(preferNoSel), placement: ask().Toleration("k", exists, "", "").Seconds(30), wantRankUntil: new(20),
		},
		"the first end of two tolerated PreferNoSelect": {
			cluster:   timed(preferNoSel).TaintAt("l", "", preferNoSel, fixture.At(-5)).TaintAt("m", "", noSelect, fixture.At(-1)),
			placement: ask().Toleration("", exists, "", "").Seconds(30), wantUntil: new(29), wantRankUntil: new(20),
		},
		"PreferNoSelect tolerated no longer": {
			cluster: timed(preferNoSel), placement: ask().Toleration("k", exists, "", "").Seconds(10), wantDemoted: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := hub(tc.placement, tc.cluster)
			if tc.published {
				inv.Update(fixture.Page("n", "p-decision-1").Of("p").Lists("c").Obj())
			}
			state := stateOf(inv)
			cluster := state.Snapshot().Clusters.Get(0)
			status := TaintToleration{}.Filter(context.Background(), state, tc.placement.Obj(), cluster)
			if status.Reason() != tc.wantReason {
				t.Errorf("reason %q, want %q", status.Reason(), tc.wantReason)
			}
			if got := state.Demoted().Has(0); got != tc.wantDemoted {
				t.Errorf("demoted is %t", got)
			}
			at := func(seconds *int) time.Time {
				if seconds == nil {
					return time.Time{}
				}
				return fixture.At(*seconds).Time
			}
			if got, want := state.FilterExpiry(0), at(tc.wantUntil); !got.Equal(want) {
				t.Errorf("the verdict holds until %v, want %v", got, want)
			}
			if got, want := state.RankExpiry(0), at(tc.wantRankUntil); !got.Equal(want) {
				t.Errorf("the rank holds until %v, want %v", got, want)
			}
		})
	}
}

func TestInvalidTolerations(t *testing.T) {
	tests := map[string]struct {
		placement fixture.PlacementBuilder
		want      string
	}{
		"every key exists":       {placement: ask().Toleration("", exists, "", "")},
		"an empty key, equal":    {placement: ask().Toleration("", equal, "v", ""), want: `spec.tolerations[0].operator: Invalid value: "Equal": must be Exists when key is empty`},
		"an empty key":           {placement: ask().Toleration("", "", "v", ""), want: `spec.tolerations[0].operator: Invalid value: "": must be Exists when key is empty`},
		"exists with a value":    {placement: ask().Toleration("k", exists, "v", ""), want: `spec.tolerations[0].value: Invalid value: "v": must be empty when operator is Exists`},
		"the second is at fault": {placement: ask().Toleration("k", exists, "", "").Toleration("k", exists, "v", ""), want: `spec.tolerations[1].value: Invalid value: "v": must be empty when operator is Exists`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, status := TaintToleration{}.PreFilter(context.Background(), framework.NewCycleState(&framework.Snapshot{}), tc.placement.Obj())
			if status.Reason() != tc.want || (tc.want != "") != (status.Code() == framework.UnschedulableAndUnresolvable) {
				t.Errorf("got %s %q, want %q", status.Code(), status.Reason(), tc.want)
			}
		})
	}
}

func TestTaintRelaxations(t *testing.T) {
	inv := hub(ask().Toleration("l", exists, "", ""), fixture.Cluster("c").Taint("k", "v", noSelect).Taint("l", "", noSelect).Taint("m", "", preferNoSel))
	state := stateOf(inv)
	pl := state.Snapshot().Subject.Placement
	got := TaintToleration{}.Relax(context.Background(), state, pl, state.Snapshot().Clusters.Get(0))
	if len(got) != 1 {
		t.Fatalf("%d relaxations, want one", len(got))
	}
	if diff := cmp.Diff("tolerate k=v:NoSelect and tolerate m:PreferNoSelect", got[0].Text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if len(pl.Spec.Tolerations) != 1 || len(got[0].Placement.Spec.Tolerations) != 3 {
		t.Error("the change is not made on a copy")
	}
}

// TestRelaxationsOfUnavailable: no advice is to tolerate that a cluster does not answer.
func TestRelaxationsOfUnavailable(t *testing.T) {
	inv := hub(ask(), fixture.Cluster("c").Taint("k", "v", noSelect).Taint(v1alpha1.ManagedClusterTaintUnreachable, "", noSelect).Taint("m", "", noSelectNew))
	state := stateOf(inv)
	got := TaintToleration{}.Relax(context.Background(), state, state.Snapshot().Subject.Placement, state.Snapshot().Clusters.Get(0))
	if len(got) != 1 || got[0].Text != "the cluster is available again and tolerate k=v:NoSelect and tolerate m:NoSelectIfNew" {
		t.Fatalf("got %v", got)
	}
	if taints := got[0].Cluster.Spec.Taints; len(taints) != 2 || taints[0].Key != "k" || len(got[0].Cluster.TaintTimes) != 2 || len(got[0].Placement.Spec.Tolerations) != 2 {
		t.Errorf("got %v", got[0])
	}
}

// TestRelaxationsOfNewTaints: an incumbent needs no toleration of NoSelectIfNew.
func TestRelaxationsOfNewTaints(t *testing.T) {
	for name, tc := range map[string]struct {
		effect    v1alpha1.TaintEffect
		published bool
		want      int
	}{
		"NoSelectIfNew":                 {effect: noSelectNew, want: 1},
		"NoSelectIfNew of an incumbent": {effect: noSelectNew, published: true},
		"NoSelect of an incumbent":      {effect: noSelect, published: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inv := hub(ask(), fixture.Cluster("c").Taint("k", "v", tc.effect))
			if tc.published {
				inv.Update(fixture.Page("n", "p-decision-1").Of("p").Lists("c").Obj())
			}
			state := stateOf(inv)
			got := TaintToleration{}.Relax(context.Background(), state, state.Snapshot().Subject.Placement, state.Snapshot().Clusters.Get(0))
			if len(got) != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestForcesRemoval: NoSelect does, unless it is tolerated, drains the cluster or, with
// ReplaceFirst, says that it is unavailable. It does since the last taint was added. Ended is true
// if every such taint was tolerated for some time.
func TestForcesRemoval(t *testing.T) {
	c := func() fixture.ClusterBuilder { return fixture.Cluster("c") }
	for name, tc := range map[string]struct {
		cluster      fixture.ClusterBuilder
		placement    fixture.PlacementBuilder
		replaceFirst bool
		want         bool
		wantSince    time.Time
		ended        bool
	}{
		"no taint":            {cluster: c(), placement: ask()},
		"NoSelect":            {cluster: c().Taint("k", "v", noSelect), placement: ask(), want: true},
		"NoSelectIfNew":       {cluster: c().Taint("k", "v", noSelectNew), placement: ask()},
		"the drain":           {cluster: c().Taint(v1alpha1.DrainTaint, "", noSelect), placement: ask()},
		"the drain and more":  {cluster: c().Taint(v1alpha1.DrainTaint, "", noSelect).Taint("k", "v", noSelect), placement: ask(), want: true},
		"tolerated":           {cluster: c().Taint("k", "v", noSelect), placement: ask().Toleration("k", exists, "", "")},
		"one of two":          {cluster: c().Taint("k", "v", noSelect).Taint("l", "", noSelect), placement: ask().Toleration("k", exists, "", ""), want: true},
		"the later of two":    {cluster: c().TaintAt("k", "v", noSelect, fixture.At(-10)).TaintAt("l", "", noSelect, fixture.At(-20)), placement: ask(), want: true, wantSince: fixture.At(-10).Time},
		"tolerated no longer": {cluster: c().TaintAt("k", "v", noSelect, fixture.At(-10)), placement: ask().Toleration("k", exists, "", "").Seconds(5), want: true, wantSince: fixture.At(-10).Time, ended: true},
		"tolerated for 0 s":   {cluster: c().TaintAt("k", "v", noSelect, fixture.At(-10)), placement: ask().Toleration("k", exists, "", "").Seconds(0), want: true, wantSince: fixture.At(-10).Time},
		"no time, tolerated":  {cluster: c().Taint("k", "v", noSelect), placement: ask().Toleration("k", exists, "", "").Seconds(5), want: true},
		"one no longer":       {cluster: c().TaintAt("k", "v", noSelect, fixture.At(-10)).TaintAt("l", "", noSelect, fixture.At(-20)), placement: ask().Toleration("k", exists, "", "").Seconds(5), want: true, wantSince: fixture.At(-10).Time},
		"the first no longer": {cluster: c().TaintAt("l", "", noSelect, fixture.At(-20)).TaintAt("k", "v", noSelect, fixture.At(-10)), placement: ask().Toleration("k", exists, "", "").Seconds(5), want: true, wantSince: fixture.At(-10).Time},
		"both no longer":      {cluster: c().TaintAt("k", "v", noSelect, fixture.At(-10)).TaintAt("l", "", noSelect, fixture.At(-20)), placement: ask().Toleration("", exists, "", "").Seconds(5), want: true, wantSince: fixture.At(-10).Time, ended: true},
		"unavailable":         {cluster: c().Taint(v1alpha1.ManagedClusterTaintUnavailable, "", noSelect), placement: ask(), want: true},
		"replaced first":      {cluster: c().Taint(v1alpha1.ManagedClusterTaintUnavailable, "", noSelect), placement: ask(), replaceFirst: true},
		"unreachable, too":    {cluster: c().Taint(v1alpha1.ManagedClusterTaintUnreachable, "", noSelect), placement: ask(), replaceFirst: true},
		"unreachable, and another": {
			cluster: c().Taint(v1alpha1.ManagedClusterTaintUnreachable, "", noSelect).Taint("k", "v", noSelect), placement: ask(), replaceFirst: true, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := stateOf(hub(tc.placement, tc.cluster))
			state.Snapshot().Subject.ReplaceFirst = tc.replaceFirst
			pl, cluster := state.Snapshot().Subject.Placement, state.Snapshot().Clusters.Get(0)
			want := framework.Forcing{Forces: tc.want, Since: tc.wantSince, Ended: tc.ended}
			if got := (TaintToleration{}).ForcesRemoval(state, pl, cluster); got.Forces != want.Forces || !got.Since.Equal(want.Since) || got.Ended != want.Ended {
				t.Errorf("without PreFilter: %+v, want %+v", got, want)
			}
			if _, status := (TaintToleration{}).PreFilter(t.Context(), state, pl); !status.IsSuccess() {
				t.Fatal(status.Err())
			}
			if got := (TaintToleration{}).ForcesRemoval(state, pl, cluster); got.Forces != want.Forces || !got.Since.Equal(want.Since) || got.Ended != want.Ended {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestTolerationIndex compares the index with each toleration in turn.
func TestTolerationIndex(t *testing.T) {
	literal := func(tolerations []v1alpha1.Toleration, taint v1alpha1.Taint, added, now time.Time) (bool, time.Time) {
		for _, t := range tolerations {
			if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
				continue
			}
			equal := t.Operator == "" || t.Operator == v1alpha1.TolerationOpEqual
			if !equal && t.Operator != v1alpha1.TolerationOpExists || equal && t.Value != taint.Value {
				continue
			}
			if t.TolerationSeconds == nil {
				return true, time.Time{}
			}
			if end := addSeconds(added, *t.TolerationSeconds); now.Before(end) {
				return true, end
			}
		}
		return false, time.Time{}
	}
	effects := []v1alpha1.TaintEffect{"", v1alpha1.TaintEffectNoSelect, v1alpha1.TaintEffectNoSelectIfNew}
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) v1alpha1.Toleration {
			toleration := v1alpha1.Toleration{
				Key: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"), Value: rapid.SampledFrom([]string{"", "v"}).Draw(t, "value"),
				Operator: rapid.SampledFrom([]v1alpha1.TolerationOperator{"", "Equal", "Exists", "Like"}).Draw(t, "operator"),
				Effect:   rapid.SampledFrom(effects).Draw(t, "effect"),
			}
			if toleration.Operator == v1alpha1.TolerationOpExists {
				toleration.Value = ""
			}
			if rapid.Bool().Draw(t, "ends") {
				toleration.TolerationSeconds = new(rapid.Int64Range(-1, 4).Draw(t, "seconds"))
			}
			return toleration
		})
		tolerations := rapid.SliceOfN(one, 0, 12).Draw(t, "tolerations")
		taint := v1alpha1.Taint{
			Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), Value: rapid.SampledFrom([]string{"", "v"}).Draw(t, "value"),
			Effect: rapid.SampledFrom(effects[1:]).Draw(t, "effect"),
		}
		now := fixture.Now
		added := now.Add(-time.Duration(rapid.IntRange(0, 4).Draw(t, "age")) * time.Second)
		wantOK, wantEnd := literal(tolerations, taint, added, now)
		if ok, end := indexTolerations(tolerations).tolerate(taint, added, now); ok != wantOK || !end.Equal(wantEnd) {
			t.Fatalf("got %t until %v, want %t until %v", ok, end, wantOK, wantEnd)
		}
	})
}
