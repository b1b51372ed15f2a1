package property

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/test/fixture"
)

// TestIncrementalInventory feeds random events to an inventory and, after each, compares what it shows, and what is decided on
// it, with one built from scratch. Whoever's answer changed, other than through Balance, must have been woken.
func TestIncrementalInventory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &differential{
			world: newWorld(), inv: inventory.New(inventory.Options{}),
			engine: newScheduler(t, true), unbalanced: newScheduler(t, false), before: map[inventory.Key]answer{},
		}
		for range rapid.IntRange(5, 50).Draw(rt, "events") {
			d.step(rt)
		}
	})
}

type differential struct {
	world *world
	inv   *inventory.Inventory
	// engine and unbalanced live on from event to event, as the plugins' memories do.
	engine, unbalanced *scheduler.Scheduler
	// before are the answers without Balance, before the event.
	before map[inventory.Key]answer
	// echoes are the events of pages that the inventory was told of at once, still on their way.
	echoes []event
}

func (d *differential) step(t *rapid.T) {
	switch action := oneOf(t, "action", "put", "put", "put", "put", "delete", "again", "publish", "withdraw", "echo", "explain"); action {
	case "put":
		d.deliver(t, d.world.put(drawObject(t)))
	case "delete":
		if all := d.world.all(); len(all) > 0 {
			d.deliver(t, d.world.remove(all[pick(t, len(all))]))
		}
	case "again":
		if all := d.world.all(); len(all) > 0 {
			d.deliver(t, event{object: all[pick(t, len(all))]})
		}
	case "publish":
		d.assume(t, d.world.put(drawPage(t)))
	case "withdraw":
		if page, ok := d.somePage(t); ok {
			d.assume(t, d.world.remove(page))
		}
	case "echo":
		if len(d.echoes) > 0 {
			e := d.echoes[0]
			d.echoes = d.echoes[1:]
			d.check(t, d.feed(e))
		}
	default:
		// What-if questions must leave no trace in what the plugins remember; the next event shows.
		for _, key := range d.inv.Placements() {
			r := decide(d.engine, d.inv, key)
			d.engine.Explain(context.Background(), r, "")
		}
	}
}

func (d *differential) somePage(t *rapid.T) (*v1alpha1.PlacementDecision, bool) {
	var pages []*v1alpha1.PlacementDecision
	for _, o := range d.world.all() {
		if page, ok := o.(*v1alpha1.PlacementDecision); ok {
			pages = append(pages, page)
		}
	}
	if len(pages) == 0 {
		return nil, false
	}
	return pages[pick(t, len(pages))], true
}

// deliver hands an event to the inventory; a watch tells of one object in order, so echoes of it come first.
func (d *differential) deliver(t *rapid.T, e event) {
	var woken []inventory.Key
	d.echoes = slices.DeleteFunc(d.echoes, func(echo event) bool {
		if idOf(echo.object) != idOf(e.object) {
			return false
		}
		woken = append(woken, d.feed(echo)...)
		return true
	})
	d.check(t, append(woken, d.feed(e)...))
}

// assume tells of a page ahead of its echo. Whoever published it knows.
func (d *differential) assume(t *rapid.T, e event) {
	page := e.object.(*v1alpha1.PlacementDecision)
	d.inv.Assume(page, e.deleted)
	d.echoes = append(d.echoes, e)
	d.check(t, d.inv.Placements())
}

func (d *differential) feed(e event) []inventory.Key {
	if e.deleted {
		return d.inv.Delete(e.object)
	}
	return d.inv.Update(e.object)
}

func (d *differential) check(t *rapid.T, woken []inventory.Key) {
	scratch := inventory.New(inventory.Options{})
	all := d.world.all()
	for _, i := range drawOrder(t, len(all)) {
		scratch.Update(all[i])
	}
	if diff := cmp.Diff(scratch.Placements(), d.inv.Placements()); diff != "" {
		t.Fatalf("Placements (-scratch +incremental):\n%s", diff)
	}
	fresh := newScheduler(t, true)
	after := map[inventory.Key]answer{}
	for _, key := range d.inv.Placements() {
		want, got := scratch.Snapshot(key, fixture.Now), d.inv.Snapshot(key, fixture.Now)
		if diff := cmp.Diff(viewOf(want), viewOf(got)); diff != "" {
			t.Fatalf("snapshot of %s (-scratch +incremental):\n%s", key, diff)
		}
		if diff := cmp.Diff(answerOf(decide(fresh, scratch, key)), answerOf(decide(d.engine, d.inv, key))); diff != "" {
			t.Fatalf("answer to %s (-scratch +incremental):\n%s", key, diff)
		}
		after[key] = answerOf(decide(d.unbalanced, d.inv, key))
		old, known := d.before[key]
		if diff := cmp.Diff(old, after[key]); (diff != "" || !known) && !slices.Contains(woken, key) {
			t.Fatalf("%s was not woken although its answer changed (-before +after):\n%s", key, diff)
		}
	}
	d.before = after
}
