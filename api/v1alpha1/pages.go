package v1alpha1

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PageStanding is what a PlacementDecision is to a Placement.
type PageStanding int

const (
	// PageUnrelated is no page of the Placement.
	PageUnrelated PageStanding = iota
	// PageOwn is published. The Placement controls it, or nothing does; then Berth adopts it.
	PageOwn
	// PageUnfinished has no label yet, so that no reader sees it. The Placement controls it.
	PageUnfinished
	// PageForeign is published, but something else controls it, such as an earlier Placement of the
	// same name: it counts, and is never written.
	PageForeign
	// PageLeaving is published and is being deleted.
	PageLeaving
)

// StandingOf returns what a PlacementDecision is to this Placement.
func (p *Placement) StandingOf(page *PlacementDecision) PageStanding {
	controller := metav1.GetControllerOfNoCopy(page)
	controls := controller != nil && p.IsReferredToBy(*controller)
	_, labelled := page.Labels[PlacementLabel]
	leaving := page.DeletionTimestamp != nil
	switch {
	case page.Namespace != p.Namespace:
		return PageUnrelated
	case !labelled && controls && !leaving:
		return PageUnfinished
	case !page.IsLabelledFor(p.Name):
		return PageUnrelated
	case controller != nil && !controls:
		return PageForeign
	case leaving:
		return PageLeaving
	}
	return PageOwn
}

// IsLabelledFor reports whether readers of a Placement of the page's namespace see the page.
func (page *PlacementDecision) IsLabelledFor(placement string) bool {
	label, labelled := page.Labels[PlacementLabel]
	return labelled && label == placement
}

// PlacementName returns the name of the Placement whose page this is: by label, or, while it has
// none, by controller; empty for the page of no Placement.
func (page *PlacementDecision) PlacementName() string {
	if name := page.Labels[PlacementLabel]; name != "" {
		return name
	}
	if owner := metav1.GetControllerOfNoCopy(page); owner != nil && owner.Kind == "Placement" {
		return owner.Name
	}
	return ""
}

// IsReferredToBy reports whether an owner reference means this very Placement. A Placement without
// a UID, as files may hold, is known by its name.
func (p *Placement) IsReferredToBy(owner metav1.OwnerReference) bool {
	if p.UID == "" {
		return owner.Kind == "Placement" && owner.Name == p.Name
	}
	return owner.UID == p.UID
}

// Controls is true if this very Placement, not an earlier one of the same name, is the controller
// of an object. A Placement without a UID, as files may hold, is known by its name.
func (p *Placement) Controls(object metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && p.IsReferredToBy(*owner)
}

// pageInfix is between the name of a Placement and the number of a page in the name of the page.
const pageInfix = "-decision-"

// PageName is the name of a Placement's page with a number from 1.
func PageName(placement string, number int) string {
	return placement + pageInfix + strconv.Itoa(number)
}

// NumberOfPage is the reverse of PageName; false for a name that PageName does not return.
func NumberOfPage(page string) (placement string, number int, ok bool) {
	i := strings.LastIndex(page, pageInfix)
	if i < 1 {
		return "", 0, false
	}
	text := page[i+len(pageInfix):]
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || strconv.Itoa(n) != text {
		return "", 0, false
	}
	return page[:i], n, true
}
