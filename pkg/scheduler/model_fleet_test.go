package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/model"
)

// neighbours are Placements that compete for clusters, with the model of what they know of each
// other.
type neighbours struct {
	*fleetAtRest
	rt    *rapid.T
	model model.Fleet
	// permit is what Permit answers now.
	permit model.Outcome
	log    []string
}

// TestModelOfNeighbours: in random histories, what a Placement has, reserves and waits for limits
// others as the model predicts, and causes their attempts only if it may change their decisions.
func TestModelOfNeighbours(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newNeighbours(t, rt)
		for range rapid.IntRange(1, 25).Draw(rt, "events") {
			n.event()
			for range n.of("attempts", 4) {
				n.attempt(n.member())
			}
			if n.of("rest", 4) == 0 {
				n.rest()
			}
		}
		n.rest()
	})
}

func newNeighbours(t *testing.T, rt *rapid.T) *neighbours {
	queue := rapid.Bool().Draw(rt, "queue")
	n := &neighbours{fleetAtRest: newFleetAtRest(t, queue, nil, nil), rt: rt, permit: model.Published}
	n.gate.approvable = true
	n.model = model.Fleet{Clusters: []string{"c0", "c1", "c2", "c3"}, Quota: -1}
	if queue {
		n.model.Quota = 2
	}
	for i := range 2 + n.of("third", 2) {
		m := &model.Member{Name: fmt.Sprint("p", i), Number: 1 + n.of("number", 3), Matches: n.model.Clusters, Ended: map[model.Ended]model.Outcome{}}
		n.model.Members = append(n.model.Members, m)
	}
	kinds := []string{"alone", "requests", "with", "apartFrom"}
	mutual := rapid.SampledFrom(append(kinds, "no")).Draw(rt, "both")
	for i, m := range n.model.Members {
		kind := mutual
		if mutual == "no" || i == 2 {
			// Without a cycle: a cycle with one apartFrom is misconfigured.
			kind = rapid.SampledFrom(kinds[:min(2+2*i, 4)]).Draw(rt, "policy")
		}
		n.relate(m, n.model.Members[(i+1)%2], kind)
	}
	for _, m := range n.model.Members {
		n.edit(m)
	}
	return n
}

// relate makes decisions of a Placement depend on another one.
func (n *neighbours) relate(m, other *model.Member, kind string) {
	switch kind {
	case "with":
		m.With = other.Name
	case "apartFrom":
		m.ApartFrom = other.Name
	case "requests":
		m.Requests = true
	}
	if policy := dependencies[kind]; policy != nil {
		n.store(policy(m.Name, other.Name))
	}
}

func (n *neighbours) of(label string, most int) int {
	return rapid.IntRange(0, most-1).Draw(n.rt, label)
}

func (n *neighbours) member() *model.Member {
	return n.model.Members[n.of("member", len(n.model.Members))]
}

func keyOf(m *model.Member) inventory.Key { return inventory.Key{Namespace: "ns", Name: m.Name} }

// edit stores a Placement as the model has it.
func (n *neighbours) edit(m *model.Member) {
	m.Generation++
	m.Affected()
	n.logf("edit %s: %d of %v", m.Name, m.Number, m.Matches)
	n.store(fixture.Placement("ns", m.Name).Number(int32(m.Number)).Generation(m.Generation).Predicate(clusters(m.Matches...)).Obj())
}

func (n *neighbours) logf(format string, of ...any) {
	n.log = append(n.log, fmt.Sprintf(format, of...))
}

func (n *neighbours) event() {
	switch rapid.SampledFrom([]string{"number", "number", "matches", "matches", "permit", "permit", "permit", "answer", "answer", "restart", "later"}).Draw(n.rt, "event") {
	case "number":
		m := n.member()
		m.Number = n.of("number", 4)
		n.edit(m)
	case "matches":
		m := n.member()
		m.Matches = rapid.SampledFrom([][]string{n.model.Clusters, {"c0", "c1"}, {"c1", "c2"}, {"c2", "c3"}, {"c0", "c1", "c2"}, {"c3"}}).Draw(n.rt, "matches")
		n.edit(m)
	case "permit":
		n.setPermit(rapid.SampledFrom([]model.Outcome{model.Published, model.Published, model.Held, model.Held, model.Waiting, model.Denied}).Draw(n.rt, "permit"))
	case "answer":
		n.answer(n.member())
	case "restart":
		n.restart()
	case "later":
		n.logf("later")
		n.clock.Step(time.Duration(1+n.of("seconds", 90)) * time.Second)
	}
}

// setPermit says what Permit answers from now on. The change of an answer is an event for all.
func (n *neighbours) setPermit(permit model.Outcome) {
	n.logf("permit: %s", permit)
	n.permit = permit
	n.gate.answer = map[model.Outcome]*framework.Status{
		model.Held: framework.NewStatus(framework.Wait, "not yet"), model.Waiting: framework.NewStatus(framework.Pending, "a fact is missing"),
		model.Denied: framework.NewStatus(framework.Unschedulable, "no"),
	}[permit]
	for _, m := range n.model.Members {
		n.enqueue([]inventory.Key{keyOf(m)})
	}
}

// answer approves or rejects the open change of a Placement.
func (n *neighbours) answer(m *model.Member) {
	record := n.open(m)
	if record == nil || record.Spec.Approval != nil {
		return
	}
	decision, outcome := berthv1alpha1.Approved, model.Published
	if n.of("reject", 2) == 0 {
		decision, outcome = berthv1alpha1.Rejected, model.Rejected
	}
	n.logf("%s %s", decision, record.Name)
	record = record.DeepCopy()
	record.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: decision, By: "ann"}
	n.version++
	record.ResourceVersion = fmt.Sprint(n.version)
	n.records[record.Name] = record
	m.Answer = outcome
	m.Affected()
	n.enqueue(n.inv.Update(record.DeepCopy()))
}

func (n *neighbours) open(m *model.Member) *berthv1alpha1.PlacementChange {
	for _, name := range slices.Sorted(maps.Keys(n.records)) {
		if r := n.records[name]; r.Spec.Placement == m.Name && changes.IsOpen(r) {
			return r
		}
	}
	return nil
}

// restart starts another controller. A change that waits without a record has no reservation
// afterwards, which is a known fault.
func (n *neighbours) restart() {
	if slices.ContainsFunc(n.model.Members, func(m *model.Member) bool { return m.Claimed != nil && !m.Recorded }) {
		return
	}
	n.logf("restart")
	n.start()
	n.model.Restart()
	n.compare("a restart")
}

// attempt is one attempt, compared with the model.
func (n *neighbours) attempt(m *model.Member) {
	key, before := keyOf(m), n.reads()
	due, had, followed, used, held := maps.Clone(n.due), m.Has(), m.Followed(), m.Uses(), m.Recorded
	same := held && m.ClaimedBy == m.Generation && slices.Equal(m.Claimed, n.model.Target(m))
	want := n.model.Attempt(m, n.permit)
	n.fleetAtRest.attempt(key)
	n.logf("attempt of %s: %s %v", m.Name, n.outcomes[key], n.inv.Subject(key).LastNames())
	if got := string(n.outcomes[key]); got != string(want) {
		n.fatal("%s is %s, want %s", m.Name, got, want)
	}
	n.compare("an attempt of " + m.Name)
	// The end of a record changes what is selected. A denied change is selected again.
	ends := held && !m.Recorded && want != model.Published && want != model.Unchanged && (!same || want != model.Denied)
	if at, timer := n.due[key]; (timer && !at.After(n.clock.Now())) != ends {
		n.fatal("%s causes its own attempt: %t, want %t", m.Name, !ends, ends)
	}
	for _, other := range n.model.Members {
		if other != m {
			depends := other.ApartFrom == m.Name || other.Requests && m.Requests
			freed := n.model.Quota >= 0 && m.Uses() < used && n.model.Limit(other) > len(other.Listed)
			moved := depends && !slices.Equal(had, m.Has()) || other.With == m.Name && !slices.Equal(followed, m.Followed())
			n.compareCaused(m, other, before[other.Name], due, moved || freed)
			old, was := due[keyOf(other)]
			at, caused := n.due[keyOf(other)]
			switch {
			case !moved || !caused || at.After(n.clock.Now()):
			case was && !old.After(n.clock.Now()):
				// It was due before: whether this affected it, too, only the inventory knows.
				last := n.inv.Subject(keyOf(other)).Last
				other.SinceStart = other.SinceStart && last != nil && last.SinceStart
			default:
				other.Affected()
			}
		}
	}
	if ends {
		n.attempt(m)
	}
}

// reads is what an attempt reads of other Placements; scores are not read when others change.
type reads struct {
	feasible []string
	limit    int
}

func (r reads) equal(to reads) bool {
	return slices.Equal(r.feasible, to.feasible) && r.limit == to.limit
}

// grew reports whether there is more to select from than before.
func (r reads) grew(before reads) bool {
	return r.limit > before.limit || slices.ContainsFunc(r.feasible, func(name string) bool { return !slices.Contains(before.feasible, name) })
}

func (n *neighbours) reads() map[string]reads {
	all := map[string]reads{}
	for _, m := range n.model.Members {
		limit := n.model.Limit(m)
		if limit < 0 || limit > m.Number {
			limit = m.Number
		}
		all[m.Name] = reads{n.model.Feasible(m), limit}
	}
	return all
}

// compareCaused checks that an attempt causes that of another Placement if it changed what that
// reads so that it needs one, and not unless may is true: for the net difference of what the
// Placement has, or for freed quota.
func (n *neighbours) compareCaused(m, other *model.Member, before reads, due map[inventory.Key]time.Time, may bool) {
	key, now := keyOf(other), n.clock.Now()
	if old, was := due[key]; was && !old.After(now) {
		return
	}
	at, known := n.due[key]
	caused := known && !at.After(now)
	after := n.reads()[other.Name]
	// Known fault: what others take of a change that was rejected or denied causes no attempt,
	// though fewer clusters are another change, which may be permitted.
	taken := (n.outcomes[key] == plan.Rejected || n.outcomes[key] == plan.Denied) && !after.grew(before)
	switch {
	case !before.equal(after) && !caused && n.needs(other) && !taken:
		n.fatal("%s causes no attempt of %s, which read %v and now %v", m.Name, other.Name, before, after)
	case caused && !may:
		n.fatal("%s causes an attempt of %s, which reads %v as before", m.Name, other.Name, after)
	}
}

// needs reports whether a Placement may not get clusters that it has or waits for, or can get
// others beside them. That Balance prefers others causes no attempt.
func (n *neighbours) needs(m *model.Member) bool {
	wants := m.Listed
	if m.Claimed != nil {
		wants = m.Claimed
	}
	feasible := n.model.Feasible(m)
	return len(n.model.Target(m)) != len(wants) ||
		slices.ContainsFunc(wants, func(name string) bool { return !slices.Contains(feasible, name) })
}

// rest runs the due attempts. A fleet without new events comes to rest.
func (n *neighbours) rest() {
	for range 60 {
		next := n.next()
		if next == nil {
			return
		}
		n.attempt(next)
	}
	n.fatal("attempts do not end")
}

func (n *neighbours) next() *model.Member {
	for _, m := range n.model.Members {
		if at, due := n.due[keyOf(m)]; due && !at.After(n.clock.Now()) {
			return m
		}
	}
	return nil
}

// compare compares all that others see of each Placement.
func (n *neighbours) compare(after string) {
	for _, m := range n.model.Members {
		s := n.snapshot(keyOf(m))
		var counts, wantCounts []int
		for _, c := range n.model.Clusters {
			counts, wantCounts = append(counts, int(s.Counts.ByIndex.Get(s.Cluster(c).Index)-s.Subject.Entries.Of(s.Cluster(c).Index))), append(wantCounts, n.model.Count(m, c))
		}
		limit := -1
		if s.Queue != nil {
			limit = s.Queue.Limit
		}
		var target []string
		if record := n.open(m); record != nil {
			target, _ = changes.Target(record, s.Subject.LastNames())
		}
		want := m.Claimed
		if !m.Recorded {
			want = nil
		}
		listed := slices.Sorted(slices.Values(s.Subject.LastNames()))
		if got, want := fmt.Sprint(listed, target, counts, limit), fmt.Sprint(m.Listed, want, wantCounts, n.model.Limit(m)); got != want {
			n.fatal("after %s, %s has, holds, sees decisions and quota\n%s, want\n%s", after, m.Name, got, want)
		}
	}
}

func (n *neighbours) fatal(format string, of ...any) {
	n.rt.Helper()
	text := fmt.Sprintf(format, of...)
	for _, m := range n.model.Members {
		text += fmt.Sprintf("\n%+v", *m)
	}
	for _, line := range n.log {
		text += "\n  " + line
	}
	n.rt.Fatal(text)
}
