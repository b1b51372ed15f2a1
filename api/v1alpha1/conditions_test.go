package v1alpha1

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSetConditionCutsTheMessage(t *testing.T) {
	tests := map[string]struct {
		message, wantPrefix, wantSuffix string
		wantLength                      int
	}{
		"empty":                  {},
		"short":                  {message: "a", wantPrefix: "a", wantLength: 1},
		"the longest":            {message: strings.Repeat("a", MaxMessageLength), wantSuffix: "aaa", wantLength: MaxMessageLength},
		"one byte more":          {message: strings.Repeat("a", MaxMessageLength+1), wantPrefix: "aaa", wantSuffix: "a... (cut, 8193 bytes in all)", wantLength: MaxMessageLength},
		"a megabyte":             {message: strings.Repeat("a", 1<<20), wantPrefix: "aaa", wantSuffix: "a... (cut, 1048576 bytes in all)", wantLength: MaxMessageLength},
		"cut inside a character": {message: "a" + strings.Repeat("ß", 1<<20), wantPrefix: "aßß", wantSuffix: "ß... (cut, 2097153 bytes in all)", wantLength: MaxMessageLength},
		"no valid text":          {message: "a\xffb", wantPrefix: "ab", wantLength: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var conditions []metav1.Condition
			set := func() bool {
				return SetCondition(&conditions, metav1.Condition{Type: "T", Status: metav1.ConditionTrue, Reason: "R", Message: tc.message})
			}
			if !set() || set() {
				t.Error("the condition changes once, not twice")
			}
			got := conditions[0].Message
			if !utf8.ValidString(got) || !strings.HasPrefix(got, tc.wantPrefix) || !strings.HasSuffix(got, tc.wantSuffix) {
				t.Errorf("got %.20q ... %q", got, got[max(0, len(got)-40):])
			}
			if len(got) > tc.wantLength || len(got) < tc.wantLength-1 {
				t.Errorf("got %d bytes, want %d", len(got), tc.wantLength)
			}
		})
	}
}
