package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// situation is one kind of attempt. Before start all requests succeed.
type situation struct {
	start, act func(h *setUpHub)
	// splits is true if clusters that must go are removed first, as a change of their own, while
	// the record of the rest cannot be written.
	splits bool
	// wants are requests that the attempt makes.
	wants []string
}

// join adds clusters to the set of Placement n/p.
func join(names ...string) func(h *setUpHub) {
	return func(h *setUpHub) {
		for _, name := range names {
			h.reconciler.Inventory.Update(fixture.Cluster(name).Set("s1").Label("name", name).Obj())
		}
	}
}

// deleteClusters deletes clusters.
func deleteClusters(names ...string) func(h *setUpHub) {
	return func(h *setUpHub) {
		for _, name := range names {
			h.reconciler.Inventory.Delete(fixture.Cluster(name).Set("s1").Obj())
		}
	}
}

// policy sets the DisruptionPolicy of Placement n/p.
func policy(edit func(*berthv1alpha1.DisruptionPolicySpec)) func(h *setUpHub) {
	return func(h *setUpHub) {
		p := fixture.ApprovalPolicy("n", "policy")
		edit(&p.Spec)
		h.reconciler.Inventory.Update(p)
	}
}

func requireApproval(*berthv1alpha1.DisruptionPolicySpec) {}

// answer approves or rejects the newest held change.
func answer(decision berthv1alpha1.ApprovalDecision) func(h *setUpHub) {
	return func(h *setUpHub) {
		h.t.Helper()
		for _, record := range slices.Backward(h.allRecords()) {
			if record.Status.Phase == berthv1alpha1.PhaseHeld {
				record.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: decision, By: "ann"}
				if err := h.hub.Update(h.t.Context(), &record); err != nil {
					h.t.Fatal(err)
				}
				h.watch()
				return
			}
		}
		h.t.Fatal("no change is held")
	}
}

// edit edits Placement n/p.
func edit(change func(*v1alpha1.Placement)) func(h *setUpHub) {
	return func(h *setUpHub) {
		pl := h.placement()
		pl.Generation++
		change(pl)
		h.edit(pl)
	}
}

// place creates Placement n/p for all clusters.
func place(h *setUpHub) { h.place(fixture.Placement("n", "p").Obj()) }

// runAttempts runs attempts until nothing more is to do.
func runAttempts(h *setUpHub) { h.attemptUntilStable(0) }

func later(d time.Duration) func(h *setUpHub) { return func(h *setUpHub) { h.now = h.now.Add(d) } }

func all(steps ...func(h *setUpHub)) func(h *setUpHub) {
	return func(h *setUpHub) {
		for _, step := range steps {
			step(h)
		}
	}
}

// heldChange holds the change that adds cluster b to the published cluster a.
var heldChange = all(join("a"), place, runAttempts, policy(requireApproval), join("b"), runAttempts)

func situations() map[string]situation {
	rolling := func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = "" }
	short := func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval, spec.HistoryLimit = "", 1 }
	// closed is open for a minute in a year.
	closed := func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Approval, spec.Windows = "", []berthv1alpha1.RecurringWindow{{Schedule: "0 3 29 2 *", Duration: "1m"}}
	}
	slow := func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.Approval, spec.MinReadySeconds, spec.ProgressDeadlineSeconds = "", 86400, 600
	}
	pair := func(names ...string) func(*v1alpha1.Placement) {
		return func(pl *v1alpha1.Placement) {
			pl.Spec.NumberOfClusters = new(int32(2))
			pl.Spec.Predicates = fixture.Placement("n", "p").Predicate(fixture.MatchLabelExpression("name", metav1.LabelSelectorOpIn, names...)).Obj().Spec.Predicates
		}
	}
	two := all(join("a", "b", "c", "d"), func(h *setUpHub) {
		pl := fixture.Placement("n", "p").Obj()
		pair("a", "b")(pl)
		h.place(pl)
	}, runAttempts)
	return map[string]situation{
		"the first publication": {start: join("a"), act: place, wants: []string{"create PlacementChange p-1", "update status of PlacementChange p-1", "patch status of Placement p"}},
		"published at once":     {start: all(join("a"), place, runAttempts), act: join("b"), wants: []string{"create PlacementChange p-2"}},
		"held":                  {start: all(join("a"), place, runAttempts, policy(requireApproval)), act: join("b"), wants: []string{"create PlacementChange p-2", "update status of PlacementChange p-2"}},
		"approved":              {start: all(heldChange, answer(berthv1alpha1.Approved)), act: func(*setUpHub) {}, wants: []string{"update status of PlacementChange p-2"}},
		"rejected":              {start: all(heldChange, answer(berthv1alpha1.Rejected)), act: func(*setUpHub) {}, wants: []string{"update status of PlacementChange p-2"}},
		"approved after a rejection": {
			start: all(heldChange, answer(berthv1alpha1.Rejected), runAttempts, func(h *setUpHub) {
				for _, record := range h.allRecords() {
					if record.Status.Phase == berthv1alpha1.PhaseRejected {
						record.Spec.Approval.Decision = berthv1alpha1.Approved
						if err := h.hub.Update(h.t.Context(), &record); err != nil {
							h.t.Fatal(err)
						}
					}
				}
				h.watch()
			}), act: func(*setUpHub) {}, wants: []string{"update status of PlacementChange p-2"},
		},
		"expired": {
			start: all(join("a"), place, runAttempts, policy(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.ApprovalTimeoutSeconds = 60 }), join("b"), runAttempts),
			act:   later(2 * time.Minute), wants: []string{"update status of PlacementChange p-2"},
		},
		"held, and supersedes a held one": {start: heldChange, act: join("c"), wants: []string{"update status of PlacementChange p-2", "create PlacementChange p-3"}},
		"published at once, and supersedes a held one": {
			start: heldChange, act: all(policy(rolling), func(h *setUpHub) {
				h.reconciler.Inventory.Delete(fixture.ApprovalPolicy("n", "policy"))
			}, join("c")), wants: []string{"update status of PlacementChange p-2", "create PlacementChange p-3"},
		},
		"a held change that is withdrawn": {start: heldChange, act: deleteClusters("b"), wants: []string{"update status of PlacementChange p-2"}},
		"in steps":                        {start: all(two, policy(rolling)), act: edit(pair("c", "d")), wants: []string{"create PlacementChange p-2"}},
		"in steps, and supersedes a held one": {
			start: all(two, policy(requireApproval), edit(pair("a", "c")), runAttempts, policy(rolling)),
			act:   edit(pair("c", "d")), wants: []string{"update status of PlacementChange p-2", "create PlacementChange p-3"},
		},
		"approved, in steps, with a forced removal": {
			start: all(two, policy(requireApproval), edit(pair("c", "d")), deleteClusters("a"), runAttempts, answer(berthv1alpha1.Approved)), act: func(*setUpHub) {}, splits: true,
		},
		"in steps, with a forced removal": {start: all(two, policy(rolling)), act: all(deleteClusters("a"), edit(pair("c", "d"))), splits: true, wants: []string{"create PlacementChange p-2"}},
		"a step that is stuck":            {start: all(two, later(25*time.Hour), policy(slow), edit(pair("c", "d")), runAttempts), act: later(15 * time.Minute), wants: []string{"patch status of Placement p"}},
		"superseded in the middle":        {start: all(two, later(25*time.Hour), policy(slow), edit(pair("c", "d")), runAttempts), act: edit(pair("a", "d"))},
		"a forced removal beside a held change": {
			start: all(join("a", "b"), place, runAttempts, policy(closed), join("c"), runAttempts), act: deleteClusters("a"), wants: []string{"create PlacementChange p-3"},
		},
		"old records are deleted": {
			start: all(join("a"), place, runAttempts, policy(short), join("b"), runAttempts), act: join("c"), wants: []string{"create PlacementChange p-3", "delete PlacementChange p-1"},
		},
		"old held records are deleted": {
			start: all(join("a"), place, runAttempts, policy(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.HistoryLimit = 1 }), join("b"), runAttempts, join("c"), runAttempts),
			act:   join("d"), wants: []string{"delete PlacementChange p-3", "create PlacementChange p-4"},
		},
		"misconfigured": {
			start: all(join("a"), place, runAttempts), wants: []string{"patch status of Placement p"},
			act: edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "other" }),
		},
		"clusters are missing": {start: all(join("a"), place, runAttempts), act: edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(3)) })},
		"denied": {
			start: all(join("a"), place, runAttempts), wants: []string{"patch status of Placement p"},
			act: all(join("b"), func(h *setUpHub) {
				h.probe.permit = func() (*framework.Status, time.Duration) {
					return framework.NewStatus(framework.Unschedulable, "the answer is no"), 0
				}
			}),
		},
	}
}

// allRecords are the records on the hub, by revision.
func (h *setUpHub) allRecords() []berthv1alpha1.PlacementChange {
	h.t.Helper()
	var list berthv1alpha1.PlacementChangeList
	if err := h.hub.List(h.t.Context(), &list); err != nil {
		h.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b berthv1alpha1.PlacementChange) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	return list.Items
}

// watch passes the records and the Placement on the hub to the inventory.
func (h *setUpHub) watch() {
	h.t.Helper()
	inv, there := h.reconciler.Inventory, map[string]bool{}
	for _, record := range h.allRecords() {
		there[record.Name] = true
		inv.Update(&record)
	}
	for _, record := range inv.Records() {
		if !there[record.Name] {
			inv.Delete(record)
		}
	}
	pl := &v1alpha1.Placement{}
	if err := h.hub.Get(h.t.Context(), placementKey, pl); err == nil {
		inv.Update(pl)
	}
}

// attemptUntilStable runs attempts and the background until nothing is left to do. The watch
// reports what was written after the first late attempts.
func (h *setUpHub) attemptUntilStable(late int) {
	h.t.Helper()
	for i := range 40 {
		if i >= late {
			h.watch()
		}
		before := len(h.requests)
		result, err := h.reconcile()
		err = errors.Join(err, h.reconciler.Records.flush(h.t.Context(), placementKey))
		again := result.RequeueAfter > 0 && result.RequeueAfter <= 10*time.Second
		if i >= late && err == nil && !again && len(h.requests) == before {
			return
		}
	}
	h.t.Fatal("it does not attemptUntilStable")
}

// checkChain checks that each record starts where the one before it ended, and that the last one
// leads to what is published.
func (h *setUpHub) checkChain() {
	h.t.Helper()
	to := berthv1alpha1.Digest(nil)
	for i, record := range h.allRecords() {
		if record.Spec.Revision != int64(i+1) || record.Spec.From != to || record.Status.Phase != berthv1alpha1.PhasePublished {
			h.t.Errorf("record %d: revision %d, %s, from %.4s, want %.4s", i, record.Spec.Revision, record.Status.Phase, record.Spec.From, to)
		}
		to = record.Spec.To
	}
	if got := berthv1alpha1.Digest(h.published()); got != to {
		h.t.Errorf("the last record leads to %.4s, published is %.4s", to, got)
	}
}

// report is all that others see of Placement n/p.
type situationReport struct {
	Published, Records, Conditions, Events []string
	Metrics                                map[string]float64
}

// run runs a situation. prepare is called after act.
func (s situation) run(t *testing.T, late int, prepare func(h *setUpHub)) (*setUpHub, situationReport) {
	t.Helper()
	h := startSetUpHub(t, hubOptions{})
	s.start(h)
	h.watch()
	h.sent()
	h.written()
	var r situationReport
	r.Metrics = changed(t, func() {
		s.act(h)
		if prepare != nil {
			prepare(h)
		}
		h.attemptUntilStable(late)
	}, permitSeconds, stuckChanges, placementsNow, decisionWrites, heldNow)
	r.Published = h.published()
	r.Events = slices.DeleteFunc(append([]string{}, h.sent()...), func(e string) bool { return strings.HasPrefix(e, "Warning StatusRefused ") })
	slices.Sort(r.Events)
	for _, c := range h.placement().Status.Conditions {
		r.Conditions = append(r.Conditions, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	slices.Sort(r.Conditions)
	for _, record := range h.allRecords() {
		st := record.Status
		text := func(at *metav1.Time) string {
			if at == nil {
				return "-"
			}
			return at.Sub(fixture.Now).String()
		}
		remaining := "none"
		if st.Remaining != nil {
			remaining = fmt.Sprint(*st.Remaining)
		}
		r.Records = append(r.Records, fmt.Sprintf("%d-%d %s +%v -%v from %.4s to %.4s remaining %s times %s %s %s %s: %s", record.Spec.FirstRevision, record.Spec.Revision,
			st.Phase, record.Spec.Added, record.Spec.Removed, record.Spec.From, record.Spec.To, remaining,
			text(st.StartTime), text(st.PermittedTime), text(st.LastProgressTime), text(st.CompletionTime), st.Message))
	}
	return h, r
}

// withoutScores is without scores, which differ if a Placement is decided again.
func (r situationReport) withoutScores() situationReport {
	r.Events = slices.Clone(r.Events)
	for i, e := range r.Events {
		if before, _, scores := strings.Cut(e, "ScoreUpdated: "); scores {
			r.Events[i] = before
		}
	}
	return r
}

// withoutCounts is without what differs if pages are written in other steps: how often they were.
func (r situationReport) withoutCounts() situationReport {
	r.Metrics = maps.Clone(r.Metrics)
	maps.DeleteFunc(r.Metrics, func(name string, _ float64) bool { return strings.HasPrefix(name, "decision_writes_total ") })
	r.Events = slices.Compact(slices.Clone(r.Events))
	return r
}

// failure is how a request fails.
type failure struct {
	err error
	// done is true if the request has its effect: only the response is lost. edited is true if
	// the object is edited just before.
	done, edited bool
	// unreadable is true if nothing can be read past the caches until the next write.
	unreadable bool
	// pages is true if pages are written with it, too, late if it is also tried with a late watch.
	pages, late bool
}

func failures() map[string]failure {
	resource := schema.GroupResource{Group: "berth.dev", Resource: "placementchanges"}
	broken := errors.New("connection refused")
	return map[string]failure{
		"Conflict":                  {err: apierrors.NewConflict(resource, "p", errors.New("the object has been modified")), pages: true, late: true},
		"an edit":                   {edited: true, pages: true, late: true},
		"AlreadyExists":             {err: apierrors.NewAlreadyExists(resource, "p"), late: true},
		"NotFound":                  {err: apierrors.NewNotFound(resource, "p"), late: true},
		"Forbidden":                 {err: apierrors.NewForbidden(resource, "p", errors.New("no right"))},
		"Invalid":                   {err: apierrors.NewInvalid(schema.GroupKind{Kind: "PlacementChange"}, "p", nil)},
		"no connection":             {err: broken, pages: true},
		"no response":               {err: broken, done: true, pages: true, late: true},
		"no response, and no reads": {err: broken, done: true, unreadable: true, pages: true, late: true},
	}
}

// failAt has the n-th request from now on fail.
func (h *setUpHub) failAt(n int, f failure) {
	count := 0
	meets := func() bool { count++; return count == n+1 }
	switch {
	case f.edited:
		h.refuse = func(request string) error {
			if meets() {
				h.annotateObject(request)
			}
			return nil
		}
	case f.done:
		h.lose = func(string) error {
			h.unreadable = nil
			if !meets() {
				return nil
			}
			if f.unreadable {
				h.unreadable = errors.New("no reads")
			}
			return f.err
		}
	default:
		h.refuse = func(string) error {
			if meets() {
				return f.err
			}
			return nil
		}
	}
}

// annotateObject edits the object of a request on the hub, if it is there.
func (h *setUpHub) annotateObject(request string) {
	h.t.Helper()
	words := strings.Fields(request)
	var o client.Object
	switch words[len(words)-2] {
	case "PlacementChange":
		o = &berthv1alpha1.PlacementChange{}
	case "Placement":
		o = &v1alpha1.Placement{}
	case "PlacementDecision":
		o = &v1alpha1.PlacementDecision{}
	}
	if err := h.hub.Get(h.t.Context(), client.ObjectKey{Namespace: "n", Name: words[len(words)-1]}, o); err != nil {
		return
	}
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["edited"] = "true"
	o.SetAnnotations(annotations)
	if err := h.hub.Update(h.t.Context(), o); err != nil {
		h.t.Fatal(err)
	}
}

// TestObligations: each write of an attempt fails in turn, in each way. In the end records, events,
// conditions and metrics are those of a run without failures.
func TestObligations(t *testing.T) {
	for name, s := range situations() {
		t.Run(name, func(t *testing.T) {
			h, want := s.run(t, 0, nil)
			requests := h.written()
			for _, request := range s.wants {
				if !slices.Contains(requests, request) {
					t.Fatalf("there is no request %q, but %q", request, requests)
				}
			}
			for n, request := range requests {
				for how, f := range failures() {
					s.checkFailure(t, want, n, request, how, f)
				}
			}
		})
	}
}

// checkFailure has one request fail, with the watch in time and late.
func (s situation) checkFailure(t *testing.T, want situationReport, n int, request, how string, f failure) {
	page := strings.Contains(request, "PlacementDecision ")
	creates := strings.HasPrefix(request, "create ")
	if page && !f.pages || how == "NotFound" && strings.HasPrefix(request, "delete ") {
		// The object is gone then.
		return
	}
	if how == "AlreadyExists" && !creates || f.edited && creates {
		return // No server answers that to an update, and there is nothing yet to edit.
	}
	for _, late := range []int{0, 2} {
		if late > 0 && !f.late {
			continue
		}
		t.Run(fmt.Sprintf("%d %s: %s, watch after %d attempts", n, request, how, late), func(t *testing.T) {
			h, got := s.run(t, late, func(h *setUpHub) { h.failAt(n, f) })
			want := want.withoutScores()
			got = got.withoutScores()
			if s.splits || page {
				want, got = want.withoutCounts(), got.withoutCounts()
			}
			if s.splits && len(got.Records) > len(want.Records) {
				h.checkChain()
				got.Records = want.Records
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s\n%s", diff, strings.Join(h.written(), "\n"))
			}
		})
	}
}

// TestForcedRemovalOfAnApprovedChange: the permission cannot be written at first. Each published
// change has a record.
func TestForcedRemovalOfAnApprovedChange(t *testing.T) {
	h := startSetUpHub(t, hubOptions{})
	pair := func(names ...string) func(*v1alpha1.Placement) {
		return func(pl *v1alpha1.Placement) {
			pl.Spec.NumberOfClusters = new(int32(2))
			pl.Spec.Predicates = fixture.Placement("n", "p").Predicate(fixture.MatchLabelExpression("name", metav1.LabelSelectorOpIn, names...)).Obj().Spec.Predicates
		}
	}
	join("a", "b", "c", "d")(h)
	pl := fixture.Placement("n", "p").Obj()
	pair("a", "b")(pl)
	h.place(pl)
	runAttempts(h)
	policy(requireApproval)(h)
	edit(pair("c", "d"))(h)
	deleteClusters("a")(h)
	runAttempts(h)
	answer(berthv1alpha1.Approved)(h)
	failed := false
	h.refuse = func(request string) error {
		if !failed && strings.HasPrefix(request, "update status of PlacementChange") {
			failed = true
			return errors.New("connection refused")
		}
		return nil
	}
	h.attemptUntilStable(0)
	if !failed {
		t.Fatal("the permission was not written")
	}
	checkHistory(t, h)
}

// checkHistory demands that the Published records lead to what is published.
func checkHistory(t *testing.T, h *setUpHub) {
	t.Helper()
	to := berthv1alpha1.Digest(nil)
	for _, r := range h.allRecords() {
		if r.Status.Phase != berthv1alpha1.PhasePublished {
			continue
		}
		if r.Spec.From != to {
			t.Errorf("%s starts from %.4s, but %.4s was published", r.Name, r.Spec.From, to)
		}
		to = r.Spec.To
	}
	if got := berthv1alpha1.Digest(h.published()); got != to {
		t.Errorf("the last record leads to %.4s, published is %.4s", to, got)
	}
}

// TestLostCreationIsSeenBeforeTheRecord: a held record was created, but the response was lost; then
// another change is published under its revision. The watch reports the abandoned record, and
// another attempt runs, before the background writes the record of the published change.
func TestLostCreationIsSeenBeforeTheRecord(t *testing.T) {
	h := startSetUpHub(t, hubOptions{})
	all(join("a"), place, runAttempts, policy(requireApproval), join("b"))(h)
	h.watch()
	h.lose = func(request string) error {
		if request == "create PlacementChange p-2" {
			return errors.New("connection reset")
		}
		return nil
	}
	if _, err := h.reconcile(); err == nil {
		t.Fatal("no failure")
	}
	h.lose = nil
	h.reconciler.Inventory.Delete(fixture.ApprovalPolicy("n", "policy"))
	join("c")(h)
	if _, err := h.reconcile(); err != nil { // publishes a, b and c as revision 2
		t.Fatal(err)
	}
	h.watch()
	if _, err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	runAttempts(h)
	checkHistory(t, h)
}

// TestSupersededWithOwedProgress: the status of a step could not be written when another change
// supersedes its change. The end of that is written before the next record.
func TestSupersededWithOwedProgress(t *testing.T) {
	pair := func(names ...string) func(*v1alpha1.Placement) {
		return func(pl *v1alpha1.Placement) {
			pl.Spec.NumberOfClusters = new(int32(2))
			pl.Spec.Predicates = fixture.Placement("n", "p").Predicate(fixture.MatchLabelExpression("name", metav1.LabelSelectorOpIn, names...)).Obj().Spec.Predicates
		}
	}
	step := func(h *setUpHub) {
		h.watch()
		if _, err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	run := func(t *testing.T, fails bool) (all []string) {
		h := startSetUpHub(t, hubOptions{})
		join("a", "b", "c", "d", "e", "f")(h)
		pl := fixture.Placement("n", "p").Obj()
		pair("a", "b")(pl)
		h.place(pl)
		runAttempts(h)
		later(25 * time.Hour)(h)
		policy(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Approval = "" })(h)
		edit(pair("c", "d"))(h)
		step(h) // adds c
		h.refuse = func(request string) error {
			if fails && request == "update status of PlacementChange p-2" {
				return errors.New("connection refused")
			}
			return nil
		}
		step(h) // removes a
		h.refuse = nil
		edit(pair("e", "f"))(h)
		for range 2 {
			step(h)
			open := 0
			for _, r := range h.allRecords() {
				if r.Status.Phase == berthv1alpha1.PhaseProgressing {
					open++
				}
			}
			if open > 1 {
				t.Errorf("%d changes are in progress", open)
			}
		}
		runAttempts(h)
		for _, r := range h.allRecords() {
			all = append(all, fmt.Sprintf("%d %s +%v -%v remaining %v: %s", r.Spec.Revision, r.Status.Phase, r.Spec.Added, r.Spec.Removed, r.Status.Remaining, r.Status.Message))
		}
		return all
	}
	want, got := run(t, false), run(t, true)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-without +with the failure):\n%s", diff)
	}
}
