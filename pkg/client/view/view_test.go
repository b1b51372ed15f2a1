package view

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func page(name, group string) *v1alpha1.PlacementDecision {
	p := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"group": group}}}
	p.ManagedFields, p.Annotations = []metav1.ManagedFieldsEntry{{Manager: "x"}}, map[string]string{"long": "text"}
	return p
}

// TestView: objects change their group, are stripped, and are replaced all at once.
func TestView(t *testing.T) {
	changes := 0
	v := New(nil, Options[*v1alpha1.PlacementDecision]{
		GroupOf: func(p *v1alpha1.PlacementDecision) string { return p.Labels["group"] },
		Strip:   func(p *v1alpha1.PlacementDecision) { p.Annotations = nil },
		Changed: func() { changes++ },
	})
	s := store[*v1alpha1.PlacementDecision]{v}
	has := func(group string, want ...string) {
		t.Helper()
		var got []string
		for _, p := range v.Group(group) {
			got = append(got, p.Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("group %s has %v, want %v", group, got, want)
		}
	}
	if since, _ := v.Lost(); v.Complete() || since.IsZero() {
		t.Error("the view is complete before the first list")
	}
	for _, err := range []error{
		s.Replace([]any{page("a", "one"), page("b", "one"), page("c", "two")}, "1"),
		s.Update(page("b", "two")),
		s.Add(page("d", "one")),
		s.Delete(page("c", "any")),
		s.Delete(page("unknown", "one")),
		s.Resync(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	has("one", "a", "d")
	has("two", "b")
	has("three")
	object, ok := v.Get(types.NamespacedName{Namespace: "ns", Name: "b"})
	if !ok || object.Labels["group"] != "two" || object.ManagedFields != nil || object.Annotations != nil {
		t.Errorf("b is %+v", object)
	}
	if since, err := v.Lost(); !v.Complete() || !since.IsZero() || err != nil || changes != 5 {
		t.Errorf("the view is lost since %v, error %v, after %d changes", since, err, changes)
	}
	_ = s.Replace([]any{page("e", "two")}, "2")
	has("one")
	has("two", "e")
	if len(v.groups) != 1 || len(v.objects) != 1 {
		t.Errorf("the view keeps %v", v.groups)
	}
}

// TestLost: a question without an answer, and an error, count as a lost connection.
func TestLost(t *testing.T) {
	v := New(nil, Options[client.Object]{})
	_ = store[client.Object]{v}.Replace(nil, "1")
	v.asking()
	began, _ := v.Lost()
	if began.IsZero() {
		t.Error("a question without an answer does not count")
	}
	v.answered(context.DeadlineExceeded, true)
	v.asking()
	if since, err := v.Lost(); since != began || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("lost since %v, error %v", since, err)
	}
	v.answered(nil, false)
	if since, _ := v.Lost(); since.IsZero() {
		t.Error("a watch that begins with a list counts before the list is there")
	}
	v.answered(nil, true)
	if since, err := v.Lost(); !since.IsZero() || err != nil {
		t.Errorf("lost since %v, error %v", since, err)
	}
}
