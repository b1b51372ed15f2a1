package v1alpha1

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxMessageLength bounds the message of every condition that Berth writes, in bytes. The API takes
// 32,768 characters, and refuses the whole status beyond that.
const MaxMessageLength = 8192

// SetCondition sets a condition as meta.SetStatusCondition does, with its message cut by
// CutMessage. It reports whether something changed. All conditions that Berth writes go through it.
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

// CutMessage returns a message as a condition has it: valid UTF-8 of at most MaxMessageLength
// bytes. A longer one ends by saying that the rest is cut, and how long it was.
func CutMessage(message string) string {
	if len(message) <= MaxMessageLength {
		return strings.ToValidUTF8(message, "")
	}
	end := fmt.Sprintf("... (cut, %d bytes in all)", len(message))
	return strings.ToValidUTF8(message[:MaxMessageLength-len(end)], "") + end
}
