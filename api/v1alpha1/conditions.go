package v1alpha1

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxMessageLength is the maximum length in bytes of the message of every condition that Berth
// writes. The API server refuses a status with a message of more than 32,768 characters.
const MaxMessageLength = 8192

// SetCondition sets a condition as meta.SetStatusCondition does, and cuts its message with
// CutMessage. It returns true if something changed. Berth sets all its conditions with it.
func SetCondition(conditions *[]metav1.Condition, condition metav1.Condition) bool {
	condition.Message = CutMessage(condition.Message)
	return meta.SetStatusCondition(conditions, condition)
}

// CutText returns a text as valid UTF-8 of at most limit bytes; a longer one ends with "…".
func CutText(text string, limit int) string {
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// CutMessage returns a message as valid UTF-8 of at most MaxMessageLength bytes. A longer one ends
// with a note that it was cut, and its original length.
func CutMessage(message string) string {
	if len(message) <= MaxMessageLength {
		return strings.ToValidUTF8(message, "")
	}
	end := fmt.Sprintf("... (cut, %d bytes in all)", len(message))
	return strings.ToValidUTF8(message[:MaxMessageLength-len(end)], "") + end
}

// IsDisabled reports whether the annotation PlacementDisableAnnotation disables scheduling.
func (p *Placement) IsDisabled() bool { return p.Annotations[PlacementDisableAnnotation] == "true" }

// SaysDisabled reports whether the status says that scheduling is disabled. It does until Berth has
// adopted the pages after the annotation was removed.
func (p *Placement) SaysDisabled() bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, PlacementConditionSchedulingDisabled)
}
