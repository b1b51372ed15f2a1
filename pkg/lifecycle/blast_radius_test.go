package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// start is when the tests of this file begin.
var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// loss is a change of a Placement that removes clusters.
type loss struct {
	// at is when it is proposed, after the start.
	at time.Duration
	// placement is p and namespace is ns unless it is said; has is how many clusters it has, 10
	// unless it is said.
	placement    string
	namespace    string
	has, removed int
	// from is the number of the first cluster that is removed.
	from int
	// edited says that the Placement was edited since its last decision.
	edited bool
	// failed says that the attempt fails after a page was written.
	failed bool
	// digest is d unless it is said.
	digest   string
	approved bool
	// held are the plugins that hold the change already; ended says that its hold ended.
	held  string
	ended bool
	// undone says that the change fails later.
	undone bool
	// revision is that of the change. If step is not 0, only so many clusters are removed now.
	revision int64
	step     int

	// want is what Permit answers: "pass", "settle 5s" (a delay), or a part of the reason
	// for which it is held.
	want string
}

func (l loss) proposal() *framework.Proposal {
	digest := l.digest
	if digest == "" {
		digest = "d"
	}
	p := &framework.Proposal{Digest: digest, Approved: l.approved, Revision: l.revision}
	if l.ended {
		p.ExpiredBy = []string{BlastRadiusName}
	}
	for i := range l.removed {
		p.Removed = append(p.Removed, fmt.Sprintf("c%d", l.from+i))
	}
	p.Edited = l.edited
	p.Clusters = make([]string, max(0, l.has-l.removed))
	for plugin := range strings.FieldsSeq(l.held) {
		p.HeldBy = map[string]time.Time{plugin: start.Add(time.Hour)}
	}
	return p
}

// attempts are those of all Placements, one after the other, with what the engine remembers from
// one to the next.
type attempts struct {
	*BlastRadius
	// waiting are the changes that the last attempts proposed, by Placement.
	waiting map[types.UID]framework.Stability
}

func newAttempts(t *testing.T, args string) attempts {
	t.Helper()
	plugin, err := NewBlastRadius(t.Context(), json.RawMessage(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	return attempts{plugin.(*BlastRadius), map[types.UID]framework.Stability{}}
}

// time measures as the engine does for how long a change has been proposed.
func (a attempts) time(pl *v1alpha1.Placement, p *framework.Proposal, now time.Time) {
	before := a.waiting[pl.UID]
	p.Since, p.RemovingSince = now, now
	if before.Digest == p.Digest {
		p.Since = before.Since
	}
	if !before.RemovingSince.IsZero() {
		p.RemovingSince = before.RemovingSince
	}
	a.waiting[pl.UID] = framework.Stability{Digest: p.Digest, Since: p.Since, RemovingSince: p.RemovingSince}
	if len(p.Removed) == 0 {
		delete(a.waiting, pl.UID)
	}
}

// propose asks the plugin about the loss and renders the answer as loss.want is written.
func (a attempts) propose(t *testing.T, l loss) string {
	t.Helper()
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	if l.placement != "" {
		pl.Name, pl.UID = l.placement, types.UID(l.placement)
	}
	if l.namespace != "" {
		pl.Namespace = l.namespace
	}
	if l.has == 0 {
		l.has = 10
	}
	subject := &framework.Subject{Placement: pl}
	p, now := l.proposal(), start.Add(l.at)
	a.time(pl, p, now)
	state := framework.NewCycleState(&framework.Snapshot{Now: now, Subject: subject, PluginCounts: map[string]any{BlastRadiusName: a.Counts()}})
	dry, _ := a.Permit(t.Context(), state, pl, p)
	if status := a.Reserve(t.Context(), state, pl, p); !status.IsSuccess() {
		t.Fatalf("Reserve: %v", status.Err())
	}
	status, timeout := a.Permit(t.Context(), state, pl, p)
	if dry.Code() != status.Code() || dry.Reason() != status.Reason() {
		t.Errorf("a dry run says %s %q, the attempt %s %q", dry.Code(), dry.Reason(), status.Code(), status.Reason())
	}
	if l.failed {
		p.Writes = make([]framework.PageWrite, 1)
	}
	if l.undone || l.failed || !status.IsSuccess() {
		a.Unreserve(t.Context(), state, pl, p)
	} else {
		published := p
		if l.step > 0 {
			published = &framework.Proposal{Removed: p.Removed[:l.step], Revision: l.revision, Partial: true}
		}
		a.PostBind(t.Context(), state, pl, published)
	}
	if waits := a.waiting[pl.UID]; status.Code() != framework.Pending {
		waits.RemovingSince = time.Time{}
		a.waiting[pl.UID] = waits
	}
	switch status.Code() {
	case framework.Success:
		return "pass"
	case framework.Pending:
		return "settle " + state.Requeue().Sub(now).String()
	case framework.Wait:
		if timeout != 7*24*time.Hour {
			t.Errorf("held for %s", timeout)
		}
		return status.Reason()
	}
	return status.Err().Error()
}

func TestBlastRadius(t *testing.T) {
	const atOnce = `, "settle": "0s"}`
	const changed = "the change was too large when it was held"
	tests := map[string]struct {
		args   string
		losses []loss
	}{
		"off without arguments": {"", []loss{{removed: 10, want: "pass"}}},
		"additions pass":        {`{"maxRemoved": 0` + atOnce, []loss{{removed: 0, want: "pass"}}},
		"a share": {`{"maxRemoved": "20%"` + atOnce, []loss{
			{removed: 2, undone: true, want: "pass"},
			{removed: 3, want: "3 of 10 clusters would be removed within 10m0s, more than 20%"},
		}},
		"a share is rounded down": {`{"maxRemoved": "29%"` + atOnce, []loss{{removed: 2, undone: true, want: "pass"}, {removed: 3, want: "3 of 10"}}},
		"no share at all":         {`{"maxRemoved": "0%"` + atOnce, []loss{{removed: 2, want: "2 of 10"}}},
		"all of it":               {`{"maxRemoved": "100%"` + atOnce, []loss{{removed: 10, want: "pass"}}},
		"a number":                {`{"maxRemoved": 4` + atOnce, []loss{{removed: 4, undone: true, want: "pass"}, {removed: 5, want: "5 of 10 clusters would be removed within 10m0s, more than 4"}}},
		"few are not looked at":   {`{"maxRemoved": 0` + atOnce, []loss{{removed: 1, undone: true, want: "pass"}, {removed: 2, want: "2 of 10"}}},
		"few, as it is said": {`{"maxRemoved": 0, "minRemoved": 4` + atOnce, []loss{
			{removed: 3, undone: true, want: "pass"}, {removed: 4, want: "4 of 10"},
		}},
		"one after the other is summed up": {`{"maxRemoved": 3` + atOnce, []loss{
			{removed: 2, want: "pass"},
			{at: time.Minute, has: 8, removed: 1, want: "pass"},
			{at: 2 * time.Minute, has: 7, removed: 1, want: "4 of 10 clusters would be removed within 10m0s, more than 3"},
		}},
		"a share is of what it had": {`{"maxRemoved": "50%"` + atOnce, []loss{{removed: 4, want: "pass"}, {has: 6, removed: 1, want: "pass"}, {has: 5, removed: 1, want: "6 of 10"}}},
		"the window slides": {`{"maxRemoved": 3, "window": "1m"` + atOnce, []loss{
			{removed: 3, want: "pass"},
			{at: time.Minute - 1, has: 7, removed: 1, want: "4 of 10"},
			{at: time.Minute, has: 7, removed: 3, want: "pass"},
		}},
		"those of the namespace count once": {`{"fleetMaxRemoved": 5` + atOnce, []loss{{removed: 3, want: "pass"}, {placement: "q", removed: 2, want: "pass"}}},
		"each Placement for itself":         {`{"maxRemoved": 3` + atOnce, []loss{{removed: 3, want: "pass"}, {placement: "q", removed: 3, want: "pass"}}},
		"over the namespace": {`{"fleetMaxRemoved": 5` + atOnce, []loss{
			{removed: 3, want: "pass"},
			{placement: "q", removed: 2, edited: true, want: "pass"},
			{placement: "r", removed: 1, want: "6 removals over all Placements of the namespace within 10m0s would be more than 5"},
			{placement: "r", removed: 1, edited: true, want: "6 removals over all Placements of the namespace"},
			{at: 10 * time.Minute, placement: "r", removed: 5, want: "pass"},
		}},
		"over the namespace, not one": {`{"fleetMaxRemoved": 0` + atOnce, []loss{{removed: 1, want: "1 removals over all"}}},
		"over the fleet, without the counts of others": {`{"fleetMaxRemoved": 5` + atOnce, []loss{
			{removed: 2, want: "pass"},
			{placement: "q", namespace: "b", removed: 3, want: "pass"},
			{placement: "r", namespace: "c", removed: 1, want: "the removals over all Placements of the fleet within 10m0s would be more than 5"},
			{at: 10 * time.Minute, placement: "r", namespace: "c", removed: 5, want: "pass"},
		}},
		"one namespace uses half of what others may remove": {`{"fleetMaxRemoved": 5` + atOnce, []loss{
			{removed: 5, want: "pass"},
			{placement: "q", namespace: "b", removed: 3, want: "the removals over all Placements of the fleet"},
			{placement: "q", namespace: "b", removed: 2, want: "pass"},
		}},
		"edits count in their namespace": {`{"fleetMaxRemoved": 5` + atOnce, []loss{
			{removed: 5, edited: true, want: "pass"},
			{placement: "q", namespace: "b", removed: 5, want: "pass"},
			{placement: "r", namespace: "c", removed: 5, edited: true, want: "pass"},
		}},
		"a removal that is repeated counts once": {`{"maxRemoved": 4` + atOnce, []loss{
			{removed: 4, failed: true, want: "pass"},
			{removed: 4, failed: true, want: "pass"},
			{removed: 4, want: "pass"},
			{has: 6, removed: 1, want: "5 of 10 clusters"},
		}},
		"another one after it counts, too": {`{"maxRemoved": 4` + atOnce, []loss{
			{removed: 3, failed: true, want: "pass"},
			{removed: 3, from: 2, want: "5 of 10 clusters"},
			{removed: 2, from: 2, want: "pass"},
			{has: 8, removed: 1, from: 5, want: "5 of 12 clusters"},
		}},
		"what failed in part ends with the window": {`{"maxRemoved": 4` + atOnce, []loss{
			{removed: 4, failed: true, want: "pass"},
			{at: 10 * time.Minute, removed: 4, from: 4, want: "pass"},
		}},
		"a change in steps counts once": {`{"maxRemoved": 5` + atOnce, []loss{
			{revision: 1, removed: 3, step: 1, want: "pass"},
			{revision: 1, has: 9, from: 1, removed: 2, step: 1, want: "pass"},
			{revision: 1, has: 8, from: 2, removed: 1, want: "pass"},
			{revision: 2, has: 7, from: 3, removed: 2, undone: true, want: "pass"},
			{revision: 2, has: 7, from: 3, removed: 3, want: "6 of 10 clusters"},
		}},
		"a superseded change counts as far as it came": {`{"maxRemoved": 5` + atOnce, []loss{
			{revision: 1, removed: 4, step: 1, want: "pass"},
			{revision: 2, has: 9, from: 5, removed: 4, undone: true, want: "pass"},
			{revision: 3, has: 9, from: 5, removed: 5, want: "6 of 10 clusters"},
		}},
		"a superseded change counts no more after additions": {`{"maxRemoved": 5` + atOnce, []loss{
			{revision: 1, removed: 4, step: 1, want: "pass"},
			{revision: 2, has: 9, want: "pass"},
			{revision: 3, has: 9, from: 5, removed: 5, want: "6 of 10 clusters"},
		}},
		"what failed does not count": {`{"maxRemoved": 3` + atOnce, []loss{{removed: 3, undone: true, want: "pass"}, {removed: 3, want: "pass"}, {removed: 3, has: 7, undone: true, want: "6 of 10"}, {has: 7, removed: 1, want: "4 of 10"}}},
		"held stays held": {`{"maxRemoved": 3` + atOnce, []loss{
			{removed: 3, want: "pass"},
			{at: time.Minute, has: 7, removed: 2, want: "5 of 10"},
			{at: time.Hour, has: 7, removed: 2, held: BlastRadiusName, want: changed},
		}},
		"ended stays ended":        {`{"maxRemoved": 3` + atOnce, []loss{{removed: 2, ended: true, want: changed}}},
		"approved":                 {`{"maxRemoved": 3` + atOnce, []loss{{removed: 9, approved: true, held: BlastRadiusName, want: "pass"}}},
		"approved after it ended":  {`{"maxRemoved": 3` + atOnce, []loss{{removed: 9, approved: true, ended: true, want: "pass"}}},
		"what was approved counts": {`{"maxRemoved": 3` + atOnce, []loss{{removed: 4, approved: true, want: "pass"}, {has: 6, removed: 1, want: "5 of 10"}}},
		"a removal settles": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, digest: "a", want: "settle 5s"},
			{at: 2 * time.Second, removed: 1, digest: "a", want: "settle 3s"},
			{at: 4 * time.Second, removed: 4, digest: "b", want: "settle 5s"},
			{at: 9 * time.Second, removed: 4, digest: "b", want: "4 of 10"},
		}},
		"settled, it passes":   {`{"maxRemoved": 3, "settle": "1s"}`, []loss{{removed: 1, want: "settle 1s"}, {at: time.Second, removed: 1, want: "pass"}}},
		"approved settles not": {`{"maxRemoved": 3}`, []loss{{removed: 9, approved: true, want: "pass"}}},
		"held settles not":     {`{"maxRemoved": 3}`, []loss{{removed: 9, held: BlastRadiusName, want: "9 of 10"}}},
		"held by another, too": {`{"maxRemoved": 3}`, []loss{{removed: 1, held: ApprovalName, want: "pass"}}},
		"settling ends when nothing is removed": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, want: "settle 5s"},
			{at: 4 * time.Second, removed: 0, want: "pass"},
			{at: 5 * time.Second, removed: 1, want: "settle 5s"},
		}},
		"a removal that was published does not hasten the next": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, digest: "a", want: "settle 5s"},
			{at: 5 * time.Second, removed: 1, digest: "a", want: "pass"},
			{at: time.Hour, removed: 1, digest: "b", want: "settle 5s"},
		}},
		"nor does one that was held": {`{"maxRemoved": 3}`, []loss{
			{removed: 4, digest: "a", want: "settle 5s"},
			{at: 5 * time.Second, removed: 4, digest: "a", want: "4 of 10"},
			{at: time.Hour, removed: 5, digest: "b", want: "settle 5s"},
		}},
		"each Placement settles for itself": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, want: "settle 5s"},
			{at: 3 * time.Second, placement: "q", removed: 1, want: "settle 5s"},
			{at: 5 * time.Second, removed: 1, want: "pass"},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAttempts(t, tc.args)
			for i, l := range tc.losses {
				got := a.propose(t, l)
				if got != l.want && (l.want == "pass" || !strings.Contains(got, l.want)) {
					t.Errorf("change %d: got %q, want %q", i, got, l.want)
				}
			}
		})
	}
}

// TestBlastRadiusUnsettled: a removal that never stays the same is decided after ten times settle.
func TestBlastRadiusUnsettled(t *testing.T) {
	a := newAttempts(t, `{"maxRemoved": 3}`)
	for second := 0; ; second += 4 {
		l := loss{at: time.Duration(second) * time.Second, removed: 4, digest: fmt.Sprint(second)}
		got := a.propose(t, l)
		want := "settle " + time.Duration(min(5, 50-second)*int(time.Second)).String()
		if second >= 50 {
			want = "4 of 10"
		}
		if !strings.Contains(got, want) {
			t.Fatalf("after %d seconds: %q, want %q", second, got, want)
		}
		if second >= 50 {
			return
		}
	}
}

// TestRemovalBesideTheRest: a removal beside the rest of a change counts with what that still
// removes, also if it removed nothing yet, or is not counted because another change was reserved
// instead, but not after its window. A change that supersedes it counts alone.
func TestRemovalBesideTheRest(t *testing.T) {
	names := []string{"c0", "c1", "c2"}
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	record := changes.NewRecord(pl, 0, 2, changes.NewChange(names, nil))
	record.Status.Phase, record.Status.PermittedTime = berthv1alpha1.PhaseProgressing, new(metav1.NewTime(start))
	subject := &framework.Subject{Placement: pl, Records: changes.History{record}, Last: &framework.Published{Names: names}}
	for name, tc := range map[string]struct {
		counts     removalCounts
		after      time.Duration
		supersedes bool
		held       bool
	}{
		"reserved":                    {counts: removalCounts{Open: map[types.UID]openRemoval{"p": {removal: removal{Placement: "p", Namespace: "ns", Revision: 2, At: start}, Reserved: names}}}, held: true},
		"not counted":                 {held: true},
		"after the window":            {after: 11 * time.Minute},
		"a change that supersedes it": {supersedes: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempts(t, `{"maxRemoved": 3, "minRemoved": 1, "settle": "0s"}`)
			p := (&loss{has: 10, removed: 1, from: 9, revision: 3}).proposal()
			p.KeepsReservation = !tc.supersedes
			state := framework.NewCycleState(&framework.Snapshot{Now: start.Add(tc.after), Subject: subject, PluginCounts: map[string]any{BlastRadiusName: &tc.counts}})
			if status, _ := a.Permit(t.Context(), state, pl, p); (status.Code() == framework.Wait) != tc.held {
				t.Errorf("%s %s", status.Code(), status.Reason())
			}
		})
	}
}

// TestRevokedRemovalIsRepeated when the first removal leaves the window: no record keeps it held.
func TestRevokedRemovalIsRepeated(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   framework.Kind
		heldBy map[string]time.Time
		want   time.Time
	}{
		"the whole change":  {kind: framework.ToTarget},
		"revoked clusters":  {kind: framework.RevokedRemoval, want: start.Add(10 * time.Minute)},
		"with its own hold": {kind: framework.RevokedRemoval, heldBy: map[string]time.Time{BlastRadiusName: {}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempts(t, `{"maxRemoved": 3, "settle": "0s"}`)
			pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
			a.update(start, func(next *removalCounts) {
				next.Removals = []removal{{Placement: pl.UID, Namespace: "ns", At: start, Clusters: 3}}
			})
			p := (&loss{has: 7, removed: 1}).proposal()
			p.Kind, p.HeldBy = tc.kind, tc.heldBy
			state := framework.NewCycleState(&framework.Snapshot{Now: start.Add(time.Minute), Subject: &framework.Subject{Placement: pl}, PluginCounts: map[string]any{BlastRadiusName: a.Counts()}})
			if status, _ := a.Permit(t.Context(), state, pl, p); status.Code() != framework.Wait || !state.Requeue().Equal(tc.want) {
				t.Errorf("%s %q, again at %s", status.Code(), status.Reason(), state.Requeue())
			}
		})
	}
}

// TestBlastRadiusRecounts: after a restart, removals are those of the Published records within the
// window. Records have whole seconds, which count until their end.
func TestBlastRadiusRecounts(t *testing.T) {
	type removalRecord struct {
		owner     types.UID
		namespace string
		revision  int64
		edited    bool
		removed   int32
		// ago is how long before the start it was completed; 0 for never.
		ago   time.Duration
		phase berthv1alpha1.ChangePhase
	}
	published, supersededInPart := berthv1alpha1.PhasePublished, berthv1alpha1.ChangePhase("Superseded in part")
	of := func(revision int64, removed int32, ago time.Duration) removalRecord {
		return removalRecord{"p", "ns", revision, false, removed, ago, published}
	}
	tests := map[string]struct {
		args    string
		records []removalRecord
		loss    loss
		want    string
	}{
		"none":                              {args: `{"maxRemoved": 3`, loss: loss{removed: 3}, want: "pass"},
		"within the window":                 {args: `{"maxRemoved": 3`, records: []removalRecord{of(1, 2, time.Minute)}, loss: loss{has: 8, removed: 2}, want: "4 of 10 clusters"},
		"up to the limit":                   {args: `{"maxRemoved": 4`, records: []removalRecord{of(1, 2, time.Minute)}, loss: loss{has: 8, removed: 2}, want: "pass"},
		"several":                           {args: `{"maxRemoved": 3`, records: []removalRecord{of(2, 1, time.Minute), of(1, 2, 2*time.Minute)}, loss: loss{has: 7, removed: 1}, want: "4 of 10 clusters"},
		"before the window":                 {args: `{"maxRemoved": 3`, records: []removalRecord{of(1, 2, 10*time.Minute+time.Second)}, loss: loss{removed: 2}, want: "pass"},
		"an earlier Placement of that name": {args: `{"maxRemoved": 3`, records: []removalRecord{{"earlier", "ns", 1, false, 3, time.Minute, published}}, loss: loss{removed: 3}, want: "pass"},
		"additions":                         {args: `{"maxRemoved": 3`, records: []removalRecord{of(1, 0, time.Minute)}, loss: loss{removed: 3}, want: "pass"},
		"held":                              {args: `{"maxRemoved": 3`, records: []removalRecord{{"p", "ns", 1, false, 3, 0, berthv1alpha1.PhaseHeld}}, loss: loss{removed: 3}, want: "pass"},
		"in steps":                          {args: `{"maxRemoved": 3`, records: []removalRecord{{"p", "ns", 1, false, 2, time.Minute, berthv1alpha1.PhaseProgressing}}, loss: loss{has: 9, removed: 3, revision: 2}, want: "4 of 10 clusters"},
		"superseded":                        {args: `{"maxRemoved": 3`, records: []removalRecord{{"p", "ns", 1, false, 3, time.Minute, berthv1alpha1.PhaseSuperseded}}, loss: loss{removed: 3}, want: "pass"},
		"superseded after 2 of 3 removals":  {args: `{"maxRemoved": 2`, records: []removalRecord{{"p", "ns", 1, false, 3, time.Minute, supersededInPart}}, loss: loss{has: 8, removed: 1}, want: "3 of 10 clusters"},
		"over the namespace":                {args: `{"fleetMaxRemoved": 3`, records: []removalRecord{{"q", "ns", 1, false, 3, time.Minute, published}}, loss: loss{removed: 1}, want: "4 removals over all Placements of the namespace"},
		"over the fleet":                    {args: `{"fleetMaxRemoved": 3`, records: []removalRecord{{"q", "other", 1, false, 2, time.Minute, published}}, loss: loss{removed: 2}, want: "the removals over all Placements of the fleet"},
		"over the fleet, after an edit":     {args: `{"fleetMaxRemoved": 3`, records: []removalRecord{{"q", "other", 2, true, 2, time.Minute, published}}, loss: loss{removed: 2}, want: "pass"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var records []*berthv1alpha1.PlacementChange
			for _, r := range tc.records {
				pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: string(r.owner), UID: r.owner}}
				record := changes.NewRecord(pl, 0, r.revision, changes.Change{Edited: r.edited})
				record.Spec.RemovedCount, record.Status.Phase = r.removed, r.phase
				if r.ago > 0 {
					record.Status.CompletionTime = &metav1.Time{Time: start.Add(-r.ago)}
				}
				if r.phase == supersededInPart {
					record.Status.Phase = berthv1alpha1.PhaseSuperseded
				}
				if r.phase == berthv1alpha1.PhaseProgressing || r.phase == supersededInPart {
					record.Status.PermittedTime, record.Status.CompletionTime = record.Status.CompletionTime, nil
					record.Status.Remaining = &berthv1alpha1.RemainingClusters{Removed: 1}
				}
				records = append(records, record)
			}
			a := newAttempts(t, tc.args+`, "settle": "0s"}`)
			a.Recount(records)
			// Another profile's plugin shares the counts, and counts nothing twice.
			a.Recount(records)
			if got := a.propose(t, tc.loss); got != tc.want && (tc.want == "pass" || !strings.Contains(got, tc.want)) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestUnknownRemovalsCountInTheirNamespace only, if records of a Placement are missing.
func TestUnknownRemovalsCountInTheirNamespace(t *testing.T) {
	for namespace, want := range map[string]string{"ns": "the removals within 10m0s are not known", "other": "pass"} {
		var records []*berthv1alpha1.PlacementChange
		for i := range berthv1alpha1.MaxHistoryLimit {
			pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q", UID: "q"}}
			record := changes.NewRecord(pl, 0, int64(i+2), changes.Change{})
			record.Status.Phase, record.Status.CompletionTime = berthv1alpha1.PhasePublished, &metav1.Time{Time: start.Add(-time.Minute)}
			records = append(records, record)
		}
		a := newAttempts(t, `{"fleetMaxRemoved": 3, "settle": "0s"}`)
		a.Recount(records)
		if got := a.propose(t, loss{namespace: namespace, removed: 2}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", namespace, got, want)
		}
	}
}

// TestBlastRadiusCountsAreImmutable: what a Snapshot has does not change with later attempts.
func TestBlastRadiusCountsAreImmutable(t *testing.T) {
	a := newAttempts(t, `{"maxRemoved": 3, "settle": "0s"}`)
	if off := newAttempts(t, ""); off.Counts() != nil {
		t.Error("counts although it is off")
	}
	for _, l := range []loss{{removed: 1}, {removed: 2, failed: true}, {removed: 1, undone: true}, {at: time.Hour, removed: 1}} {
		before := a.Counts().(*removalCounts)
		copied := removalCounts{Removals: slices.Clone(before.Removals), Open: maps.Clone(before.Open), Progress: maps.Clone(before.Progress)}
		a.propose(t, l)
		if diff := cmp.Diff(copied, *before, cmp.AllowUnexported(removalCounts{}, removal{}, openRemoval{}, progressing{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after %+v (-before +after):\n%s", l, diff)
		}
	}
}

func TestBlastRadiusArgs(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"none":                       {args: ""},
		"a number":                   {args: `{"maxRemoved": 3}`},
		"a share":                    {args: `{"maxRemoved": "100%"}`},
		"no settling":                {args: `{"maxRemoved": 0, "settle": "0s"}`},
		"settle is null":             {args: `{"maxRemoved": 0, "settle": null}`},
		"the fleet":                  {args: `{"fleetMaxRemoved": 0}`},
		"no limit":                   {args: `{}`, want: "one of maxRemoved and fleetMaxRemoved is required"},
		"no limit, but a window":     {args: `{"window": "1m"}`, want: "one of maxRemoved and fleetMaxRemoved is required"},
		"a negative number":          {args: `{"maxRemoved": -1}`, want: `maxRemoved: "-1" is neither a number from 0 nor a percentage from 0% to 100%`},
		"a negative share":           {args: `{"maxRemoved": "-1%"}`, want: `maxRemoved: "-1%" is neither a number from 0 nor a percentage from 0% to 100%`},
		"more than all":              {args: `{"maxRemoved": "101%"}`, want: `maxRemoved: "101%" is neither a number from 0 nor a percentage from 0% to 100%`},
		"a share without its sign":   {args: `{"maxRemoved": "20"}`, want: `maxRemoved: "20" is neither a number from 0 nor a percentage from 0% to 100%`},
		"min of nothing":             {args: `{"maxRemoved": 3, "minRemoved": 0}`, want: "minRemoved: must be at least 1"},
		"a negative fleet":           {args: `{"fleetMaxRemoved": -1}`, want: "fleetMaxRemoved: must not be negative"},
		"a window of nothing":        {args: `{"maxRemoved": 3, "window": "0s"}`, want: "window: must be greater than 0"},
		"negative settling":          {args: `{"maxRemoved": 3, "settle": "-1s"}`, want: "settle: must not be negative"},
		"a timeout of nothing":       {args: `{"maxRemoved": 3, "timeout": "0s"}`, want: "timeout: must be greater than 0"},
		"an argument that is none":   {args: `{"maxRemove": 3}`, want: `unknown field "maxRemove"`},
		"a number that is no number": {args: `{"fleetMaxRemoved": "all"}`, want: "BlastRadiusArgs.fleetMaxRemoved of type int"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewBlastRadius(context.Background(), json.RawMessage(tc.args), nil)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestCountsAreForgotten: an update drops removals and open removals older than the window.
func TestCountsAreForgotten(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	old, recent := removal{At: now.Add(-time.Hour)}, removal{At: now.Add(-time.Hour + 1)}
	l := &removalCounter{window: time.Hour, counts: &removalCounts{
		Removals: []removal{old, recent}, Open: map[types.UID]openRemoval{"old": {removal: old}, "recent": {removal: recent}},
	}}
	l.update(time.Time{}, func(*removalCounts) {})
	if len(l.counts.Removals) != 2 || len(l.counts.Open) != 2 {
		t.Errorf("without a time: %+v", l.counts)
	}
	l.update(now, func(*removalCounts) {})
	if _, kept := l.counts.Open["recent"]; len(l.counts.Removals) != 1 || l.counts.Removals[0] != recent || len(l.counts.Open) != 1 || !kept {
		t.Errorf("with a time: %+v", l.counts)
	}
}
