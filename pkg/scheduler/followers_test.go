package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// TestFollowersMoveNobody: a Placement that others are with stays on its clusters, although Balance
// prefers those that they do not have, however often it is decided.
func TestFollowersMoveNobody(t *testing.T) {
	for name, with := range map[string][]string{"one follows": {"0"}, "a chain": {"0", "1"}, "two follow": {"0", "0"}, "they follow each other": {"0", "1", "2"}} {
		t.Run(name, func(t *testing.T) {
			f := newFleetAtRest(t, false, nil, nil)
			f.store(fixture.Placement("ns", "p0").Number(1).Obj())
			f.run(60)
			for i, other := range with {
				f.store(dependencies["with"](fmt.Sprint("p", i+1), "p"+other))
				f.store(fixture.Placement("ns", fmt.Sprint("p", i+1)).Number(1).Obj())
				f.run(60)
			}
			if len(with) == 3 {
				f.store(dependencies["with"]("p0", "p3"))
				f.run(60)
			}
			before := f.pages.listed()
			for range 3 {
				for i := range len(with) + 1 {
					f.enqueue([]inventory.Key{{Namespace: "ns", Name: fmt.Sprint("p", i)}})
					f.run(60)
				}
			}
			if after := f.pages.listed(); after != before {
				t.Errorf("published: %s, before: %s", after, before)
			}
		})
	}
}
