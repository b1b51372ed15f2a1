package framework

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// FieldManager is the field manager of Berth's writes of pages.
const FieldManager = "berth"

// FenceFieldManager is the field manager of Fence. It does not count as a writer of pages.
const FenceFieldManager = "berth-fence"

// OCMFieldManager is that of Open Cluster Management's placement controller.
const OCMFieldManager = "placement"

// KeepOtherWriter removes the managed fields of a page, except the name of the field manager that
// wrote it last if that is not Berth. Their times have whole seconds: a manager that wrote in the
// same second as Berth counts as the last one.
func KeepOtherWriter(page *v1alpha1.PlacementDecision) {
	other, last := "", time.Time{}
	for _, entry := range page.ManagedFields {
		at := time.Time{}
		if entry.Time != nil {
			at = entry.Time.Time
		}
		switch {
		case entry.Manager == FenceFieldManager, at.Before(last) || at.Equal(last) && entry.Manager == FieldManager:
		case entry.Manager == FieldManager:
			other, last = "", at
		default:
			other, last = entry.Manager, at
		}
	}
	page.ManagedFields = nil
	if other != "" {
		page.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: other}}
	}
}

// OtherWriter returns the name that KeepOtherWriter kept; empty if there is none.
func OtherWriter(page *v1alpha1.PlacementDecision) string {
	if len(page.ManagedFields) == 0 {
		return ""
	}
	return page.ManagedFields[0].Manager
}

// PageEdit is the last change of the content of a page by another client than Berth.
type PageEdit struct {
	// Manager is the field manager of the client.
	Manager string
	// Version is the resource version of the page after the edit.
	Version string
}
