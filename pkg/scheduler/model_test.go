package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/model"
)

// TestModel: in random histories, each attempt publishes and records what the model predicts.
func TestModel(t *testing.T) {
	for part := range 5 {
		t.Run(fmt.Sprint(part), rapid.MakeCheck(func(rt *rapid.T) {
			for range part {
				rapid.Uint64().Draw(rt, "skipped") // From one seed each part has its own histories.
			}
			h := newHistory(t, rt)
			h.attempt()
			for range h.of("policy fields", 5) {
				h.policyEvent()
			}
			for range rapid.IntRange(1, 30).Draw(rt, "events") {
				h.event()
				for range rapid.SampledFrom([]int{0, 1, 1, 2, 3, 9}).Draw(rt, "attempts") {
					if h.of("fault", 5) == 0 {
						h.fault, h.crashes = h.of("write", 8), rapid.Bool().Draw(rt, "crash")
					}
					h.attempt()
				}
			}
			h.attemptUntilNoneIsDue()
		}))
	}
}

var (
	historyClusters = []string{"c1", "c2", "c3", "c4", "c5", "c6", "c7"}
	historySources  = []string{"apps", "jobs"}
	historyPolicies = []string{"p1", "p2"}
)

// event changes something that attempts depend on.
func (h *history) event() {
	if h.of("kind", 3) == 0 {
		h.later(rapid.SampledFrom([]int{0, 1, 1, 2, 5, 10, 30, 60, 700, 90_000, 700_000}).Draw(h.rt, "seconds"))
	}
	switch rapid.SampledFrom([]string{
		"cluster", "cluster", "cluster", "cluster", "readiness", "readiness", "readiness", "number", "policy", "policy", "policy", "no policy",
		"answer", "answer", "answer", "answer", "evict", "evict", "pin", "unpin", "restart", "source", "source back", "edit", "tolerate", "tolerate", "swap", "swap", "swap", "all ready", "deny", "deny nothing", "page", "page",
	}).Draw(h.rt, "event") {
	case "cluster":
		h.clusterEvent()
	case "readiness":
		h.setReady(rapid.SampledFrom(historySources).Draw(h.rt, "source"), h.name(), rapid.SampledFrom([]string{"ready", "ready", "ready", "not ready", "unknown"}).Draw(h.rt, "readiness"))
	case "source":
		source := rapid.SampledFrom(historySources).Draw(h.rt, "source")
		h.down[source] = true
		h.listSource(source)
	case "source back":
		clear(h.down)
		for _, source := range historySources {
			h.listSource(source)
		}
	case "all ready":
		for _, name := range historyClusters {
			for _, source := range historySources {
				h.setReady(source, name, "ready")
			}
		}
	case "swap":
		h.swap()
	case "number":
		n := rapid.SampledFrom([]int32{0, 1, 2, 3, 3, 4}).Draw(h.rt, "number")
		h.edit(func(pl *v1alpha1.Placement) {
			if pl.Spec.NumberOfClusters = &n; n == 0 {
				pl.Spec.NumberOfClusters = nil
			}
		})
	case "edit":
		h.edits++
		h.setTolerations()
	case "tolerate":
		h.tolerates = !h.tolerates
		h.setTolerations()
	case "policy":
		h.policyEvent()
	case "no policy":
		h.setPolicy(rapid.SampledFrom(historyPolicies).Draw(h.rt, "policy"), nil)
	case "answer":
		h.answerEvent()
	case "evict":
		h.evictEvent()
	case "pin":
		h.pin(strconv.Itoa(1 + h.of("revision", max(1, len(h.records)))))
	case "unpin":
		h.pin("")
	case "page":
		h.pageEvent()
	case "deny":
		h.deny(rapid.SampledFrom([]model.Denial{model.InReserve, model.InPermit, model.InPermitOfOthers}).Draw(h.rt, "denial"))
	case "deny nothing":
		h.deny("")
	case "restart":
		h.restart()
	}
}

// deny has a plugin deny all changes from now on.
func (h *history) deny(in model.Denial) {
	no := framework.NewStatus(framework.Unschedulable, "no")
	h.denies, h.fore.answer, h.x.answer, h.x.ofRevoked = in, nil, nil, nil
	switch in {
	case model.InReserve:
		h.fore.answer = no
	case model.InPermitOfOthers:
		h.x.ofRevoked = framework.NewStatus(framework.Success, "")
		fallthrough
	case model.InPermit:
		h.x.answer = no
	}
}

// pageEvent edits or deletes the page, as a user would. It does so only after an attempt: a page
// that is edited while no controller runs is what was published last. It never lists what the
// engine may publish next: that would not be written, and the page would keep its revision.
func (h *history) pageEvent() {
	for key, page := range h.own() {
		if h.memory.Last == nil {
			return
		}
		if !h.isEdited(page) {
			h.unedited = page.DeepCopy()
		}
		h.meddle(key.Name, func(page *v1alpha1.PlacementDecision) bool {
			stranger := v1alpha1.ClusterDecision{ClusterName: "c0"}
			switch rapid.SampledFrom([]string{"deleted", "hidden", "one more", "another"}).Draw(h.rt, "edit of the page") {
			case "deleted":
				return false
			case "hidden":
				delete(page.Labels, v1alpha1.PlacementLabel)
			case "one more":
				page.Status.Decisions = append(page.Status.Decisions, stranger)
			case "another":
				page.Status.Decisions = append(page.Status.Decisions[min(1, len(page.Status.Decisions)):], stranger)
			}
			return true
		})
		h.edited = h.pages.pages[key]
	}
}

// isEdited is true for the page that a user edited last; Fence may have changed its version.
func (h *history) isEdited(page *v1alpha1.PlacementDecision) bool {
	return page == h.edited || page != nil && h.edited != nil && framework.ContentHash(page) == framework.ContentHash(h.edited)
}

// undoPageEdit undoes an edit of the page that no attempt has reverted.
func (h *history) undoPageEdit() {
	if h.unedited == nil {
		return
	}
	key := inventory.Key{Namespace: "ns", Name: h.unedited.Name}
	if now := h.pages.pages[key]; h.isEdited(now) {
		h.pages.pages[key] = h.unedited
	}
	h.edited, h.unedited = nil, nil
}

// setTolerations edits the Placement.
func (h *history) setTolerations() {
	h.edit(func(pl *v1alpha1.Placement) {
		pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: fmt.Sprint("other-", h.edits)}}
		if h.tolerates {
			pl.Spec.Tolerations = append(pl.Spec.Tolerations, v1alpha1.Toleration{Key: "broken", Operator: v1alpha1.TolerationOpExists})
		}
	})
}

func (h *history) of(label string, n int) int { return rapid.IntRange(0, n-1).Draw(h.rt, label) }

func (h *history) name() string { return rapid.SampledFrom(historyClusters).Draw(h.rt, "cluster") }

// swap replaces several clusters at once.
func (h *history) swap() {
	for _, name := range historyClusters {
		if h.of("swap "+name, 2) == 0 {
			c := &model.Cluster{Matches: true, Usable: true}
			if known := h.fleet[name]; known != nil {
				c.Matches = !known.Matches
			}
			h.setCluster(name, c)
		}
	}
}

// clusterEvent adds, changes or removes a cluster.
func (h *history) clusterEvent() {
	name := h.name()
	c := h.fleet[name]
	if c == nil {
		c = &model.Cluster{Matches: true, Usable: true}
	}
	switch rapid.SampledFrom([]string{"good", "good", "matches", "matches", "usable", "deleting", "drained", "drained", "tainted", "tainted", "unavailable", "only old", "gone"}).Draw(h.rt, "what") {
	case "good":
		c = &model.Cluster{Matches: true, Usable: true}
	case "matches":
		c.Matches = !c.Matches
	case "usable":
		c.Usable = !c.Usable
	case "deleting":
		c.Deleting = true
	case "drained":
		c.Drained = !c.Drained
	case "tainted":
		c.Tainted, c.TaintedSince = !c.Tainted, h.now
	case "unavailable":
		c.Unavailable, c.UnavailableSince = !c.Unavailable, h.now
	case "only old":
		c.OnlyOld = !c.OnlyOld
	case "gone":
		c = nil
	}
	h.setCluster(name, c)
}

// policyEvent creates a policy or changes some fields of it.
func (h *history) policyEvent() {
	name := rapid.SampledFrom(historyPolicies).Draw(h.rt, "policy")
	spec := berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}}
	if known := h.policies[name]; known != nil {
		spec = *known.Spec.DeepCopy()
	}
	amount := func(label string) *intstr.IntOrString {
		return rapid.SampledFrom([]*intstr.IntOrString{
			nil, new(intstr.FromInt32(0)), new(intstr.FromInt32(1)), new(intstr.FromInt32(2)), new(intstr.FromString("34%")), new(intstr.FromString("100%")),
		}).Draw(h.rt, label)
	}
	switch rapid.SampledFrom([]string{"budget", "budget", "budget", "available", "available", "unavailable clusters", "suspend", "approval", "approval", "windows", "stabilization", "readiness", "readiness", "min ready", "deadline"}).Draw(h.rt, "field") {
	case "budget":
		spec.MaxUnavailable, spec.MaxSurge = amount("unavailable"), amount("surge")
	case "available":
		spec.MinAvailable = amount("available")
	case "unavailable clusters":
		spec.UnavailableClusters = rapid.SampledFrom([]berthv1alpha1.UnavailableAction{"", berthv1alpha1.UnavailableRemove, berthv1alpha1.UnavailableReplaceFirst}).Draw(h.rt, "action")
	case "suspend":
		spec.Suspend = h.of("suspend", 4) == 0
	case "approval":
		if spec.Approval == "" {
			spec.Approval, spec.ApprovalTimeoutSeconds = berthv1alpha1.ApprovalRequired, int64(20+20*h.of("timeout", 2))
		} else {
			spec.Approval = ""
		}
	case "windows":
		spec.Windows = nil
		if every := h.of("every", 4); every > 1 {
			spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: fmt.Sprintf("*/%d * * * *", every), Duration: "1m"}}
		}
	case "stabilization":
		spec.StabilizationWindowSeconds = int64(5 * h.of("window", 3))
	case "readiness":
		spec.Readiness = nil
		if i := h.of("source", 3); i < len(historySources) {
			spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: historySources[i]}
		}
	case "min ready":
		spec.MinReadySeconds = int32(5 * h.of("seconds", 3))
	case "deadline":
		spec.ProgressDeadlineSeconds, spec.OnDeadline = int32(20*h.of("deadline", 3)), berthv1alpha1.DeadlineContinue
		if h.of("pause", 3) == 0 {
			spec.OnDeadline = berthv1alpha1.DeadlinePause
		}
	}
	h.setPolicy(name, &spec)
}

// answerEvent approves or rejects a change, if the hub accepts that.
func (h *history) answerEvent() {
	if len(h.records) == 0 {
		return
	}
	revisions := slices.Sorted(maps.Keys(h.records))
	record := h.records[rapid.SampledFrom(revisions).Draw(h.rt, "record")]
	if newest := h.newest(); newest != nil && h.of("newest", 4) > 0 {
		record = newest
	}
	decision := rapid.SampledFrom([]berthv1alpha1.ApprovalDecision{berthv1alpha1.Approved, berthv1alpha1.Approved, berthv1alpha1.Rejected}).Draw(h.rt, "decision")
	if given := record.Spec.Approval; given != nil && (given.Decision == decision || given.Decision == berthv1alpha1.Approved) || record.Status.PermittedTime != nil && !record.NeedsApproval() {
		return
	}
	h.answer(strings.TrimPrefix(record.Name, "p-"), decision)
}

// evictEvent evicts a published cluster, or ends an eviction.
func (h *history) evictEvent() {
	name := h.name()
	if e := h.evictions[name]; e != nil {
		delete(h.evictions, name)
		h.inv.Delete(e.DeepCopy())
	} else if slices.Contains(h.listed(), name) {
		h.setEviction(name, fixture.Eviction("ns", "evict-"+name, "p", name).Valid(metav1.ConditionTrue).Obj())
	}
}

// attemptUntilNoneIsDue runs attempts without faults as long as another one is due now.
func (h *history) attemptUntilNoneIsDue() {
	for range 60 {
		if !h.attempt() {
			return
		}
	}
	h.rt.Fatalf("attempts do not end: %v", h.listed())
}

// worldOf is what the model knows before an attempt.
func (h *history) world() model.World {
	w := model.World{
		Now: h.now, Pages: h.modelPages(), Records: h.modelRecords(), Denies: h.denies,
		Placement: model.Placement{Number: -1, Generation: h.placement.Generation}, Clusters: map[string]model.Cluster{}, GoneReady: map[string]bool{},
	}
	if n := h.placement.Spec.NumberOfClusters; n != nil {
		w.Placement.Number = int(*n)
	}
	w.Placement.Tolerates, w.Observed = h.tolerates, h.observed()
	w.Placement.Pinned, _ = strconv.ParseInt(h.placement.Annotations[berthv1alpha1.PinnedRevisionAnnotation], 10, 64)
	for _, name := range slices.Sorted(maps.Keys(h.policies)) {
		w.Policies = append(w.Policies, h.policies[name].Spec)
	}
	for name, c := range h.fleet {
		known := *c
		known.Ready, known.Unknown, known.Evicted = h.isReady(name), h.isUnknown(name), h.isEvicted(name)
		w.Clusters[name] = known
	}
	published := w.Listed
	if h.memory.Last != nil {
		published = h.memory.Last.Listed // Also if a user edited or deleted the page.
	}
	for _, name := range published {
		if _, exists := w.Clusters[name]; !exists {
			w.GoneReady[name] = h.isReady(name)
		}
	}
	return w
}

// attempt is one attempt, compared with the model. It reports whether another one is due now.
func (h *history) attempt() (again bool) {
	world := h.world()
	want := model.Attempt(world, h.memory)
	fault, crashes := h.fault, h.crashes
	a, failed := h.run()
	got := state{h.modelRecords(), h.modelPages()}
	all := states(world, want)
	text := func(of ...any) string {
		return fmt.Sprintf("%s\nbefore: %s\nmemory: %+v\nworld: %+v", fmt.Sprint(of...), all[0], h.memory, world)
	}
	if failed {
		if !slices.ContainsFunc(all, func(s state) bool { return s.String() == got.String() }) {
			h.rt.Fatal(text("write ", fault, " failed, crash: ", crashes, "; got ", got, "\nexpected one of ", all))
		}
		known := h.memory
		h.memory = want.Memory
		switch {
		case got.Pages.String() == want.String():
		case got.Pages.String() == world.String():
			h.memory.Published, h.memory.Last, h.memory.Known, h.memory.LastStep = known.Published, known.Last, known.Known, known.LastStep
		default:
			h.memory.Published, h.memory.Last, h.memory.Known, h.memory.LastStep = known.Published, &got.Pages, known.Known, known.LastStep
		}
		if crashes {
			h.restart()
		}
		return true
	}
	at := a.State.Requeue()
	again = !at.IsZero() && !at.After(h.now)
	gotText, wantText := fmt.Sprintf("%s: %s", a.Outcome, got), fmt.Sprintf("%s: %s", want.Outcome, all[len(all)-1])
	if a.Target != nil && a.Failure == nil {
		gotText, wantText = fmt.Sprint("target ", a.Target.Clusters, " ", gotText), fmt.Sprint("target ", want.Target, " ", wantText)
	}
	if gotText != wantText {
		h.rt.Fatal(text("got ", gotText, "\nwant ", wantText))
	}
	if want.Again && !again {
		h.rt.Fatal(text("no attempt is due after ", gotText))
	}
	h.memory = want.Memory
	if !again && !h.causes {
		h.sleeps(a.State.NextAttempt())
	}
	return again
}
