package scheduler_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// loseResponses has attempts write pages without getting a response.
func (d *desk) loseResponses() {
	d.t.Helper()
	d.pages.lost = true
	if _, failure := d.try(); failure.IsSuccess() {
		d.t.Fatal("the attempt succeeds")
	}
	d.pages.lost = false
}

// decideAgain is the attempt after lost responses: it only reads the pages.
func (d *desk) decideAgain() {
	d.t.Helper()
	if _, failure := d.try(); failure.IsSuccess() {
		d.t.Fatal("the attempt succeeds")
	}
}

// TestLostResponseOfAStep: the response to a page write is lost, nothing can be read, and other
// clusters are selected before the next attempt. The change starts from what was written.
func TestLostResponseOfAStep(t *testing.T) {
	d := governed(t, 3, nothing)
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.expectStep("a b c x")
	d.loseResponses()
	if got := strings.TrimPrefix(d.published(), "p-decision-1: "); got != "b c x" {
		t.Fatalf("published: %s", got)
	}
	d.tier("silver", "b")
	d.tier("gold", "y")
	d.decideAgain()
	if got := d.records["p-2"].Status; got.Phase != berthv1alpha1.PhasePublished || got.Remaining != nil {
		t.Errorf("the change that was published is %s, remaining %v", got.Phase, got.Remaining)
	}
	for _, want := range []string{"b c x y", "c x y"} {
		d.expectStep(want)
	}
	d.attemptUntilStable()
	if got := d.records["p-3"]; got.Status.Phase != berthv1alpha1.PhasePublished || got.Spec.From != berthv1alpha1.Digest([]string{"b", "c", "x"}) ||
		!slices.Equal(got.Spec.Added, []string{"y"}) || !slices.Equal(got.Spec.Removed, []string{"b"}) {
		t.Errorf("the next change is %+v, %s", got.Spec, got.Status.Phase)
	}
}

// TestLostResponseKeepsQuota: others must not get the quota of clusters that were published,
// although the response was lost.
func TestLostResponseKeepsQuota(t *testing.T) {
	d := newDesk(t, ask(), "a", "b")
	d.queue = &framework.QueueAdmission{Admitted: true, Limit: 2}
	used := 0
	d.scheduler.StoreQuota = func(_ *framework.Subject, clusters int) { used = clusters }
	d.loseResponses()
	for _, when := range []string{"before the pages are read", "when they are read", "when they are decided again"} {
		if used != 2 {
			t.Errorf("quota in use %s: %d, want 2", when, used)
		}
		d.try()
	}
	d.expect("p-decision-1: a b |  | ")
}

// TestRefusedPageEndsQuota: what a write that failed could have published is given back once the
// page was read, although no cluster is selected any more.
func TestRefusedPageEndsQuota(t *testing.T) {
	d := newDesk(t, ask(), "a", "b")
	d.queue = &framework.QueueAdmission{Admitted: true, Limit: 2}
	used := 0
	d.scheduler.StoreQuota = func(_ *framework.Subject, clusters int) { used = clusters }
	d.pages.lost, d.pages.refuse = true, func(string) error { return errors.New("refused") }
	d.try()
	if used != 2 {
		t.Errorf("quota in use while the page is not read: %d, want 2", used)
	}
	d.pages.lost, d.pages.refuse = false, nil
	for _, name := range []string{"a", "b"} {
		d.remove(name)
	}
	d.try()
	d.attemptUntilStable()
	if used != 0 {
		t.Errorf("quota in use after that: %d, want 0", used)
	}
}

// TestNoPageIsNotPublished: an empty decision whose write was refused counts as published only once
// a page says so, not because another client has deleted the page of the decision before it.
func TestNoPageIsNotPublished(t *testing.T) {
	d := newDesk(t, ask(), "a")
	d.attemptUntilStable()
	d.remove("a")
	d.pages.refuse = func(string) error { return errRefused }
	d.try()
	d.pages.refuse = nil
	d.meddle("p-decision-1", func(*v1alpha1.PlacementDecision) bool { return false })
	d.attemptUntilStable()
	if got := d.phase("2"); got != berthv1alpha1.PhasePublished {
		t.Errorf("the change to no cluster is %q: %s", got, d.state())
	}
}

func (d *desk) expectStep(want string) {
	d.t.Helper()
	d.attempt()
	if got := strings.TrimPrefix(d.published(), "p-decision-1: "); got != want {
		d.t.Fatalf("published: %s, want %s", got, want)
	}
}

// TestLostResponseWithoutPolicy: a change that is published at once is recorded, although the
// response was lost, and the next one begins with it.
func TestLostResponseWithoutPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		next func(d *desk)
		want string
	}{
		"the selection stays": {func(*desk) {}, "1 a b c, 2 b c x"},
		"other clusters are selected": {func(d *desk) {
			d.tier("silver", "b")
			d.tier("gold", "y")
		}, "1 a b c, 2 b c x, 3 c x y"},
		"nothing may be changed any more": {func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: "none"} })
		}, "1 a b c, 2 b c x"},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			d.inv.Delete(d.policy.DeepCopy())
			d.tier("silver", "a")
			d.tier("gold", "x")
			d.loseResponses()
			tc.next(d)
			d.decideAgain()
			d.attemptUntilStable()
			var got []string
			names := []string{}
			for _, revision := range []string{"1", "2", "3"} {
				record := d.records["p-"+revision]
				if record == nil {
					continue
				}
				if record.Spec.From != berthv1alpha1.Digest(names) {
					t.Errorf("revision %s does not begin with %v", revision, names)
				}
				names = slices.DeleteFunc(append(names, record.Spec.Added...), func(name string) bool { return slices.Contains(record.Spec.Removed, name) })
				slices.Sort(names)
				got = append(got, revision+" "+strings.Join(names, " "))
			}
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("recorded: %s, want %s", text, tc.want)
			}
			if text := strings.TrimPrefix(d.published(), "p-decision-1: "); text != strings.Join(names, " ") {
				t.Errorf("published: %s", text)
			}
		})
	}
}
