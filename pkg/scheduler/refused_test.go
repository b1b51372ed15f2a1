package scheduler_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRefusedPagesTakeNothing: a Placement whose pages the API server refuses has none of the
// clusters that it tried one after the other.
func TestRefusedPagesTakeNothing(t *testing.T) {
	f := newFleetAtRest(t, false, nil, func(write string) error {
		if strings.Contains(write, "p0-") {
			return errors.New("refused")
		}
		return nil
	})
	cluster := func(i int, free bool) {
		b := fixture.Cluster(fmt.Sprint("c", i)).Set("s1").Allocatable("cpu", "8").Capacity("cpu", "8")
		if !free {
			b = b.Taint("t", "x", v1alpha1.TaintEffectNoSelect)
		}
		f.store(b.Obj())
	}
	for _, p := range []string{"p0", "p1"} {
		f.store(dependencies["requests"](p, ""))
	}
	f.store(fixture.Placement("ns", "p0").Number(1).Obj())
	for i := range 4 {
		f.clock.Step(time.Minute)
		f.run(60)
		cluster(i, false)
	}
	for i := range 4 {
		cluster(i, true)
	}
	if has := f.snapshot(inventory.Key{Namespace: "ns", Name: "p0"}).Subject.Has.Len(); has != 0 {
		t.Errorf("p0 has %d clusters", has)
	}
	f.store(fixture.Placement("ns", "p1").Obj())
	f.run(60)
	if diff := cmp.Diff("p1-decision-1: c0 c1 c2 c3", f.pages.listed()); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}
