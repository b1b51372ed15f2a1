package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
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

	// want is what Permit answers: "pass", "settle 5s" (judged in so long), or a part of the reason for which it is held.
	want string
}

func (l loss) proposal() *framework.Proposal {
	digest := l.digest
	if digest == "" {
		digest = "d"
	}
	p := &framework.Proposal{Digest: digest, Token: digest + "-1"}
	if l.ended {
		p.Ended, p.EndedBy = true, []string{BlastRadiusName}
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

// propose asks the plugin about the loss and renders the answer as loss.want is written.
func (l loss) propose(t *testing.T, b *BlastRadius) string {
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
	p := l.proposal()
	if l.approved {
		pl.Annotations = map[string]string{v1alpha1.ApproveAnnotation: p.Token}
	}
	now := start.Add(l.at)
	state := framework.NewCycleState(&framework.Snapshot{Now: now, Subject: subject})
	if status := b.Reserve(context.Background(), state, pl, p); !status.IsSuccess() {
		t.Fatalf("Reserve: %v", status.Err())
	}
	status, timeout := b.Permit(context.Background(), state, pl, p)
	if l.failed {
		p.Writes = make([]framework.PageWrite, 1)
	}
	if l.undone || l.failed || !status.IsSuccess() {
		b.Unreserve(context.Background(), state, pl, p)
	} else {
		b.PostBind(context.Background(), state, pl, p)
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
			{removed: 3, want: "3 of 10 clusters would be removed within 10m0s, more than 20%; approve with the annotation berth.dev/approve=d-1"},
		}},
		"a share is rounded down": {`{"maxRemoved": "29%"` + atOnce, []loss{{removed: 2, undone: true, want: "pass"}, {removed: 3, want: "3 of 10"}}},
		"no share at all":         {`{"maxRemoved": "0%"` + atOnce, []loss{{removed: 2, want: "2 of 10"}}},
		"all of it":               {`{"maxRemoved": "100%"` + atOnce, []loss{{removed: 10, want: "pass"}}},
		"a number":                {`{"maxRemoved": 4` + atOnce, []loss{{removed: 4, undone: true, want: "pass"}, {removed: 5, want: "5 of 10 clusters would be removed within 10m0s, more than 4;"}}},
		"few are not looked at":   {`{"maxRemoved": 0` + atOnce, []loss{{removed: 1, undone: true, want: "pass"}, {removed: 2, want: "2 of 10"}}},
		"few, as it is said": {`{"maxRemoved": 0, "minRemoved": 4` + atOnce, []loss{
			{removed: 3, undone: true, want: "pass"}, {removed: 4, want: "4 of 10"},
		}},
		"one after the other is summed up": {`{"maxRemoved": 3` + atOnce, []loss{
			{removed: 2, want: "pass"},
			{at: time.Minute, has: 8, removed: 1, want: "pass"},
			{at: 2 * time.Minute, has: 7, removed: 1, want: "4 of 10 clusters would be removed within 10m0s, more than 3;"},
		}},
		"a share is of what it had": {`{"maxRemoved": "50%"` + atOnce, []loss{{removed: 4, want: "pass"}, {has: 6, removed: 1, want: "pass"}, {has: 5, removed: 1, want: "6 of 10"}}},
		"the window slides": {`{"maxRemoved": 3, "window": "1m"` + atOnce, []loss{
			{removed: 3, want: "pass"},
			{at: time.Minute - 1, has: 7, removed: 1, want: "4 of 10"},
			{at: time.Minute, has: 7, removed: 3, want: "pass"},
		}},
		"each Placement for itself": {`{"maxRemoved": 3` + atOnce, []loss{{removed: 3, want: "pass"}, {placement: "q", removed: 3, want: "pass"}}},
		"over the namespace": {`{"fleetMaxRemoved": 5` + atOnce, []loss{
			{removed: 3, want: "pass"},
			{placement: "q", removed: 2, edited: true, want: "pass"},
			{placement: "r", removed: 1, want: "6 removals over all Placements of the namespace within 10m0s would be more than 5;"},
			{placement: "r", removed: 1, edited: true, want: "6 removals over all Placements of the namespace"},
			{at: 10 * time.Minute, placement: "r", removed: 5, want: "pass"},
		}},
		"over the namespace, not one": {`{"fleetMaxRemoved": 0` + atOnce, []loss{{removed: 1, want: "1 removals over all"}}},
		"over the fleet, without the counts of others": {`{"fleetMaxRemoved": 5` + atOnce, []loss{
			{removed: 2, want: "pass"},
			{placement: "q", namespace: "b", removed: 3, want: "pass"},
			{placement: "r", namespace: "c", removed: 1, want: "the removals over all Placements of the fleet within 10m0s would be more than 5; approve"},
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
		"held by another settles not again": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, want: "settle 5s"},
			{at: 5 * time.Second, removed: 1, undone: true, want: "pass"},
			{at: time.Minute, removed: 1, held: ApprovalName, undone: true, want: "pass"},
		}},
		"settling ends when nothing is removed": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, want: "settle 5s"},
			{at: 4 * time.Second, removed: 0, want: "pass"},
			{at: 5 * time.Second, removed: 1, want: "settle 5s"},
		}},
		"a removal that was given up does not hasten the next": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, digest: "a", want: "settle 5s"},
			{at: time.Hour, removed: 1, digest: "b", want: "settle 5s"},
		}},
		"nor does the same one": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, digest: "a", want: "settle 5s"},
			{at: time.Hour, removed: 1, digest: "a", want: "settle 5s"},
		}},
		"each Placement settles for itself": {`{"maxRemoved": 3}`, []loss{
			{removed: 1, want: "settle 5s"},
			{at: 3 * time.Second, placement: "q", removed: 1, want: "settle 5s"},
			{at: 5 * time.Second, removed: 1, want: "pass"},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewBlastRadius(context.Background(), json.RawMessage(tc.args), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range tc.losses {
				got := l.propose(t, plugin.(*BlastRadius))
				if got != l.want && (l.want == "pass" || !strings.Contains(got, l.want)) {
					t.Errorf("change %d: got %q, want %q", i, got, l.want)
				}
			}
		})
	}
}

// TestBlastRadiusUnsettled: a removal that never stays the same is judged after ten times settle.
func TestBlastRadiusUnsettled(t *testing.T) {
	plugin, err := NewBlastRadius(context.Background(), json.RawMessage(`{"maxRemoved": 3}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := plugin.(*BlastRadius)
	for second := 0; ; second += 4 {
		l := loss{at: time.Duration(second) * time.Second, removed: 4, digest: fmt.Sprint(second)}
		got := l.propose(t, b)
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

func TestBlastRadiusForgets(t *testing.T) {
	plugin, err := NewBlastRadius(context.Background(), json.RawMessage(`{"maxRemoved": 3}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := plugin.(*BlastRadius)
	loss{removed: 1}.propose(t, b)
	loss{removed: 1, placement: "q"}.propose(t, b)
	b.Forget(types.NamespacedName{Namespace: "ns", Name: "p"})
	if got := (loss{at: 5 * time.Second, removed: 1}).propose(t, b); got != "settle 5s" {
		t.Errorf("forgotten, and %s", got)
	}
	if got := (loss{at: 5 * time.Second, removed: 1, placement: "q"}).propose(t, b); got != "pass" {
		t.Errorf("not forgotten, and %s", got)
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
		"a negative number":          {args: `{"maxRemoved": -1}`, want: `maxRemoved: "-1" is neither a number from 0 nor a share from 0% to 100%`},
		"a negative share":           {args: `{"maxRemoved": "-1%"}`, want: `maxRemoved: "-1%" is neither a number from 0 nor a share from 0% to 100%`},
		"more than all":              {args: `{"maxRemoved": "101%"}`, want: `maxRemoved: "101%" is neither a number from 0 nor a share from 0% to 100%`},
		"a share without its sign":   {args: `{"maxRemoved": "20"}`, want: `maxRemoved: "20" is neither a number from 0 nor a share from 0% to 100%`},
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
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
