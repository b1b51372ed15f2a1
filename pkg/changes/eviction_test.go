package changes_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

func TestEvictionEnd(t *testing.T) {
	evict := func() fixture.EvictionBuilder { return fixture.Eviction("ns", "e", "p", "c") }
	deleted := evict().Valid(metav1.ConditionTrue).Obj()
	deleted.DeletionTimestamp = &metav1.Time{Time: fixture.Now}
	short := evict().Executed(fixture.Now).Obj()
	short.Spec.ExcludeForSeconds = 1
	for name, tc := range map[string]struct {
		eviction     *berthv1alpha1.PlacementEviction
		wantEnd      time.Time
		wantExcludes bool
	}{
		"not checked yet":      {eviction: evict().Obj()},
		"not valid":            {eviction: evict().Valid(metav1.ConditionFalse).Obj(), wantEnd: fixture.Now},
		"not executed":         {eviction: evict().Valid(metav1.ConditionTrue).Obj(), wantExcludes: true},
		"executed":             {eviction: evict().Executed(fixture.Now).Obj(), wantEnd: fixture.Now.Add(time.Hour), wantExcludes: true},
		"executed, for 1 s":    {eviction: short, wantEnd: fixture.Now.Add(time.Second), wantExcludes: true},
		"deleted, not gone":    {eviction: deleted},
		"its validity unknown": {eviction: evict().Valid(metav1.ConditionUnknown).Obj(), wantEnd: fixture.Now},
	} {
		t.Run(name, func(t *testing.T) {
			if end, excludes := changes.EvictionEnd(tc.eviction); !end.Equal(tc.wantEnd) || excludes != tc.wantExcludes {
				t.Errorf("it ends at %s and excludes: %t; want %s, %t", end, excludes, tc.wantEnd, tc.wantExcludes)
			}
		})
	}
}

func TestCheckEviction(t *testing.T) {
	created := func(at time.Time) *v1alpha1.Placement {
		pl := fixture.Placement("ns", "p").Obj()
		pl.CreationTimestamp = metav1.NewTime(at)
		return pl
	}
	evict := func() fixture.EvictionBuilder { return fixture.Eviction("ns", "e", "p", "c").Created(fixture.Now) }
	for name, tc := range map[string]struct {
		eviction  fixture.EvictionBuilder
		placement *v1alpha1.Placement
		published []string
		want      string
	}{
		"the cluster is published":               {eviction: evict(), placement: created(fixture.Now), published: []string{"b", "c"}, want: "True Accepted"},
		"without times, as in files":             {eviction: fixture.Eviction("ns", "e", "p", "c"), placement: created(fixture.Now), published: []string{"c"}, want: "True Accepted"},
		"no Placement":                           {eviction: evict(), want: "False PlacementNotFound"},
		"a Placement of another namespace":       {eviction: fixture.Eviction("far", "e", "p", "c"), placement: created(fixture.Now), published: []string{"c"}, want: "False PlacementNotFound"},
		"a later Placement of the same name":     {eviction: evict(), placement: created(fixture.Now.Add(time.Second)), published: []string{"c"}, want: "False PlacementNotFound"},
		"another cluster is published":           {eviction: evict(), placement: created(fixture.Now), published: []string{"b"}, want: "False ClusterNotSelected"},
		"nothing is published":                   {eviction: evict(), placement: created(fixture.Now), want: "False ClusterNotSelected"},
		"accepted, and not published any more":   {eviction: evict().Valid(metav1.ConditionTrue), placement: created(fixture.Now), want: "True Accepted"},
		"accepted, and the Placement is deleted": {eviction: evict().Valid(metav1.ConditionTrue), want: "False PlacementNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			c := changes.CheckEviction(tc.eviction.Obj(), tc.placement, tc.published)
			if got := string(c.Status) + " " + c.Reason; c.Type != "Valid" || got != tc.want || c.Message == "" {
				t.Errorf("got %s %s: %s, want %s", c.Type, got, c.Message, tc.want)
			}
		})
	}
}
