package inventory_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// writtenBy returns a page whose last writer is another one than Berth.
func writtenBy(manager string, page *v1alpha1.PlacementDecision) *v1alpha1.PlacementDecision {
	page.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager}}
	return page
}

// pageOf is the page of Placement plain, written for a revision; empty for none.
func pageOf(version, revision string, clusters ...string) *v1alpha1.PlacementDecision {
	page := fixture.Page("n", "plain-decision-1").Of("plain").Version(version).Lists(clusters...).Obj()
	if revision != "" {
		page.Annotations = map[string]string{berthv1alpha1.RevisionAnnotation: revision}
	}
	return page
}

func lastNames(inv *inventory.Inventory) []string { return inv.Subject(plainKey).LastNames() }

// TestLastAfterARestart: what Berth published last is what the pages list, unless the newest record
// says otherwise, and the pages are not newer than it.
func TestLastAfterARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		page     *v1alpha1.PlacementDecision
		recorded berthv1alpha1.ChangePhase
		disabled bool
		want     []string
		damaged  bool
	}{
		"without records":                     {page: pageOf("9", "1", "x"), want: []string{"x"}},
		"a page as recorded":                  {page: pageOf("9", "1", "c1"), recorded: berthv1alpha1.PhasePublished, want: []string{"c1"}},
		"an edited page":                      {page: pageOf("9", "1", "x"), recorded: berthv1alpha1.PhasePublished, want: []string{"c1"}, damaged: true},
		"a page that OCM decided":             {page: writtenBy("placement", pageOf("9", "1", "x")), recorded: berthv1alpha1.PhasePublished, want: []string{"x"}},
		"a page that a user edited":           {page: writtenBy("kubectl-edit", pageOf("9", "1", "x")), recorded: berthv1alpha1.PhasePublished, want: []string{"c1"}, damaged: true},
		"no page":                             {recorded: berthv1alpha1.PhasePublished, want: []string{"c1"}, damaged: true},
		"a page of a change without record":   {page: pageOf("9", "2", "x"), recorded: berthv1alpha1.PhasePublished, want: []string{"x"}},
		"a page without a revision":           {page: pageOf("9", "", "x"), recorded: berthv1alpha1.PhasePublished, want: []string{"x"}},
		"a change in progress":                {page: pageOf("9", "1", "x"), recorded: berthv1alpha1.PhaseProgressing, want: []string{"x"}},
		"an edited page, while disabled":      {page: pageOf("9", "1", "x"), recorded: berthv1alpha1.PhasePublished, disabled: true, want: []string{"x"}},
		"a page that was deleted meanwhile":   {recorded: berthv1alpha1.PhasePublished, disabled: true},
		"neither a page nor a record is left": {},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			pl := plainWith("u")
			if tc.disabled {
				pl.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PlacementConditionSchedulingDisabled, Status: metav1.ConditionTrue}}
			}
			inv.Update(pl)
			if tc.recorded != "" {
				inv.Update(record("u", 1, 8, tc.recorded, "c1"))
			}
			if tc.page != nil {
				inv.Update(tc.page)
			}
			subject := inv.Subject(plainKey)
			if got := subject.LastNames(); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if subject.Last != nil && subject.Last.Damaged(subject) != tc.damaged {
				t.Errorf("damaged: %t", !tc.damaged)
			}
		})
	}
}

// TestWhoOwnsThePages: an edit of a page changes what was published last only while scheduling is
// disabled, and in an inventory that follows another process.
func TestWhoOwnsThePages(t *testing.T) {
	disable := func(inv *inventory.Inventory, value string) {
		pl := plainWith("u")
		pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: value}
		inv.Update(pl)
	}
	for name, tc := range map[string]struct {
		follows bool
		before  func(*inventory.Inventory)
		want    string
	}{
		"enabled":         {before: func(*inventory.Inventory) {}, want: "c1"},
		"disabled":        {before: func(inv *inventory.Inventory) { disable(inv, "true") }, want: "x"},
		"not adopted yet": {before: func(inv *inventory.Inventory) { disable(inv, "true"); disable(inv, "false") }, want: "x"},
		"adopted": {before: func(inv *inventory.Inventory) {
			disable(inv, "true")
			disable(inv, "false")
			inv.AdoptPages(inv.Subject(plainKey), 3)
		}, want: "c1"},
		"a forged condition": {before: func(inv *inventory.Inventory) {
			pl := plainWith("u")
			pl.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PlacementConditionSchedulingDisabled, Status: metav1.ConditionTrue}}
			inv.Update(pl)
		}, want: "c1"},
		"an attempt that ends while disabled": {before: func(inv *inventory.Inventory) {
			subject := inv.Subject(plainKey)
			disable(inv, "true")
			inv.SetPublished(subject, &framework.Published{Names: []string{"c2"}})
		}, want: "x"},
		"following": {follows: true, before: func(*inventory.Inventory) {}, want: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{Follows: tc.follows})
			inv.Update(plainWith("u"))
			inv.Update(pageOf("8", "1", "c1"))
			if got := lastNames(inv); !slices.Equal(got, []string{"c1"}) {
				t.Fatalf("before: %v", got)
			}
			tc.before(inv)
			inv.Update(pageOf("9", "1", "x"))
			if got := lastNames(inv); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

// TestAssumePages: a list shows what the watch of pages has not reported yet.
func TestAssumePages(t *testing.T) {
	other := fixture.Page("n", "other-decision-1").Of("other").Version("30").Lists("z").Obj()
	for name, tc := range map[string]struct {
		list    []v1alpha1.PlacementDecision
		version string
		want    []string
	}{
		"an edited page":       {list: []v1alpha1.PlacementDecision{*pageOf("20", "", "x"), *other}, version: "40", want: []string{"x"}},
		"an earlier state":     {list: []v1alpha1.PlacementDecision{*pageOf("2", "", "x")}, version: "40", want: []string{"c1"}},
		"a deleted page":       {version: "40"},
		"a page created later": {version: "5", want: []string{"c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{Follows: true})
			inv.Update(plainWith("u"))
			inv.Update(fixture.Placement("n", "other").Obj())
			inv.Update(pageOf("10", "", "c1"))
			inv.AssumePages(plainKey, tc.list, tc.version)
			for _, page := range inv.Subject(plainKey).OwnPages() {
				for i := range tc.list {
					if page == &tc.list[i] {
						t.Errorf("%s keeps the whole list in memory", page.Name)
					}
				}
			}
			if got := lastNames(inv); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if got := names(inv.Update(other)); !slices.Equal(got, []string{"n/other"}) {
				t.Errorf("the edit of another Placement's page affects %v", got)
			}
		})
	}
}

// TestOnPublished: the call comes after the published clusters are known.
func TestOnPublished(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	key := inventory.Key{Namespace: "n", Name: "p"}
	inv.Update(fixture.Placement(key.Namespace, key.Name).Obj())
	var seen [][]string
	inv.OnPublished(func(placement inventory.Key) { seen = append(seen, inv.Subject(placement).LastNames()) })
	inv.SetPublished(inv.Subject(key), &framework.Published{Names: []string{"a"}, Digest: framework.DigestOf([]string{"a"})})
	inv.SetPublished(inv.Subject(key), nil)
	if diff := cmp.Diff([][]string{{"a"}}, seen); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}

// TestRevisionAfterAnAdoption: the record of what other writers published is newer than the pages,
// so that an older change does not go on.
func TestRevisionAfterAnAdoption(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(plainWith("u"))
	inv.Update(record("u", 8, 9, berthv1alpha1.PhasePublished, "c1"))
	inv.Update(pageOf("9", "7", "c1"))
	if got := inv.Subject(plainKey).LastRevision(); got != 8 {
		t.Errorf("revision %d, want 8", got)
	}
}

// TestNothingPublishedAfterAnAdoption: other writers deleted all pages, and the record of that is
// the newest one. An empty page is missing.
func TestNothingPublishedAfterAnAdoption(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(plainWith("u"))
	inv.Update(record("u", 1, 8, berthv1alpha1.PhasePublished, "c1"))
	emptied := record("u", 2, 9, berthv1alpha1.PhasePublished)
	emptied.Spec.Removed, emptied.Spec.From = []string{"c1"}, berthv1alpha1.Digest([]string{"c1"})
	inv.Update(emptied)
	subject := inv.Subject(plainKey)
	if last := subject.Last; last == nil || last.Revision != 2 || len(last.Names) != 0 || !last.Damaged(subject) {
		t.Errorf("got %+v", last)
	}
}

// TestEditedPageDoesNotEndTheStart: an edit of a page or status, which is undone, and the
// acceptance of an eviction are no reason to weigh again what has drifted before the start.
func TestEditedPageDoesNotEndTheStart(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(plainWith("u"))
	inv.Update(pageOf("9", "1", "c1"))
	inv.Started()
	subject := inv.Subject(plainKey)
	first := *subject.Last
	first.FromPages = false
	inv.SetPublished(subject, &first)
	check := func(after string, want bool) {
		t.Helper()
		if got := inv.Subject(plainKey).Last.SinceStart; got != want {
			t.Errorf("after %s: %t", after, got)
		}
	}
	check("the first attempt", true)
	inv.Update(writtenBy("kubectl-edit", pageOf("10", "1")))
	check("an edit of the page", true)
	inv.Delete(pageOf("10", "1"))
	check("the deletion of the page", true)
	written := plainWith("u")
	written.ResourceVersion, written.Status.NumberOfSelectedClusters = "10", 7
	inv.Update(written)
	check("an edit of the status", true)
	eviction := fixture.Eviction("n", "e", "plain", "c1")
	inv.Update(eviction.Obj())
	if affected := inv.Update(eviction.Valid(metav1.ConditionTrue).Obj()); len(affected) == 0 {
		t.Error("the acceptance of an eviction affects nobody")
	}
	check("the acceptance of an eviction", true)
	pl := plainWith("u")
	pl.Generation, pl.ResourceVersion = pl.Generation+1, "11"
	pl.Spec.NumberOfClusters = new(int32(1))
	inv.Update(pl)
	check("an edit of the Placement", false)
}

// TestAllPagesGone: pages that are all gone count as the last complete change, also if a later one
// was permitted, or its record has no status.
func TestAllPagesGone(t *testing.T) {
	permitted := record("v", 2, 9, berthv1alpha1.PhaseHeld, "c2")
	permitted.Status.PermittedTime = &metav1.Time{}
	for name, later := range map[string]*berthv1alpha1.PlacementChange{
		"held":           record("v", 2, 9, berthv1alpha1.PhaseHeld, "c2"),
		"permitted":      permitted,
		"in steps":       record("v", 2, 9, berthv1alpha1.PhaseProgressing, "c2"),
		"without status": record("v", 2, 9, "", "c2"),
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(plainWith("u"))
			inv.Update(record("u", 1, 8, berthv1alpha1.PhasePublished, "c1"))
			inv.Update(later)
			if got := lastNames(inv); !slices.Equal(got, []string{"c1"}) {
				t.Errorf("got %v", got)
			}
		})
	}
}
