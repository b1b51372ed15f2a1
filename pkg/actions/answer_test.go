package actions

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

var (
	noonTime = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	webKey   = types.NamespacedName{Namespace: "shop", Name: "web"}
)

// web is a Placement of generation 3.
func web() *v1alpha1.Placement {
	pl := fixture.Placement("shop", "web").Generation(3).Obj()
	pl.UID = "web-uid"
	return pl
}

// record is one of web's, from one set of clusters to another, in a phase; edit may be nil.
func record(t *testing.T, first, revision int64, from, to string, phase berthv1alpha1.ChangePhase, edit func(*berthv1alpha1.PlacementChange)) *berthv1alpha1.PlacementChange {
	t.Helper()
	change := changes.NewChange(strings.Fields(from), strings.Fields(to))
	change.Cause, change.Generation = "Placement: spec", 3
	r := changes.NewRecord(web(), first, revision, change)
	r.Status.Phase = phase
	r.Status.StartTime = &metav1.Time{Time: noonTime.Add(-time.Duration(100-revision) * time.Minute)}
	if edit != nil {
		edit(r)
	}
	return r
}

func answered(decision berthv1alpha1.ApprovalDecision, comment string) func(*berthv1alpha1.PlacementChange) {
	return func(r *berthv1alpha1.PlacementChange) {
		r.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: decision, By: "ann", Comment: comment}
	}
}

func TestRecordOf(t *testing.T) {
	history := changes.History{
		record(t, 3, 7, "a", "b", berthv1alpha1.PhasePublished, nil), record(t, 0, 9, "b", "c", berthv1alpha1.PhaseHeld, nil),
	}
	for revision, want := range map[int64]string{
		3: "web-7", 5: "web-7", 7: "web-7", 9: "web-9",
		8: "there is no record of revision 8 of Placement shop/web; there are 3-7, 9",
		2: "there is no record of revision 2 of Placement shop/web; there are 3-7, 9",
	} {
		got := ""
		if r, err := RecordOf(history, webKey, revision); err != nil {
			got = err.Error()
		} else {
			got = r.Name
		}
		if got != want {
			t.Errorf("revision %d: got %q, want %q", revision, got, want)
		}
	}
	if _, err := RecordOf(nil, webKey, 1); err == nil || !strings.Contains(err.Error(), "has no recorded changes") {
		t.Errorf("without records: %v", err)
	}
}

func TestChoose(t *testing.T) {
	generation := func(g int64) func(*berthv1alpha1.PlacementChange) {
		return func(r *berthv1alpha1.PlacementChange) { r.Spec.PlacementGeneration = g }
	}
	published := record(t, 0, 1, "", "a", berthv1alpha1.PhasePublished, nil)
	for name, tc := range map[string]struct {
		history    changes.History
		revision   int64
		unreadable bool
		// What approve and reject choose: the name of the record, or the error.
		wantApprove, wantReject string
	}{
		"no records": {wantApprove: "no change of Placement shop/web is held", wantReject: "no change of Placement shop/web is held"},
		"nothing open": {history: changes.History{published},
			wantApprove: "no change of Placement shop/web is held", wantReject: "no change of Placement shop/web is held"},
		"held": {history: changes.History{published, record(t, 0, 2, "a", "b", berthv1alpha1.PhaseHeld, nil)}, wantApprove: "web-2", wantReject: "web-2"},
		"in progress": {history: changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseProgressing, nil)},
			wantApprove: "change 2 of Placement shop/web is Progressing", wantReject: "change 2 of Placement shop/web is Progressing"},
		"in progress, and held": {
			history: changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseProgressing, func(r *berthv1alpha1.PlacementChange) {
				r.Status.Holds = []berthv1alpha1.ChangeHold{{Plugin: "Movement", Reason: "minAvailable"}}
			})},
			wantApprove: "web-2", wantReject: "change 2 of Placement shop/web is Progressing",
		},
		"approved, and not published yet": {
			history:     changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseHeld, answered(berthv1alpha1.Approved, ""))},
			wantApprove: "change 2 of Placement shop/web was approved by ann already", wantReject: "change 2 of Placement shop/web was approved by ann already",
		},
		"rejected a moment ago": {
			history:     changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseHeld, answered(berthv1alpha1.Rejected, ""))},
			wantApprove: "web-2", wantReject: "change 2 of Placement shop/web was rejected by ann already",
		},
		"rejected, and it still applies": {
			history: changes.History{
				record(t, 0, 2, "a", "b", berthv1alpha1.PhaseRejected, nil), record(t, 0, 3, "a", "c", berthv1alpha1.PhaseRejected, answered(berthv1alpha1.Rejected, "")),
			},
			wantApprove: "web-3", wantReject: "change 3 of Placement shop/web was rejected by ann already",
		},
		"expired, and it still applies": {
			history:     changes.History{published, record(t, 0, 2, "a", "b", berthv1alpha1.PhaseExpired, nil)},
			wantApprove: "web-2", wantReject: "change 2 of Placement shop/web is Expired",
		},
		"expired, and other clusters were published": {
			history:     changes.History{record(t, 0, 2, "z", "b", berthv1alpha1.PhaseExpired, nil)},
			wantApprove: "does not apply any more: other clusters were published since", wantReject: "is Expired",
		},
		"expired, and the Placement was edited": {
			history:     changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseExpired, generation(2))},
			wantApprove: "does not apply any more: the Placement was edited since", wantReject: "is Expired",
		},
		"an older one applies": {
			history: changes.History{
				record(t, 0, 2, "a", "b", berthv1alpha1.PhaseExpired, nil), record(t, 0, 3, "z", "c", berthv1alpha1.PhaseExpired, nil),
			},
			wantApprove: "web-2", wantReject: "change 3 of Placement shop/web is Expired",
		},
		"expired, and the pages cannot be read": {
			history: changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseExpired, nil)}, unreadable: true,
			wantApprove: "no right to list", wantReject: "is Expired",
		},
		"held, and the pages cannot be read": {
			history: changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseHeld, nil)}, unreadable: true, wantApprove: "web-2", wantReject: "web-2",
		},
		"progressing": {history: changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseProgressing, nil)},
			wantApprove: "change 2 of Placement shop/web is Progressing", wantReject: "change 2 of Placement shop/web is Progressing"},
		"not reported": {history: changes.History{record(t, 0, 2, "a", "b", "", nil)},
			wantApprove: "has not reported the phase", wantReject: "has not reported the phase"},
		"a revision": {history: changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseExpired, nil), record(t, 0, 3, "a", "c", berthv1alpha1.PhaseExpired, nil)},
			revision: 2, wantApprove: "web-2", wantReject: "change 2 of Placement shop/web is Expired"},
		"a revision while another change is open": {
			history: changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseExpired, nil), record(t, 0, 3, "a", "c", berthv1alpha1.PhaseHeld, nil)}, revision: 2,
			wantApprove: "change 2 of Placement shop/web is Expired, and change 3 is open now: look at it with kubectl placement history placementchange/web-3 -n shop",
			wantReject:  "change 2 of Placement shop/web is Expired, and change 3 is open now",
		},
		"a revision that was superseded": {
			history: changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseSuperseded, nil), record(t, 0, 3, "a", "c", "", nil)}, revision: 2,
			wantApprove: "change 2 of Placement shop/web is Superseded, and change 3 is open now", wantReject: "change 2 of Placement shop/web is Superseded, and change 3 is open now",
		},
		"held, and the Placement was edited": {
			history:     changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseHeld, generation(2))},
			wantApprove: "does not apply any more: the Placement was edited since", wantReject: "does not apply any more: the Placement was edited since",
		},
		"a revision that ended": {history: changes.History{published},
			revision: 1, wantApprove: "change 1 of Placement shop/web is Published", wantReject: "change 1 of Placement shop/web is Published"},
		"a revision that is not there": {history: changes.History{published}, revision: 4,
			wantApprove: "there is no record of revision 4", wantReject: "there is no record of revision 4"},
	} {
		for _, a := range []answer{answers[Approve], answers[Reject]} {
			want := tc.wantApprove
			if a.value == berthv1alpha1.Rejected {
				want = tc.wantReject
			}
			t.Run(name+", "+a.verb, func(t *testing.T) {
				chosen, err := a.findRecord(web(), tc.history, tc.revision, func() (string, error) {
					if tc.unreadable {
						return "", errors.New("no right to list")
					}
					return berthv1alpha1.Digest([]string{"a"}), nil
				})
				got := ""
				switch {
				case err != nil:
					got = err.Error()
				case chosen != nil:
					got = chosen.Name
				}
				if strings.HasPrefix(want, "web-") != (err == nil) || !strings.Contains(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// TestAnswerSuspended: the error for a suspended change says so, and how to go on.
func TestAnswerSuspended(t *testing.T) {
	history := changes.History{record(t, 0, 2, "a", "b", berthv1alpha1.PhaseProgressing, nil)}
	for policy, want := range map[string]string{
		"stop":        "change 2 of Placement shop/web is Progressing, and suspended: suspended by DisruptionPolicy stop",
		"web-suspend": "change 2 of Placement shop/web is Progressing, and suspended: suspended by DisruptionPolicy web-suspend. To resume: kubectl placement resume web -n shop",
	} {
		pl := web()
		pl.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.PlacementConditionDecisionProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSuspended, Message: "suspended by DisruptionPolicy " + policy,
		}}
		if _, err := answers[Approve].findRecord(pl, history, 0, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", policy, err, want)
		}
	}
}
