package v1alpha1

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PageRelation is the relation of a PlacementDecision to a Placement.
type PageRelation int

const (
	// PageUnrelated is no page of the Placement.
	PageUnrelated PageRelation = iota
	// PageOwn is the only relation of a published page. The Placement controls it, or it has no
	// controller and Berth adopts it.
	PageOwn
	// PageUnfinished has no label yet, so that no consumer reads it. The Placement controls it.
	PageUnfinished
	// PageForeign has the label, but another controller, such as an earlier Placement of the same
	// name. Berth never writes it.
	PageForeign
	// PageDeleting has the label and is being deleted.
	PageDeleting
)

// RelationOf returns the relation of a PlacementDecision to this Placement.
func (p *Placement) RelationOf(page *PlacementDecision) PageRelation {
	controller := metav1.GetControllerOfNoCopy(page)
	controls := controller != nil && p.IsReferredToBy(*controller)
	_, labelled := page.Labels[PlacementLabel]
	deleting := page.DeletionTimestamp != nil
	switch {
	case page.Namespace != p.Namespace:
		return PageUnrelated
	case !labelled && controls && !deleting:
		return PageUnfinished
	case !page.IsLabelledFor(p.Name):
		return PageUnrelated
	case controller != nil && !controls:
		return PageForeign
	case deleting:
		return PageDeleting
	}
	return PageOwn
}

// Publishes reports whether a page counts as published for this Placement: it has its label, no
// other object controls it, and it is not being deleted. Every reader of decisions calls this.
func (p *Placement) Publishes(page *PlacementDecision) bool { return p.RelationOf(page) == PageOwn }

// PublishedPages returns those of the pages that count as published for this Placement.
func (p *Placement) PublishedPages(pages []*PlacementDecision) []*PlacementDecision {
	var published []*PlacementDecision
	for _, page := range pages {
		if p.Publishes(page) {
			published = append(published, page)
		}
	}
	return published
}

// IsLabelledFor is true if the page has the label of the Placement, by which consumers find it.
func (page *PlacementDecision) IsLabelledFor(placement string) bool {
	label, labelled := page.Labels[PlacementLabel]
	return labelled && label == placement
}

// PlacementName returns the name of the page's Placement: from the label, or, without a label, from
// the controller reference; empty without both.
func (page *PlacementDecision) PlacementName() string {
	if name := page.Labels[PlacementLabel]; name != "" {
		return name
	}
	if owner := metav1.GetControllerOfNoCopy(page); owner != nil && owner.Kind == "Placement" {
		return owner.Name
	}
	return ""
}

// IsReferredToBy is true if an owner reference has the UID of this Placement. For a Placement
// without a UID, such as one from a file, the names are compared.
func (p *Placement) IsReferredToBy(owner metav1.OwnerReference) bool {
	if p.UID == "" {
		return owner.Kind == "Placement" && owner.Name == p.Name
	}
	return owner.UID == p.UID
}

// Controls is true if this Placement (same UID) is the controller of an object. For a Placement
// without a UID, such as one from a file, the names are compared.
func (p *Placement) Controls(object metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && p.IsReferredToBy(*owner)
}

// pageInfix is between the name of a Placement and the number of a page in the name of the page.
const pageInfix = "-decision-"

// PageName returns the name of a Placement's page; numbers start at 1.
func PageName(placement string, number int) string {
	return placement + pageInfix + strconv.Itoa(number)
}

// NumberOfPage reverses PageName; ok is false for a name that PageName does not return.
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
