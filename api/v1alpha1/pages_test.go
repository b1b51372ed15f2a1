package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPages(t *testing.T) {
	owner := func(kind, name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)}
	}
	mine := owner("Placement", "p", "u")
	for name, tc := range map[string]struct {
		namespace string
		label     *string
		owners    []metav1.OwnerReference
		leaving   bool
		// file is true for a Placement without a UID.
		file         bool
		want         PageRelation
		wantControls bool
		wantName     string
	}{
		"labelled and controlled":            {label: new("p"), owners: []metav1.OwnerReference{mine}, want: PageOwn, wantControls: true, wantName: "p"},
		"labelled, without a controller":     {label: new("p"), want: PageOwn, wantName: "p"},
		"labelled, with an owner only":       {label: new("p"), owners: []metav1.OwnerReference{{Kind: "Other", UID: "v"}}, want: PageOwn, wantName: "p"},
		"controlled, not labelled":           {owners: []metav1.OwnerReference{mine}, want: PageUnfinished, wantControls: true, wantName: "p"},
		"not labelled, being deleted":        {owners: []metav1.OwnerReference{mine}, leaving: true, want: PageUnrelated, wantControls: true, wantName: "p"},
		"neither labelled nor controlled":    {want: PageUnrelated},
		"labelled for another Placement":     {label: new("q"), owners: []metav1.OwnerReference{mine}, want: PageUnrelated, wantControls: true, wantName: "q"},
		"an empty label":                     {label: new(""), owners: []metav1.OwnerReference{mine}, want: PageUnrelated, wantControls: true, wantName: "p"},
		"an earlier Placement's":             {label: new("p"), owners: []metav1.OwnerReference{owner("Placement", "p", "v")}, want: PageForeign, wantName: "p"},
		"an earlier Placement's, unfinished": {owners: []metav1.OwnerReference{owner("Placement", "p", "v")}, want: PageUnrelated, wantName: "p"},
		"another kind's":                     {label: new("p"), owners: []metav1.OwnerReference{owner("Other", "p", "v")}, want: PageForeign, wantName: "p"},
		"another kind's, not labelled":       {owners: []metav1.OwnerReference{owner("Other", "p", "v")}, want: PageUnrelated},
		"being deleted":                      {label: new("p"), owners: []metav1.OwnerReference{mine}, leaving: true, want: PageDeleting, wantControls: true, wantName: "p"},
		"an earlier one's, being deleted":    {label: new("p"), owners: []metav1.OwnerReference{owner("Placement", "p", "v")}, leaving: true, want: PageForeign, wantName: "p"},
		"in another namespace":               {namespace: "other", label: new("p"), owners: []metav1.OwnerReference{mine}, want: PageUnrelated, wantControls: true, wantName: "p"},
		"of a file":                          {file: true, label: new("p"), owners: []metav1.OwnerReference{owner("Placement", "p", "any")}, want: PageOwn, wantControls: true, wantName: "p"},
		"of another in a file":               {file: true, label: new("p"), owners: []metav1.OwnerReference{owner("Placement", "q", "")}, want: PageForeign, wantName: "p"},
		"of another kind in a file":          {file: true, label: new("p"), owners: []metav1.OwnerReference{owner("Other", "p", "")}, want: PageForeign, wantName: "p"},
		"of a file, unfinished":              {file: true, owners: []metav1.OwnerReference{owner("Placement", "p", "")}, want: PageUnfinished, wantControls: true, wantName: "p"},
	} {
		t.Run(name, func(t *testing.T) {
			pl := &Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
			if tc.file {
				pl.UID = ""
			}
			page := &PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-decision-1", OwnerReferences: tc.owners}}
			if tc.namespace != "" {
				page.Namespace = tc.namespace
			}
			if tc.label != nil {
				page.Labels = map[string]string{PlacementLabel: *tc.label}
			}
			if tc.leaving {
				page.DeletionTimestamp = new(metav1.Now())
			}
			if got := pl.RelationOf(page); got != tc.want {
				t.Errorf("relation %d, want %d", got, tc.want)
			}
			if got, want := pl.Publishes(page), tc.want == PageOwn; got != want || len(pl.PublishedPages([]*PlacementDecision{page})) > 0 != want {
				t.Errorf("published: %t, want %t", got, want)
			}
			if got := pl.Controls(page); got != tc.wantControls {
				t.Errorf("controlled: %t, want %t", got, tc.wantControls)
			}
			if got := page.PlacementName(); got != tc.wantName {
				t.Errorf("page of %q, want %q", got, tc.wantName)
			}
			if got, want := page.IsLabelledFor("p"), tc.label != nil && *tc.label == "p"; got != want {
				t.Errorf("labelled: %t, want %t", got, want)
			}
		})
	}
}
