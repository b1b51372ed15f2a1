package inventory

import (
	"maps"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// addEdit stores that another client changed the content of a published page, or published one.
// While scheduling is disabled, pages belong to those who write them.
func (inv *Inventory) addEdit(old *page, object *v1alpha1.PlacementDecision) {
	manager, owner := framework.OtherWriter(object), ownerOf(object)
	if old != nil {
		owner = old.owner
	}
	p := inv.placements[owner]
	switch {
	case manager == "" || p == nil || !inv.started || p.delegated:
		return
	case !inv.pages.isExternal(nameOf(object), object) || old == nil && !p.object.Publishes(object):
		return
	case old != nil && (!p.object.Publishes(old.object) && !p.object.Publishes(object) || framework.ContentHash(old.object) == framework.ContentHash(object)):
		return
	}
	edits := maps.Clone(p.edits)
	if edits == nil {
		edits = map[string]framework.PageEdit{}
	}
	edits[object.Name] = framework.PageEdit{Manager: manager, Version: object.ResourceVersion}
	p.edits = edits
	inv.dropSubject(owner)
}

// ForgetEdits drops edits of a Placement's pages that an attempt has seen, except later ones of the
// same pages.
func (inv *Inventory) ForgetEdits(placement Key, seen map[string]framework.PageEdit) {
	if len(seen) == 0 {
		return
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	p := inv.placements[placement]
	if p == nil {
		return
	}
	left := maps.Clone(p.edits)
	maps.DeleteFunc(left, func(page string, edit framework.PageEdit) bool { return seen[page] == edit })
	p.edits, p.subject = left, nil
}
