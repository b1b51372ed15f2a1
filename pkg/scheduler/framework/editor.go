package framework

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// KeepEditor removes the managed fields of a Placement, except the name of the field manager that
// wrote fields of the spec last, if no annotation says who edited the Placement.
func KeepEditor(pl *v1alpha1.Placement) {
	var editor *metav1.ManagedFieldsEntry
	for i := range pl.ManagedFields {
		entry := &pl.ManagedFields[i]
		if entry.Subresource != "" || entry.FieldsV1 == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			continue
		}
		if editor == nil || editor.Time == nil || entry.Time != nil && editor.Time.Before(entry.Time) {
			editor = entry
		}
	}
	pl.ManagedFields = nil
	if editor != nil && pl.Annotations[berthv1alpha1.EditedByAnnotation] == "" {
		pl.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: editor.Manager}}
	}
}

// Editor returns who edited a Placement last, with the comment: the user that the annotation names
// or, without it, the field manager that KeepEditor kept. It is empty if neither is known. Without
// a user it has no comment, because an earlier edit may have left it.
func Editor(pl *v1alpha1.Placement) (by, comment string) {
	if text := pl.Annotations[berthv1alpha1.EditedByAnnotation]; text != "" {
		_, user, _ := strings.Cut(text, " ")
		return user, pl.Annotations[berthv1alpha1.CommentAnnotation]
	}
	if len(pl.ManagedFields) == 0 {
		return "", ""
	}
	return "field manager " + pl.ManagedFields[0].Manager, ""
}
