package controllers

import (
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestWithoutRevision: the page that the publisher planned stays as it is.
func TestWithoutRevision(t *testing.T) {
	page := fixture.Page("ns", "p-decision-1").Obj()
	page.Annotations = map[string]string{berthv1alpha1.RevisionAnnotation: "3", "a": "b"}
	if got := withoutRevision(page).Annotations; len(got) != 1 || got["a"] != "b" {
		t.Errorf("annotations %v", got)
	}
	if page.Annotations[berthv1alpha1.RevisionAnnotation] != "3" {
		t.Error("the argument has changed")
	}
}
