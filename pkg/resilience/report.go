package resilience

import (
	"cmp"
	"fmt"
	"slices"
)

// Report says which domains Placements can lose, one at a time. Placements that are not satisfied
// come first, then those that survive least.
type Report struct {
	By         string      `json:"by"`
	Placements []Placement `json:"placements"`
}

// Placement is the result for one Placement.
type Placement struct {
	Placement string `json:"placement"`
	// Skipped is "disabled" or "terminating" for a Placement that is not decided; then all other
	// fields are empty.
	Skipped string `json:"skipped,omitempty"`
	// Satisfied is whether it has as many clusters as it wants before a loss, and violates no
	// constraint. If not, Why is the reason, and no loss is tried.
	Satisfied     bool   `json:"satisfied"`
	Why           string `json:"why,omitempty"`
	Misconfigured bool   `json:"misconfigured,omitempty"`
	// Selected counts the clusters before a loss; Wanted is numberOfClusters, absent if all are
	// wanted.
	Selected int  `json:"selected"`
	Wanted   *int `json:"wanted,omitempty"`
	// Domains are those with clusters that the Placement may use; it survives the loss of Survived
	// of them. WithoutDomain counts the clusters that it may use that are in no domain.
	Domains       int `json:"domains"`
	Survived      int `json:"survived"`
	WithoutDomain int `json:"withoutDomain,omitempty"`
	// Losses are the domains whose loss changes the decision, the weakest first.
	Losses []Loss `json:"losses"`
	// Message says it all in one line.
	Message string `json:"message"`
}

// Loss is what the loss of one domain does.
type Loss struct {
	Domain string `json:"domain"`
	// Clusters counts the clusters of the domain that the Placement may use, Lost those that it
	// had.
	Clusters int `json:"clusters"`
	Lost     int `json:"lost"`
	// Satisfied is whether it is satisfied without the domain. If not, Missing clusters are missing
	// and Why is the reason.
	Satisfied bool   `json:"satisfied"`
	Missing   int    `json:"missing,omitempty"`
	Why       string `json:"why,omitempty"`
	// Added are clusters that it gets, Removed clusters outside of the domain that it gives up.
	Added   int `json:"added"`
	Removed int `json:"removed"`
}

// changes reports whether the loss changes the decision.
func (l *Loss) changes() bool { return !l.Satisfied || l.Lost+l.Added+l.Removed > 0 }

// compare orders losses: the weakest domain first.
func compare(a, b Loss) int {
	if a.Satisfied != b.Satisfied {
		if a.Satisfied {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.Missing, a.Missing), cmp.Compare(b.Added+b.Removed, a.Added+a.Removed), cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.Domain, b.Domain))
}

// Add adds the loss of a domain.
func (p *Placement) Add(l Loss) {
	p.Domains++
	if l.Satisfied {
		p.Survived++
	}
	if l.changes() {
		p.Losses = append(p.Losses, l)
	}
}

// Finish sorts the losses and sets Message.
func (p *Placement) Finish(by Key) {
	slices.SortFunc(p.Losses, compare)
	p.Message = p.message(by)
}

// Weakest is the domain whose loss does most harm; nil if no loss changes the decision.
func (p *Placement) Weakest() *Loss {
	if len(p.Losses) == 0 {
		return nil
	}
	return &p.Losses[0]
}

func (p *Placement) message(by Key) string {
	switch {
	case p.Skipped != "":
		return "not decided: " + p.Skipped
	case !p.Satisfied:
		return "not satisfied before a loss: " + p.Why
	case p.Domains == 0:
		return fmt.Sprintf("no cluster that it may use has the %s %s", by.kind, by.name)
	}
	text := fmt.Sprintf("%d of %s can be lost", p.Survived, by.domains(p.Domains))
	weakest := p.Weakest()
	switch {
	case weakest == nil:
		return text
	case weakest.Satisfied:
		return fmt.Sprintf("%s; weakest is %s: %s", text, Short(weakest.Domain), p.Effect(weakest))
	}
	text = fmt.Sprintf("%s; not %s: %s", text, Short(weakest.Domain), p.Effect(weakest))
	switch others := p.Domains - p.Survived - 1; others {
	case 0:
	case 1:
		text += "; 1 other cannot be lost either"
	default:
		text += fmt.Sprintf("; %d others cannot be lost either", others)
	}
	return text
}

// Effect describes a loss in words.
func (p *Placement) Effect(l *Loss) string {
	switch {
	case !l.Satisfied && l.Missing > 0:
		text := fmt.Sprintf("%d of %d clusters would be missing", l.Missing, p.wanted())
		if l.Why != "" {
			text += " (" + l.Why + ")"
		}
		return text
	case !l.Satisfied:
		return "it would not be satisfied: " + l.Why
	case l.Removed > 0:
		return fmt.Sprintf("%d of %d clusters lost, %d more removed, %d added", l.Lost, p.Selected, l.Removed, l.Added)
	}
	return fmt.Sprintf("%d of %d clusters lost, %d replaced", l.Lost, p.Selected, l.Added)
}

// wanted is the number of clusters of which some are missing.
func (p *Placement) wanted() int {
	if p.Wanted != nil {
		return *p.Wanted
	}
	return p.Selected
}

// Sort orders the Placements.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Placements, func(a, b Placement) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.Survived, b.Survived), cmp.Compare(b.missing(), a.missing()),
			cmp.Compare(a.Placement, b.Placement))
	})
}

// order is 0 for a Placement that is not satisfied, 1 for one that does not survive the loss of
// each domain, 2 for one that does, 3 for one that is not decided.
func (p *Placement) order() int {
	switch {
	case p.Skipped != "":
		return 3
	case !p.Satisfied:
		return 0
	case p.Survived < p.Domains || p.Domains == 0:
		return 1
	}
	return 2
}

func (p *Placement) missing() int {
	if weakest := p.Weakest(); weakest != nil {
		return weakest.Missing
	}
	return 0
}

// Below returns the Placements that survive the loss of fewer than n domains, without those that
// are not decided.
func (r *Report) Below(n int) []string {
	var names []string
	for i := range r.Placements {
		if p := &r.Placements[i]; p.Skipped == "" && p.Survived < n {
			names = append(names, p.Placement)
		}
	}
	return names
}
