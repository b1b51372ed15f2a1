package inventory

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// SetExtenderAnswer stores the answer of an extender about a Placement. It returns the Placement,
// which is affected, or nothing if it was deleted meanwhile.
func (inv *Inventory) SetExtenderAnswer(key Key, uid types.UID, extender framework.ExtenderKey, answer *framework.ExtenderAnswer) []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	p := inv.placements[key]
	if p == nil || p.object.UID != uid {
		return nil
	}
	inv.addInput(Input{Kind: InputExtender, Placement: key, Extender: extender.String(), Answer: answer})
	inv.setExtenderAnswer(p, extender.String(), answer)
	affected := affectedSet{key: {}}
	inv.setCauseText(affected, "extender "+extender.Name)
	return affected.keys()
}

func (inv *Inventory) setExtenderAnswer(p *placement, extender string, answer *framework.ExtenderAnswer) {
	answers := maps.Clone(p.extenders)
	if answers == nil {
		answers = map[string]*framework.ExtenderAnswer{}
	}
	answers[extender] = answer
	p.extenders, p.subject = answers, nil
}
