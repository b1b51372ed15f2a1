package actions

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

// selects is a preview that would select these clusters.
type selects struct{ clusters, undecided string }

func (s selects) Selected(context.Context, client.ObjectKey) ([]string, string, error) {
	return strings.Fields(s.clusters), s.undecided, nil
}

func (s selects) WhyNot(_ context.Context, _ client.ObjectKey, cluster string) string {
	return "Predicate: no " + cluster
}

// step is one revision of a history: the clusters after it, and spec.before if it follows an edit.
type step struct {
	clusters, before string
	edited           bool
	phase            berthv1alpha1.ChangePhase
	// partly are the clusters that a change published that another one superseded.
	partly string
}

// historyHub is a hub with a Placement, the records of its steps, and a page with the clusters that
// are published.
func historyHub(t *testing.T, pl *v1alpha1.Placement, steps []step) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{pl}
	published, generation := "", int64(1)
	for i, s := range steps {
		change := changes.NewChange(strings.Fields(published), strings.Fields(s.clusters))
		change.Cause, change.Before, change.PublishedGeneration = "Placement: spec", s.before, generation
		if i == 0 {
			change.PublishedGeneration = 0
		}
		if s.edited {
			generation++
		}
		change.Generation = generation
		if i > 0 && steps[i-1].partly != "" {
			// The edit is not published.
			change.PublishedGeneration--
		}
		record := changes.NewRecord(pl, 0, int64(i+1), change)
		if record.Status.Phase = s.phase; s.phase == "" {
			record.Status.Phase, published = berthv1alpha1.PhasePublished, s.clusters
		} else if s.partly != "" {
			published, record.Status.PermittedTime = s.partly, new(metav1.Unix(1, 0))
		}
		objects = append(objects, record)
	}
	pl.Generation = generation
	page := fixture.Page(pl.Namespace, v1alpha1.PageName(pl.Name, 1)).Of(pl.Name).Lists(strings.Fields(published)...).Obj()
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, page)...).Build()
}

const (
	three = "a b c"
	eight = "a b c d e f g h"
)

// TestReturn: undo restores a spec, and pin keeps clusters, only if a preview has the clusters of
// the revision.
func TestReturn(t *testing.T) {
	edit := func(clusters, before string) step { return step{clusters: clusters, before: before, edited: true} }
	fewer := []step{{clusters: eight}, edit("a b", `{"numberOfClusters":8}`)}
	emptied := []step{{clusters: three}, edit("", `{"numberOfClusters":3}`), edit("x y", `{"clusterSets":["none"]}`)}
	for name, tc := range map[string]struct {
		// restored is numberOfClusters afterwards.
		number   int32
		steps    []step
		request  Request
		preview  selects
		want     string
		revision int64
		restored int32
	}{
		"undo restores the number": {2, fewer, Request{Verb: Undo}, selects{clusters: eight}, "", 1, 8},
		"undo to other clusters": {2, fewer, Request{Verb: Undo}, selects{clusters: "a b c d e f g x"},
			"undo is refused: Placement shop/web would not have the clusters of revision 1 but 7 of its 8; without h (Predicate: no h); with x; --allow-others permits that", 1, 8},
		"undo to other clusters if permitted": {2, fewer, Request{Verb: Undo, AllowOthers: true}, selects{clusters: "a b c d e f g x"}, "", 1, 8},
		"undo to fewer others": {2, fewer, Request{Verb: Undo, AllowOthers: true}, selects{clusters: "x"},
			"undo is refused: Placement shop/web would have 1 clusters, and 2 are published; --allow-fewer permits that", 1, 8},
		"undo of a change in steps with more than it has before and after": {2, []step{{clusters: "a b"},
			{clusters: "x y", before: `{"clusterSets":["s"]}`, edited: true, phase: berthv1alpha1.PhaseProgressing, partly: "a b x"}},
			Request{Verb: Undo}, selects{clusters: "a b"}, "", 1, 2},
		"undo to none of them": {2, fewer, Request{Verb: Undo}, selects{clusters: ""},
			"would not have the clusters of revision 1 but 0 of its 8; without a (Predicate: no a); without b (Predicate: no b); without c (Predicate: no c) and 5 more", 1, 8},
		"undo without a decision": {2, fewer, Request{Verb: Undo}, selects{undecided: "spec.x: invalid"},
			"undo is refused: Placement shop/web would not be decided: spec.x: invalid", 1, 8},
		"undo does not choose an empty revision": {3, emptied, Request{Verb: Undo}, selects{},
			"nothing to undo: revision 2 of Placement shop/web, before the edit (Placement: spec), has no clusters; name another revision: 3, 2, 1", 0, 3},
		"undo to an empty revision by name": {3, emptied, Request{Verb: Undo, Revision: 2}, selects{},
			"would have 0 clusters, and 2 are published; --allow-fewer permits that", 2, 3},
		"undo several edits": {3, emptied, Request{Verb: Undo, Revision: 1}, selects{clusters: three}, "", 1, 3},
		"undo to fewer": {8, []step{{clusters: "a b"}, edit(eight, `{"numberOfClusters":2}`)}, Request{Verb: Undo}, selects{clusters: "a b"},
			"undo is refused: Placement shop/web would have 2 clusters, and 8 are published; --allow-fewer permits that", 1, 2},
		"undo to fewer if permitted": {8, []step{{clusters: "a b"}, edit(eight, `{"numberOfClusters":2}`)}, Request{Verb: Undo, AllowFewer: true},
			selects{clusters: "a b"}, "", 1, 2},
		"undo of a held edit": {2, []step{{clusters: eight}, {clusters: "a b", before: `{"numberOfClusters":8}`, edited: true, phase: berthv1alpha1.PhaseHeld}},
			Request{Verb: Undo}, selects{clusters: eight}, "", 1, 8},
		"undo of an edit whose first changes were superseded": {2, []step{
			{clusters: eight},
			{clusters: "a b", before: `{"numberOfClusters":8}`, edited: true, phase: berthv1alpha1.PhaseSuperseded, partly: "a b c d e"},
			{clusters: "a x", before: `{"numberOfClusters":8}`, phase: berthv1alpha1.PhaseSuperseded, partly: "a b c x"},
			{clusters: "a b", before: `{"numberOfClusters":8}`},
		}, Request{Verb: Undo}, selects{clusters: eight}, "", 1, 8},
		"undo of no edit": {3, []step{{clusters: three}, {clusters: "a b d"}}, Request{Verb: Undo}, selects{},
			"nothing to undo: no change of Placement shop/web follows an edit of its spec; pin keeps", 0, 3},
		"undo past an edit that is not known": {3, []step{{clusters: three}, edit("a b", "")}, Request{Verb: Undo}, selects{},
			"nothing was undone: the spec before revision 2 is not known", 1, 3},
		"pin keeps what is published": {3, []step{{clusters: three}}, Request{Verb: Pin}, selects{clusters: three}, "", 1, 3},
		"pin to clusters that do not qualify": {3, []step{{clusters: three}, {clusters: "x y z"}}, Request{Verb: Pin, Revision: 1}, selects{},
			"pin is refused: Placement shop/web would not have the clusters of revision 1 but 0 of its 3; without a (Predicate: no a)", 1, 3},
		"pin to more clusters than wanted": {2, fewer, Request{Verb: Pin, Revision: 1}, selects{clusters: "a b"},
			"would not have the clusters of revision 1 but 2 of its 8; numberOfClusters is 2; without c", 1, 2},
		"pin to a part": {2, fewer, Request{Verb: Pin, Revision: 1, AllowFewer: true}, selects{clusters: "a b"}, "", 1, 2},
		"pin to nothing": {2, fewer, Request{Verb: Pin, Revision: 1, AllowFewer: true}, selects{},
			"pin is refused: Placement shop/web would not have the clusters of revision 1 but 0 of its 8", 1, 2},
		"pin to an empty revision": {3, emptied, Request{Verb: Pin, Revision: 2, AllowFewer: true}, selects{}, "revision 2 of Placement shop/web has no clusters", 2, 3},
		"pin to an unknown one":    {3, emptied, Request{Verb: Pin, Revision: 9}, selects{}, "are not known: it has no record; possible revisions are 3, 2, 1", 9, 3},
	} {
		t.Run(name, func(t *testing.T) {
			pl := fixture.Placement("shop", "web").Number(tc.number).Obj()
			pl.UID = "web-uid"
			hub := historyHub(t, pl, tc.steps)
			tc.request.Placement = webKey
			p, err := Prepare(t.Context(), hub, tc.request)
			if err == nil {
				err = p.Check(t.Context(), tc.preview)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") || p.Revision != tc.revision {
				t.Fatalf("revision %d, error %q; want %d, %q", p.Revision, got, tc.revision, tc.want)
			}
			if err != nil {
				return
			}
			if _, err := p.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			now, err := ReadPlacement(t.Context(), hub, webKey)
			if err != nil {
				t.Fatal(err)
			}
			annotations := map[string]string(nil)
			if tc.request.Verb == Pin {
				annotations = map[string]string{berthv1alpha1.PinnedRevisionAnnotation: "1"}
			}
			if diff := cmp.Diff(annotations, now.Annotations); diff != "" || *now.Spec.NumberOfClusters != tc.restored {
				t.Errorf("numberOfClusters is %d, annotations (-want +got):\n%s", *now.Spec.NumberOfClusters, diff)
			}
		})
	}
}

// TestReturnOfEdited: what was shown is written, or nothing.
func TestReturnOfEdited(t *testing.T) {
	pl := fixture.Placement("shop", "web").Number(2).Obj()
	pl.UID = "web-uid"
	hub := historyHub(t, pl, []step{{clusters: three}, {clusters: "a b", before: `{"numberOfClusters":3}`, edited: true}})
	p, err := Prepare(t.Context(), hub, Request{Verb: Undo, Placement: webKey})
	if err != nil {
		t.Fatal(err)
	}
	edited, err := ReadPlacement(t.Context(), hub, webKey)
	if err != nil {
		t.Fatal(err)
	}
	edited.Spec.ClusterSets = []string{"other"}
	if err := hub.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Do(t.Context()); err == nil || !strings.Contains(err.Error(), "was edited meanwhile") {
		t.Errorf("got %v", err)
	}
}
