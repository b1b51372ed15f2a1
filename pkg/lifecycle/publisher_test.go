package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// unanswered is a framework.PageClient whose writes fail, except Fence, and that then shows one
// page.
type unanswered struct {
	framework.PageClient
	found *v1alpha1.PlacementDecision
	// err is what writes fail with, and fenceErr what fences do.
	err, fenceErr error
	// readErr is what the next read fails with.
	readErr error
}

var errLost = errors.New("the answer is lost")

func (u *unanswered) Create(context.Context, *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return nil, errLost
}

func (u *unanswered) Update(context.Context, *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	if u.err != nil {
		return nil, u.err
	}
	return nil, errLost
}

func (u *unanswered) Fence(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	if u.fenceErr != nil {
		return nil, u.fenceErr
	}
	u.found = page.DeepCopy()
	u.found.ResourceVersion += "0"
	return u.found, nil
}

func (u *unanswered) Delete(context.Context, *v1alpha1.PlacementDecision) error { return errLost }

func (u *unanswered) Read(_ context.Context, _, name string) (*v1alpha1.PlacementDecision, error) {
	if err := u.readErr; err != nil {
		u.readErr = nil
		return nil, err
	}
	if u.found == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "placementdecisions"}, name)
	}
	return u.found, nil
}

// TestWriteWithoutAnswer: a failed write counts if the hub shows afterwards what it was to do. The
// inventory learns of what the hub shows in any case.
func TestWriteWithoutAnswer(t *testing.T) {
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
	page := func(queue string, clusters ...string) decisions.Page {
		p := decisions.Page{Name: "p-decision-0", Queue: queue}
		for _, c := range clusters {
			p.Decisions = append(p.Decisions, v1alpha1.ClusterDecision{ClusterName: c})
		}
		return p
	}
	published := page("q", "a").Object(pl)
	published.UID, published.ResourceVersion = "d", "1"
	edited := func(edit func(*v1alpha1.PlacementDecision)) *v1alpha1.PlacementDecision {
		wanted := page("q", "a", "b").Object(pl)
		wanted.ResourceVersion = "2"
		edit(wanted)
		return wanted
	}
	wanted := edited(func(*v1alpha1.PlacementDecision) {})
	going := edited(func(d *v1alpha1.PlacementDecision) { d.DeletionTimestamp = &metav1.Time{} })
	for name, tc := range map[string]struct {
		op      decisions.Op
		found   *v1alpha1.PlacementDecision
		want    bool
		assumed []string // names, with a minus for what is gone, and a plus for another version
	}{
		"created":                        {decisions.Create, wanted, true, []string{"p-decision-0", "p-decision-0"}},
		"not created":                    {decisions.Create, nil, false, []string{"-p-decision-0"}},
		"created and going":              {decisions.Create, going, false, []string{"p-decision-0"}},
		"updated":                        {decisions.Update, wanted, true, []string{"p-decision-0", "p-decision-0"}},
		"not updated":                    {decisions.Update, published, false, []string{"p-decision-0", "+p-decision-0"}},
		"updated, and gone since":        {decisions.Update, nil, false, []string{"-p-decision-0"}},
		"other labels":                   {decisions.Update, edited(func(d *v1alpha1.PlacementDecision) { d.Labels = nil }), false, []string{"p-decision-0", "+p-decision-0"}},
		"another queue":                  {decisions.Update, edited(func(d *v1alpha1.PlacementDecision) { d.Annotations = nil }), false, []string{"p-decision-0", "+p-decision-0"}},
		"other owners":                   {decisions.Update, edited(func(d *v1alpha1.PlacementDecision) { d.OwnerReferences = nil }), false, []string{"p-decision-0", "+p-decision-0"}},
		"deleted":                        {decisions.Delete, nil, true, []string{"-p-decision-0", "-p-decision-0"}},
		"deleted, with finalizers":       {decisions.Delete, going, true, []string{"p-decision-0", "-p-decision-0"}},
		"not deleted":                    {decisions.Delete, published, false, []string{"p-decision-0", "+p-decision-0"}},
		"not deleted, but lists the new": {decisions.Delete, wanted, false, []string{"p-decision-0", "+p-decision-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := &unanswered{found: tc.found}
			var assumed []string
			plugin, err := NewDecisionPublisher(t.Context(), nil, &framework.Handle{Pages: hub, Assume: func(d *v1alpha1.PlacementDecision, gone bool) {
				switch {
				case gone:
					assumed = append(assumed, "-"+d.Name)
				case strings.HasSuffix(d.ResourceVersion, "0"):
					assumed = append(assumed, "+"+d.Name)
				default:
					assumed = append(assumed, d.Name)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			p := plugin.(*DecisionPublisher)
			w := decisions.Write{Op: tc.op, Page: page("q", "a", "b")}
			if tc.op != decisions.Create {
				w.Page.Current = published
			}
			done, err := p.writePage(t.Context(), pl, w)
			if (err == nil) != tc.want || err != nil && !errors.Is(err, errLost) {
				t.Errorf("got error %v, want the write to count: %t", err, tc.want)
			}
			if tc.want && tc.op != decisions.Delete && done.Page != hub.found {
				t.Errorf("the write is reported with page %v", done.Page)
			}
			if tc.want && tc.op == decisions.Delete && done.Page != published {
				t.Errorf("the deletion is reported with page %v", done.Page)
			}
			if diff := cmp.Diff(tc.assumed, assumed); diff != "" {
				t.Errorf("updates of the inventory (-want +got):\n%s", diff)
			}
			if len(p.failed) > 0 {
				t.Errorf("still unverified: %v", p.failed)
			}
		})
	}
}

// TestPagesInDoubtAreReadFirst: where the page cannot be read after a failed write, it is read
// before anything else is planned.
func TestPagesInDoubtAreReadFirst(t *testing.T) {
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
	page := decisions.Page{Name: "p-decision-0"}
	hub := &unanswered{found: page.Object(pl), readErr: errors.New("hub is down")}
	updates := 0
	plugin, err := NewDecisionPublisher(t.Context(), nil, &framework.Handle{Pages: hub, Assume: func(*v1alpha1.PlacementDecision, bool) { updates++ }})
	if err != nil {
		t.Fatal(err)
	}
	p := plugin.(*DecisionPublisher)
	if _, err := p.writePage(t.Context(), pl, decisions.Write{Op: decisions.Create, Page: page}); !errors.Is(err, errLost) || updates != 0 {
		t.Fatalf("got error %v, and %d updates of the inventory", err, updates)
	}
	if found, err := p.Verify(t.Context(), pl); err != nil || found[page.Name] != hub.found || updates != 1 {
		t.Errorf("got %v, %v, and %d updates of the inventory", found, err, updates)
	}
	if len(p.failed) > 0 {
		t.Errorf("still unverified: %v", p.failed)
	}
}

// completing is a hub that does not answer creations, and carries out updates.
type completing struct{ unanswered }

func (*completing) Update(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return page, nil
}

// TestCompletedCreationCounts once: a page that exists without its label after its creation has
// failed is created by the update that adds the label.
func TestCompletedCreationCounts(t *testing.T) {
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
	hub := &completing{}
	p := newPublisher(t, &framework.Handle{Pages: hub})
	create := func(name string) decisions.Page {
		page := decisions.Page{Name: name}
		hub.found = page.Object(pl)
		hub.found.Labels = nil
		if _, err := p.writePage(t.Context(), pl, decisions.Write{Op: decisions.Create, Page: page}); !errors.Is(err, errLost) {
			t.Fatalf("got error %v", err)
		}
		page.Current = hub.found
		return page
	}
	for _, page := range []decisions.Page{create("p-decision-0"), create("p-decision-1")} {
		for _, want := range []bool{true, false} {
			done, err := p.writePage(t.Context(), pl, decisions.Write{Op: decisions.Update, Page: page})
			if err != nil || done.Created != want || done.DecisionsChanged != want {
				t.Errorf("%s: got %+v, %v, want created: %t", page.Name, done, err, want)
			}
		}
	}
	if len(p.begun) > 0 {
		t.Errorf("still begun: %v", p.begun)
	}
	create("p-decision-2")
	if p.Forget(types.NamespacedName{Namespace: "n", Name: "p"}); len(p.begun) > 0 {
		t.Errorf("begun, although the Placement is gone: %v", p.begun)
	}
}

// TestUnansweredWriteCannotFollow: a page whose last write has no answer gets another version
// before it is planned again, unless the API server has refused the write or carried it out.
func TestUnansweredWriteCannotFollow(t *testing.T) {
	resource := schema.GroupResource{Resource: "placementdecisions"}
	for name, tc := range map[string]struct {
		err, fenceErr error
		foreign       bool
		again         bool   // Verify has to try again
		want          string // the page's version: Fence appends a digit
	}{
		"no answer":              {err: errLost, want: "10"},
		"a timeout":              {err: apierrors.NewTimeoutError("etcd", 1), want: "10"},
		"a failing server":       {err: apierrors.NewServerTimeout(resource, "update", 1), want: "10"},
		"a failing webhook":      {err: apierrors.NewInternalError(errLost), want: "1"},
		"a conflict":             {err: apierrors.NewConflict(resource, "p-decision-0", errLost), want: "1"},
		"refused":                {err: apierrors.NewForbidden(resource, "p-decision-0", errLost), want: "1"},
		"too many requests":      {err: apierrors.NewTooManyRequests("later", 1), want: "1"},
		"another writer between": {err: errLost, fenceErr: apierrors.NewConflict(resource, "p-decision-0", errLost), want: "1"},
		"no answer twice":        {err: errLost, fenceErr: errLost, want: "1", again: true},
		"given to another owner": {err: errLost, foreign: true, want: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
			hub := &unanswered{found: decisions.Page{Name: "p-decision-0"}.Object(pl), err: tc.err, fenceErr: tc.fenceErr}
			hub.found.ResourceVersion = "1"
			if tc.foreign {
				hub.found.Labels[v1alpha1.PlacementLabel] = "another"
			}
			p := newPublisher(t, &framework.Handle{Pages: hub})
			w := decisions.Write{Op: decisions.Update, Page: decisions.Page{Name: "p-decision-0", Current: hub.found, Decisions: []v1alpha1.ClusterDecision{{ClusterName: "a"}}}}
			if _, err := p.writePage(t.Context(), pl, w); !errors.Is(err, tc.err) {
				t.Fatalf("got error %v", err)
			}
			if got := hub.found.ResourceVersion; got != tc.want {
				t.Errorf("the page has version %s, want %s", got, tc.want)
			}
			if got := p.isUnverified(pl); got != tc.again {
				t.Errorf("still unverified: %t", got)
			}
			if !tc.again {
				return
			}
			hub.fenceErr = nil
			if found, err := p.Verify(t.Context(), pl); err != nil || found["p-decision-0"].ResourceVersion != "10" || p.isUnverified(pl) {
				t.Errorf("tried again: got %v, %v, still unverified: %t", found, err, p.isUnverified(pl))
			}
		})
	}
}

// TestPagesOfClusterProfilesAreNotWatched: each attempt repairs them, so none is skipped.
func TestPagesOfClusterProfilesAreNotWatched(t *testing.T) {
	for args, want := range map[string]bool{`{}`: true, `{"clusterProfiles": {"enabled": true}}`: false} {
		plugin, err := NewDecisionPublisher(t.Context(), json.RawMessage(args), &framework.Handle{Client: fake.NewFakeClient()})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := plugin.(framework.Rechecker).Recheck(nil); ok != want {
			t.Errorf("%s: can be skipped: %t, want %t", args, ok, want)
		}
	}
}
