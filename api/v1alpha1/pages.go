package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Controls is true if this very Placement, not an earlier one of the same name, is the controller of an
// object. A Placement without a UID, as files may hold, is known by its name.
func (p *Placement) Controls(object metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.Kind == "Placement" && owner.Name == p.Name && (p.UID == "" || owner.UID == p.UID)
}
