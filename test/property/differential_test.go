package property

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestIncrementalInventory feeds random events to an inventory. After each it compares the contents
// and the decisions with those of an inventory built from scratch. If a decision changes, other
// than through Balance, the inventory must have returned the Placement, unless an attempt is owed.
func TestIncrementalInventory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &differential{
			world: newWorld(), mirror: newMirror(),
			engine: newScheduler(t, true), unbalanced: newScheduler(t, false), before: map[inventory.Key]answer{},
			reserved: map[inventory.Key]map[string]bool{},
		}
		d.inv = inventory.New(inventory.Options{OnInput: d.mirror.record})
		for range rapid.IntRange(5, 50).Draw(rt, "events") {
			d.step(rt)
		}
	})
}

type differential struct {
	world *world
	inv   *inventory.Inventory
	// mirror has the recorded inputs of inv.
	mirror *mirror
	// engine and unbalanced live for all events, as the plugins' caches do.
	engine, unbalanced *scheduler.Scheduler
	// before are the decisions without Balance before the event.
	before map[inventory.Key]answer
	// echoes are the pending watch events of pages that the inventory has already assumed.
	echoes []event
	// late are the events of pages that the watch delivered before the writer assumed them.
	late []event
	// reserved are the decisions that are being published, by Placement and cluster.
	reserved map[inventory.Key]map[string]bool
}

func (d *differential) step(t *rapid.T) {
	switch action := oneOf(t, "action", "put", "put", "put", "put", "delete", "again", "publish", "withdraw", "echo", "tell late",
		"reserve", "unreserve", "disable", "adopt", "explain"); action {
	case "put":
		d.deliver(t, d.world.put(d.world.drawObject(t)))
	case "delete":
		if all := d.world.all(); len(all) > 0 {
			d.deliver(t, d.world.remove(all[pick(t, len(all))]))
		}
	case "again":
		if all := d.world.all(); len(all) > 0 {
			d.deliver(t, event{object: all[pick(t, len(all))]})
		}
	case "publish":
		page := drawPage(t)
		had := d.owners(page)
		d.assume(t, d.world.put(page), had)
	case "withdraw":
		if page, ok := d.somePage(t); ok {
			d.assume(t, d.world.remove(page), nil)
		}
	case "tell late":
		if len(d.late) > 0 {
			e := d.late[pick(t, len(d.late))]
			d.inv.AssumePage(e.object.(*v1alpha1.PlacementDecision), e.deleted)
			d.check(t, nil)
		}
	case "echo":
		if len(d.echoes) > 0 {
			e := d.echoes[0]
			d.echoes = d.echoes[1:]
			d.check(t, d.feed(e))
		}
	case "reserve":
		d.reserve(t)
	case "unreserve":
		key := drawKey(t)
		d.inv.Claim(key, nil)
		delete(d.reserved, key)
		d.check(t, nil)
	case "disable":
		if pl := d.inv.Placement(drawKey(t)); pl != nil {
			pl = pl.DeepCopy()
			metav1.SetMetaDataAnnotation(&pl.ObjectMeta, v1alpha1.PlacementDisableAnnotation, oneOf(t, "disabled", "true", "false"))
			d.deliver(t, d.world.put(pl))
		}
	case "adopt":
		for _, key := range d.inv.Placements() {
			if _, delegated := d.inv.Delegated(key); delegated {
				d.inv.AdoptPages(d.inv.Subject(key), 1)
			}
		}
		d.check(t, nil)
	default:
		// Explanations must not change the caches of plugins; the next event shows it.
		for _, key := range d.inv.Placements() {
			r := decideOne(d.engine, d.inv, key)
			d.engine.Explain(context.Background(), r.Decision, "")
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

func drawKey(t *rapid.T) inventory.Key {
	return inventory.Key{Namespace: oneOf(t, "namespace", namespaceNames...), Name: oneOf(t, "placement", placementNames...)}
}

// reserve counts decisions that are not published yet. A Placement that does not exist has none.
func (d *differential) reserve(t *rapid.T) {
	key, clusters := drawKey(t), rapid.SliceOfN(rapid.SampledFrom(decidedNames), 0, 3).Draw(t, "clusters")
	d.inv.Claim(key, clusters)
	if d.inv.Placement(key) != nil {
		reserved := map[string]bool{}
		for _, name := range clusters {
			reserved[name] = true
		}
		d.reserved[key] = reserved
	}
	d.check(t, nil)
}

// owners returns the Placement of the current page, if there is one.
func (d *differential) owners(page *v1alpha1.PlacementDecision) []inventory.Key {
	if old, ok := d.world.objects[idOf(page)].(*v1alpha1.PlacementDecision); ok {
		return []inventory.Key{ownerOf(old)}
	}
	return nil
}

// ownerOf returns the Placement of a page: by label, and by owner if it has no label.
func ownerOf(page *v1alpha1.PlacementDecision) inventory.Key {
	name := page.Labels[v1alpha1.PlacementLabel]
	if owner := metav1.GetControllerOf(page); name == "" && owner != nil {
		name = owner.Name
	}
	return inventory.Key{Namespace: page.Namespace, Name: name}
}

// deliver passes an event to the inventory. A watch delivers the events of one object in order, so
// its echoes come first.
func (d *differential) deliver(t *rapid.T, e event) {
	var woken []inventory.Key
	d.echoes = slices.DeleteFunc(d.echoes, func(echo event) bool {
		if idOf(echo.object) != idOf(e.object) {
			return false
		}
		woken = append(woken, d.feed(echo)...)
		return true
	})
	if _, ok := e.object.(*v1alpha1.PlacementDecision); ok {
		d.late = append(d.late, e)
	}
	if record, ok := e.object.(*berthv1alpha1.PlacementChange); ok {
		// Records are written in attempts for the Placement.
		woken = append(woken, inventory.Key{Namespace: record.Namespace, Name: record.Spec.Placement})
	}
	d.check(t, append(woken, d.feed(e)...))
}

// assume passes a page to the inventory ahead of its echo. The publisher knows the Placements that
// have and had the page, so both count as affected.
func (d *differential) assume(t *rapid.T, e event, had []inventory.Key) {
	page := e.object.(*v1alpha1.PlacementDecision)
	d.inv.AssumePage(page, e.deleted)
	d.echoes = append(d.echoes, e)
	d.check(t, append(had, ownerOf(page)))
}

func (d *differential) feed(e event) []inventory.Key {
	if e.deleted {
		if pl, ok := e.object.(*v1alpha1.Placement); ok {
			delete(d.reserved, inventory.Key{Namespace: pl.Namespace, Name: pl.Name})
		}
		return d.inv.Delete(e.object)
	}
	return d.inv.Update(e.object)
}

// isOwed reports whether an attempt is owed anyway: the pages do not list what was published last,
// which a record says.
func isOwed(s *framework.Snapshot) bool {
	last := s.Subject.Last
	return last != nil && !slices.Equal(framework.PublishedOn(s.Subject.OwnPages()).Names, last.Names)
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
	d.mirror.check(t, d.inv)
	for _, key := range d.inv.Placements() {
		want, got := scratch.Subject(key), d.inv.Subject(key)
		if _, delegated := d.inv.Delegated(key); delegated {
			// Only the status says this to a new inventory.
			scratch.SetPublished(want, framework.PublishedOn(want.OwnPages()))
			continue
		}
		// No attempt restores edited pages here: what they list now counts as published last.
		if want.Last != nil {
			d.inv.SetPublished(got, want.Last)
		} else if got.Last != nil {
			d.inv.SetPublished(got, framework.PublishedOn(nil))
			scratch.SetPublished(want, framework.PublishedOn(nil))
		}
		for _, name := range scratch.Subject(key).LastNames() {
			delete(d.reserved[key], name)
		}
	}
	for key, clusters := range d.reserved {
		scratch.Claim(key, slices.Collect(maps.Keys(clusters)))
	}
	after := map[inventory.Key]answer{}
	for _, key := range d.inv.Placements() {
		want, got := scratch.Snapshot(key, fixture.Now, nil), d.inv.Snapshot(key, fixture.Now, nil)
		if diff := cmp.Diff(viewOf(want), viewOf(got)); diff != "" {
			t.Fatalf("snapshot of %s (-scratch +incremental):\n%s", key, diff)
		}
		if diff := cmp.Diff(ask(fresh, scratch, key), ask(d.engine, d.inv, key)); diff != "" {
			t.Fatalf("answer to %s (-scratch +incremental):\n%s", key, diff)
		}
		after[key] = ask(d.unbalanced, d.inv, key)
		d.mirror.compare(t, d.inv, key)
		old, known := d.before[key]
		if diff := cmp.Diff(old, after[key]); (diff != "" || !known) && !slices.Contains(woken, key) && !isOwed(got) {
			t.Fatalf("%s was not affected although its decision changed (-before +after):\n%s", key, diff)
		}
	}
	d.before = after
}
