package world

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/readers"
	"github.com/berth-dev/berth/test/testhub"
	"github.com/berth-dev/berth/test/world/server"
)

// written counts writes; last is the time of the last one.
type written struct {
	n    int
	last time.Time
}

// laws sees every write, in the order in which the server does them, and says what is broken.
type laws struct {
	w      *world
	broken []string
	pages  map[string]map[string]*v1alpha1.PlacementDecision // by Placement and name
	// records has the last state of each record that ever existed.
	records map[types.UID]*berthv1alpha1.PlacementChange
	// damaged are Placements whose pages were edited by hand, until Berth writes one; damagedAt is
	// when that was last. lost are the clusters on those pages, by Placement and name, until Berth
	// writes them.
	damaged   map[string]bool
	damagedAt map[string]time.Time
	lost      map[string]bool
	// left has the last time at which a cluster left the pages of a Placement, and the number of
	// inputs before.
	left map[string]departure
	// inputs counts the writes of what all decisions depend on. While a SelectionPolicy (apart) or
	// quotas make Placements depend on each other, writes has the writes of pages by Placement.
	inputs int
	// lastInputs are the times of the last two; the second may undo the first before Berth knows.
	lastInputs [2]time.Time
	apart      map[string]bool
	writes     map[string]written
	// sets has the set of each cluster; bound is true while the namespace is bound to s1.
	sets   map[string]string
	bound  bool
	shared *shared
	// windows are those of the DisruptionPolicy.
	windows []berthv1alpha1.RecurringWindow
	// permitted is when each change, by its UID, was seen as permitted first.
	permitted map[types.UID]time.Time
	// approvalSince is since when each change needs an approval; zero if it does not.
	approvalSince time.Time
	// lateAt is when the last page was written whose writer did not wait for the answer.
	lateAt time.Time
	// givenUp has the pages of which a replica has given up a write: when it read the page since.
	givenUp map[pageOf]time.Time
	// grouped are the Placements whose groups were edited last (onGroups).
	grouped map[string]bool
	// pageWrites counts the writes of pages by replicas.
	pageWrites int
	// delegated are the Placements whose pages belong to other writers, with what was published
	// before; adopted those with what these published, which gets a record.
	delegated map[string]delegation
	adopted   map[string]string
	// removals are those that count for BlastRadius. addedLate is when a cluster was added to the
	// pages of a Placement by a write whose writer had not waited for the answer, by both names.
	removals  []removed
	addedLate map[string]time.Time
	// originals are the clusters with which the change in steps of a Placement began. available is
	// minAvailable of the DisruptionPolicy, which is as it is since availableSince.
	originals      map[string]map[string]bool
	available      *intstr.IntOrString
	availableSince time.Time
	// usableSince is when the namespace was last allowed to use clusters that it could not use
	// before.
	usableSince time.Time
	// staying are the clusters that stay on the pages of a Placement, whatever happens now.
	staying map[string]map[string]bool
	// tainted are the clusters with a taint NoSelect.
	tainted map[string]bool
	forced  forced
	leader  leader
	// deleted are the records that were deleted, by historyLimit or with their Placement.
	deleted map[types.UID]*berthv1alpha1.PlacementChange
}

type pageOf struct{ replica, page string }

type departure struct {
	at     time.Time
	inputs int
}

// maxLate is how long after an input Berth may publish without knowing it, if the server is not
// slow.
const maxLate = 3 * time.Second

// requestsOfAnAttempt is how many requests may lie between an input and what it leads to.
const requestsOfAnAttempt = 5

// reaction is how long after an input Berth may publish without knowing it.
func (l *laws) reaction() time.Duration { return maxLate + requestsOfAnAttempt*l.w.schedule.Slow() }

func newLaws(w *world) *laws {
	return &laws{
		w: w, pages: map[string]map[string]*v1alpha1.PlacementDecision{}, records: map[types.UID]*berthv1alpha1.PlacementChange{},
		damaged: map[string]bool{}, damagedAt: map[string]time.Time{}, lost: map[string]bool{}, left: map[string]departure{}, sets: map[string]string{}, apart: map[string]bool{}, writes: map[string]written{}, shared: newShared(), permitted: map[types.UID]time.Time{}, grouped: map[string]bool{}, delegated: map[string]delegation{}, adopted: map[string]string{}, originals: map[string]map[string]bool{}, addedLate: map[string]time.Time{}, tainted: map[string]bool{},
		givenUp: map[pageOf]time.Time{}, forced: forced{}, deleted: map[types.UID]*berthv1alpha1.PlacementChange{},
	}
}

func (l *laws) breaks(format string, args ...any) {
	if len(l.broken) < 10 {
		l.broken = append(l.broken, time.Now().UTC().Format("15:04:05.000 ")+"BROKEN "+fmt.Sprintf(format, args...))
	}
}

func decode[T any](content map[string]any) *T {
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, object); err != nil {
		panic(err)
	}
	return object
}

// damage says that a person is about to edit a page.
func (l *laws) damage(page *v1alpha1.PlacementDecision) {
	placement := page.Labels[v1alpha1.PlacementLabel]
	l.damaged[placement], l.damagedAt[placement] = true, time.Now()
}

func (l *laws) onWrite(w *server.Write) {
	l.checkLeader(w)
	switch w.Kind {
	case "Lease":
		l.leader.onLease(w)
	case "PlacementDecision":
		l.onPage(w)
	case "PlacementChange":
		record := decode[berthv1alpha1.PlacementChange](w.Object)
		l.onRecord(w, record)
		if w.Writer == "person" {
			l.shared.queuesSince = time.Now() // A rejected change removes nothing.
			l.countInput()
		}
	case "Event":
	default:
		if w.Writer == "person" || w.Writer == "" {
			l.countInput()
		}
		l.onInput(w)
		l.onGroups(w)
		l.onDelegation(w)
		l.shared.onInput(w)
		l.forced.onInput(w)
		l.checkQuotas(maxOver)
	}
}

func (l *laws) countInput() {
	l.inputs++
	l.lastInputs = [2]time.Time{l.lastInputs[1], time.Now()}
}

func (l *laws) onInput(w *server.Write) {
	switch w.Kind {
	case "ManagedCluster":
		c := decode[v1alpha1.ManagedCluster](w.Object)
		before := l.isRevoked(c.Name)
		if l.sets[c.Name] = c.Labels[v1alpha1.ClusterSetLabel]; w.Type == "DELETED" {
			delete(l.sets, c.Name)
		}
		if before && !l.isRevoked(c.Name) {
			l.usableSince = time.Now()
		}
		l.tainted[c.Name] = slices.ContainsFunc(c.Spec.Taints, func(t v1alpha1.Taint) bool { return t.Effect == v1alpha1.TaintEffectNoSelect })
	case "Placement":
		if w.Type == "DELETED" {
			l.endHistory(w)
		} else if w.Older != nil {
			l.checkCounts(w)
		}
	case "SelectionPolicy":
		p := decode[berthv1alpha1.SelectionPolicy](w.Object)
		if delete(l.apart, p.Name); w.Type != "DELETED" && len(p.Spec.Affinity.ApartFrom) > 0 {
			l.apart[p.Name] = true
		}
	case "ManagedClusterSetBinding":
		before := l.bound
		if l.bound = w.Type != "DELETED"; l.bound && !before {
			l.usableSince = time.Now()
		}
	case "DisruptionPolicy":
		spec := decode[berthv1alpha1.DisruptionPolicy](w.Object).Spec
		if l.windows = spec.Windows; w.Type == "DELETED" {
			l.windows = nil
		}
		l.setAvailable(spec.MinAvailable, w.Type == "DELETED")
		required := w.Type != "DELETED" && spec.Approval == berthv1alpha1.ApprovalRequired
		switch {
		case !required:
			l.approvalSince = time.Time{}
		case l.approvalSince.IsZero():
			l.approvalSince = time.Now()
		}
	}
}

// checkCounts: a status that changes what it says of the decision describes what is published at
// that moment (law 5). Soon after a person has edited pages, nothing is known.
func (l *laws) checkCounts(w *server.Write) {
	older, pl := decode[v1alpha1.Placement](w.Older), decode[v1alpha1.Placement](w.Object)
	before, now := &older.Status, &pl.Status
	same := before.NumberOfSelectedClusters == now.NumberOfSelectedClusters && equality.Semantic.DeepEqual(before.DecisionGroups, now.DecisionGroups)
	edited := l.damaged[pl.Name] || time.Since(l.shared.pagesSince) < settled
	if _, delegated := l.delegated[pl.Name]; same || w.Late || w.Writer == "person" || delegated || pl.IsDisabled() || edited {
		return
	}
	if published, _ := l.controlled(pl.Name); len(published) != int(now.NumberOfSelectedClusters) {
		l.breaks("law 5: the status of %s counts %d clusters when %d are published", pl.Name, now.NumberOfSelectedClusters, len(published))
	}
	for _, group := range now.DecisionGroups {
		for _, page := range group.Decisions {
			if l.pages[pl.Name][page] == nil {
				l.breaks("law 5: the status of %s names the page %s, which is not published", pl.Name, page)
			}
		}
	}
}

// isRevoked reports whether the namespace may no longer use a cluster.
func (l *laws) isRevoked(name string) bool {
	set, exists := l.sets[name]
	return exists && (set != "s1" || !l.bound)
}

// checkApproved: what needs an approval is not published without one.
func (l *laws) checkApproved(placement string, before, after map[string]bool, page *v1alpha1.PlacementDecision) {
	if l.approvalSince.IsZero() || time.Since(l.approvalSince) < 2*time.Minute || len(before) == 0 || l.wasFrozen() {
		return
	}
	needs := map[string]string{}
	// Clusters that were revoked until a moment ago may leave still.
	revoked := time.Since(l.usableSince) < l.reaction()
	for name := range before {
		if !after[name] && !revoked && !l.isRevoked(name) {
			needs[name] = "removes"
		}
	}
	for name := range after {
		if !before[name] {
			needs[name] = "adds"
		}
	}
	// A page that a change empties keeps its older revision.
	revision, _ := strconv.ParseInt(page.Annotations[berthv1alpha1.RevisionAnnotation], 10, 64)
	for _, record := range l.records {
		approval, permitted := changes.ApprovalOf(record), l.permitted[record.UID]
		approved := approval != nil && approval.Decision == berthv1alpha1.Approved || !permitted.IsZero() && permitted.Before(l.approvalSince.Add(2*time.Minute))
		if record.Spec.Placement != placement || record.Spec.Revision < revision || !approved {
			continue
		}
		added, removed, err := changes.Lists(record)
		if err != nil {
			panic(err)
		}
		for name, verb := range needs {
			if verb == "adds" && slices.Contains(added, name) || verb == "removes" && slices.Contains(removed, name) {
				delete(needs, name)
			}
		}
	}
	if len(needs) > 0 {
		l.breaks("revision %d of %s is published without an approval: %v", revision, placement, needs)
	}
}

// onPage checks what readers see after each write of a page.
func (l *laws) onPage(w *server.Write) {
	page := decode[v1alpha1.PlacementDecision](w.Object)
	placement := page.Labels[v1alpha1.PlacementLabel]
	if l.pages[placement] == nil {
		l.pages[placement] = map[string]*v1alpha1.PlacementDecision{}
	}
	before := l.union(placement)
	if w.Type == "DELETED" {
		delete(l.pages[placement], page.Name)
	} else {
		l.pages[placement][page.Name] = page
	}
	l.countWrite(placement)
	switch w.Writer {
	case "person":
		delete(l.adopted, placement)
		l.shared.pagesSince = time.Now()
		for name := range l.union(placement) {
			delete(before, name)
		}
		for name := range before {
			l.lost[placement+"/"+name] = true
		}
		return
	case "": // The Placement is deleted, and its pages with it.
		return
	}
	l.pageWrites++
	delete(l.forced, placement)
	if w.Late {
		if w.Type != "ADDED" { // A creation has no version by which it could be refused.
			l.checkGivenUp(pageOf{w.Writer, page.Name})
		}
		l.lateAt, l.shared.pagesSince = time.Now(), time.Now() // Berth does not know it yet.
	}
	after := l.union(placement)
	for name := range l.staying[placement] {
		if before[name] && !after[name] {
			l.breaks("law 2: cluster %s stays, and is missing on the pages of %s", name, placement)
		}
	}
	restored := map[string]bool{}
	for name := range after {
		if !before[name] && l.lost[placement+"/"+name] {
			restored[name] = true
			delete(l.lost, placement+"/"+name)
		}
	}
	if l.damaged[placement] {
		delete(l.damaged, placement)
		l.shared.pagesSince = time.Now()
		l.checkQuotas(maxOver)
		return
	}
	for name := range before {
		if !after[name] {
			delete(l.grouped, placement)
			if l.isLate(w, placement) || time.Since(l.damagedAt[placement]) < l.reaction() {
				continue
			}
			l.left[placement+"/"+name] = departure{time.Now(), l.inputsOf(placement)}
		}
	}
	for name := range after {
		gone, known := l.left[placement+"/"+name]
		if known && !w.Late && !before[name] && gone.inputs == l.inputsOf(placement) && time.Since(gone.at) < 10*time.Second {
			l.breaks("law 2: cluster %s was missing on the pages of %s for %s", name, placement, time.Since(gone.at))
		}
	}
	if time.Since(l.lateAt) > l.reaction() && time.Since(l.w.latePagesEnd) > l.reaction() {
		l.checkGroups(placement, page)
	}
	l.checkPermitted(placement, page, w)
	l.checkRemovals(w, placement, before, after)
	l.checkAvailable(w, placement, before, after)
	maps.Copy(before, restored)
	l.checkShared(placement, before, after)
	l.checkApproved(placement, before, after, page)
}

// onRequest follows what a replica can know of pages whose writes it has given up.
func (l *laws) onRequest(replica string, r *http.Request, fault server.Fault) {
	collection, name := path.Split(r.URL.Path)
	if path.Base(collection) != "placementdecisions" {
		return
	}
	of := pageOf{replica, name}
	switch _, known := l.givenUp[of]; {
	case fault.Late > 0, known && fault != server.Fault{}:
		l.givenUp[of] = time.Time{}
	case known && r.Method == http.MethodGet:
		l.givenUp[of] = time.Now()
	}
}

// checkGivenUp: what a replica has given up changes no page that it has read since then (law 2).
func (l *laws) checkGivenUp(of pageOf) {
	read := l.givenUp[of]
	if ago := time.Since(read); !read.IsZero() && ago > l.reaction() && !l.froze(of.replica) {
		l.breaks("law 2: a request that replica %s has given up changes the page %s, which it read %s ago", of.replica, of.page, ago)
	}
}

// countWrite counts a write that decisions of other Placements may depend on.
func (l *laws) countWrite(placement string) {
	if len(l.apart) > 0 || l.w.queues {
		l.writes[placement] = written{l.writes[placement].n + 1, time.Now()}
	}
}

// inputsOf counts the writes of what the decision of a Placement depends on.
func (l *laws) inputsOf(placement string) int {
	n := l.inputs
	for of, writes := range l.writes {
		if of != placement {
			n += writes.n
		}
	}
	return n
}

// revision is the newest one on the pages of a Placement.
func (l *laws) revision(placement string) (newest int64) {
	for _, page := range l.pages[placement] {
		revision, _ := strconv.ParseInt(page.Annotations[berthv1alpha1.RevisionAnnotation], 10, 64)
		newest = max(newest, revision)
	}
	return newest
}

func (l *laws) union(placement string) map[string]bool {
	var pages []readers.Page
	for _, page := range l.pages[placement] {
		pages = append(pages, readers.PageOf(page))
	}
	return readers.Union(pages)
}

// checkGroups: no index has two names on the pages of one Placement. Those of a deleted one with
// the same name may still be there.
func (l *laws) checkGroups(placement string, written *v1alpha1.PlacementDecision) {
	names := map[string]string{}
	for _, page := range l.pages[placement] {
		if !slices.EqualFunc(page.OwnerReferences, written.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
			continue
		}
		index, name := page.Labels[v1alpha1.DecisionGroupIndexLabel], page.Labels[v1alpha1.DecisionGroupNameLabel]
		if other, known := names[index]; known && other != name {
			l.breaks("readers 2: group %s of %s has the names %q and %q", index, placement, other, name)
		}
		names[index] = name
	}
}

// checkPermitted: a page with the revision of a record is published only if that is permitted.
func (l *laws) checkPermitted(placement string, page *v1alpha1.PlacementDecision, w *server.Write) {
	if l.froze(w.Writer) || w.Late && w.Type == "ADDED" {
		return
	}
	revision, _ := strconv.ParseInt(page.Annotations[berthv1alpha1.RevisionAnnotation], 10, 64)
	if w.Older != nil {
		older := decode[v1alpha1.PlacementDecision](w.Older)
		if older.Annotations[berthv1alpha1.RevisionAnnotation] == page.Annotations[berthv1alpha1.RevisionAnnotation] {
			return
		}
	}
	for _, record := range l.records {
		if record.Spec.Placement == placement && record.Spec.Revision == revision && record.Status.PermittedTime == nil && record.Status.Phase != "" && w.Type != "DELETED" {
			l.breaks("%s is published, and its change is %s", record.Name, record.Status.Phase)
		}
	}
}

// onRecord checks what happens to a record.
func (l *laws) onRecord(w *server.Write, record *berthv1alpha1.PlacementChange) {
	if w.Type == "DELETED" {
		delete(l.records, record.UID)
		delete(l.forced, record.Spec.Placement)
		l.deleted[record.UID] = record
		return
	}
	if older := l.records[record.UID]; older == nil {
		l.checkForced(w, record)
		l.checkAdoptedOnce(record)
	} else {
		was, is := older.Status.Phase, record.Status.Phase
		if was == berthv1alpha1.PhasePublished && is != was || was == berthv1alpha1.PhaseSuperseded && is != was {
			l.breaks("%s becomes %s after it was %s", record.Name, is, was)
		}
		answered := !equality.Semantic.DeepEqual(older.Spec.Approval, record.Spec.Approval)
		ended := is == berthv1alpha1.PhaseExpired || is == berthv1alpha1.PhaseRejected
		if ended && is == was && !answered && !older.Status.CompletionTime.Equal(record.Status.CompletionTime) {
			l.breaks("%s ended as %s at %s, and then says %s", record.Name, is, older.Status.CompletionTime, record.Status.CompletionTime)
		}
		if ended && is != was {
			l.countWrite(record.Spec.Placement) // What it reserved is free for Placements that are apart.
		}
	}
	l.records[record.UID] = record
	if record.Status.Phase == berthv1alpha1.PhasePublished {
		delete(l.forced, record.Spec.Placement)
	}
	l.onSteps(record)
	if l.adopted[record.Spec.Placement] == record.Spec.To {
		delete(l.adopted, record.Spec.Placement)
	}
	if record.Status.PermittedTime != nil && l.permitted[record.UID].IsZero() {
		l.permitted[record.UID] = time.Now()
	}
}

// rest ends all accidents, and checks that the world comes to rest where a simulation of the same
// objects would be.
func (w *world) rest(ctx context.Context) {
	w.endAccidents()
	if *calm > 1 {
		time.Sleep(startTime) // With rarer tries to get the lease, there may be no leader yet.
	}
	if !w.laws.bound {
		w.create(ctx, fixture.Binding("team", "s1"))
		w.say("set s1 is bound")
	}
	difference := ""
	for range 60 {
		time.Sleep(30 * time.Second)
		if difference = w.difference(ctx, time.Now()); difference == "" {
			break
		}
	}
	if difference != "" {
		w.laws.breaks("no rest after half an hour: %s", difference)
		return
	}
	time.Sleep(time.Minute) // Records are written in the background, when it is quiet.
	w.laws.checkHistory(ctx)
	w.laws.checkQuotas(0)
	w.laws.checkAdopted()
	w.checkDecided(ctx)
	if w.checkRest(); w.rested {
		w.checkRestored(w.damagePages(ctx, func(*v1alpha1.Placement, []string) bool { return true }))
		w.balance(ctx)
		w.checkStarts(ctx)
		w.checkCompact(ctx)
		w.checkHeld(ctx)
	}
}

// At rest nothing happens for restTime within maxTimers: until then timers may be due, such as the
// progress deadline of a change.
const (
	restTime  = 5 * time.Minute
	maxTimers = 30 * time.Minute
)

// checkRest: while no input changes and no timer is due, no attempt runs (law 10).
func (w *world) checkRest() {
	if len(w.laws.windows) > 0 {
		return // Their beginnings and ends are timers.
	}
	n := 0.0
	if w.overruns() {
		return
	}
	for range maxTimers / restTime {
		attempts := testhub.Metric(testhub.AttemptsMetric)
		time.Sleep(restTime)
		if n = testhub.Metric(testhub.AttemptsMetric) - attempts; n == 0 {
			w.rested = true
			return
		}
	}
	w.laws.breaks("law 10: %v attempts in the last %s of %s at rest", n, restTime, maxTimers)
}

// simulator returns a simulator of all objects at a time.
func (w *world) simulator(ctx context.Context, now time.Time) (*simulator.Simulator, simulator.Objects, error) {
	objects, err := w.objects(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := simulator.New(ctx, objects, now, simulator.Options{Config: w.config, Plugins: gates})
	return s, objects, err
}

// objects lists everything that decisions depend on.
func (w *world) objects(ctx context.Context) (objects simulator.Objects, err error) {
	for _, kind := range kinds.All() {
		list := kind.NewList().(client.ObjectList)
		if err := w.hub.List(ctx, list); err != nil {
			return nil, err
		}
		items, err := listOf(list)
		if err != nil {
			return nil, err
		}
		objects = append(objects, items...)
	}
	if !w.queues {
		return objects, nil
	}
	for _, list := range []client.ObjectList{&corev1.NamespaceList{}, &corev1.ConfigMapList{}} {
		if err := w.hub.List(ctx, list); err != nil {
			return nil, err
		}
		items, err := listOf(list)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			of := &unstructured.Unstructured{}
			if of.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(item); err != nil {
				return nil, err
			}
			of.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(map[bool]string{true: "ConfigMap", false: "Namespace"}[item.GetNamespace() != ""]))
			objects = append(objects, of)
		}
	}
	return objects, nil
}

// difference says how the hub differs from what a simulation of its objects publishes; empty if it
// does not.
func (w *world) difference(ctx context.Context, now time.Time) string {
	s, objects, err := w.simulator(ctx, now)
	if err != nil {
		return err.Error()
	}
	for _, key := range s.Placements() {
		report, err := s.Decide(ctx, key)
		if err != nil {
			return err.Error()
		}
		if report.Skipped != "" {
			continue
		}
		published, err := w.published(ctx, key)
		if err != nil {
			return err.Error()
		}
		var want []string
		for _, d := range report.Decisions {
			want = append(want, d.Clusters...)
		}
		pl := &v1alpha1.Placement{}
		if err := w.hub.Get(ctx, key, pl); err != nil {
			return err.Error()
		}
		if want = changes.Sorted(want); !slices.Equal(want, published) && !w.laws.onlyBalance(pl, objects, report, want, published) {
			return fmt.Sprintf("Placement %s has %v, a simulation %v: %v", key.Name, published, want, report.Conditions)
		}
		if int(pl.Status.NumberOfSelectedClusters) != len(published) {
			return fmt.Sprintf("the status of Placement %s counts %d clusters of %d", key.Name, pl.Status.NumberOfSelectedClusters, len(published))
		}
	}
	return ""
}

// onlyBalance reports whether Balance alone makes a simulation select other clusters than those
// that are published: decisions of others wake no Placement. All qualify, Balance can explain the
// difference of their totals, and as many have a taint PreferNoSelect, which outweighs Balance.
func (l *laws) onlyBalance(pl *v1alpha1.Placement, objects simulator.Objects, report *simulator.Report, want, published []string) bool {
	avoided := map[string]bool{}
	for _, o := range objects {
		if c, ok := o.(*v1alpha1.ManagedCluster); ok {
			avoided[c.Name] = slices.ContainsFunc(c.Spec.Taints, func(taint v1alpha1.Taint) bool {
				return taint.Effect == v1alpha1.TaintEffectPreferNoSelect && !slices.ContainsFunc(pl.Spec.Tolerations, func(t v1alpha1.Toleration) bool { return t.Key == taint.Key })
			})
		}
	}
	// worst is the lowest total of the selected clusters without Balance, best the highest of the
	// others; both by whether the cluster is avoided.
	worst, best := map[bool]int64{true: math.MaxInt64, false: math.MaxInt64}, map[bool]int64{true: math.MinInt64, false: math.MinInt64}
	selected := map[bool]int{}
	var most int64
	for _, name := range report.Ranking {
		total, by := withoutBalance(report, name)
		most = by
		if class := avoided[name]; changes.Contains(published, name) {
			worst[class] = min(worst[class], total)
			selected[class]++
		} else {
			best[class] = max(best[class], total)
		}
	}
	if pending := report.Pending; pending != nil && pending.InSteps() {
		want = changes.Minus(changes.Sorted(slices.Concat(published, pending.Added)), pending.Removed)
	}
	for _, name := range want {
		selected[avoided[name]]--
	}
	for class, other := range best {
		if selected[class] != 0 || most == 0 || worst[class] != math.MaxInt64 && other != math.MinInt64 && other-worst[class] > most {
			return false
		}
	}
	possible := changes.Sorted(slices.Clone(report.Ranking))
	if revision, err := changes.PinnedRevision(pl); err != nil {
		return false
	} else if revision > 0 {
		pinned, err := changes.HistoryOf(pl, slices.Collect(maps.Values(l.records))).At(revision, published)
		if err != nil {
			return false
		}
		possible = changes.Both(possible, pinned)
	}
	return (report.Pending == nil || report.Pending.InSteps()) && len(changes.Minus(published, possible)) == 0
}

// published returns the clusters on the pages of a Placement, sorted.
func (w *world) published(ctx context.Context, key types.NamespacedName) ([]string, error) {
	list := &v1alpha1.PlacementDecisionList{}
	if err := w.hub.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: key.Name}); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range list.Items {
		for _, d := range list.Items[i].Status.Decisions {
			names[d.ClusterName] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// checkHistory compares records with what is published, at rest.
func (l *laws) checkHistory(ctx context.Context) {
	placements := &v1alpha1.PlacementList{}
	if err := l.w.hub.List(ctx, placements); err != nil {
		l.breaks("%v", err)
		return
	}
	for i := range placements.Items {
		pl := &placements.Items[i]
		if pl.IsDisabled() {
			continue // Its pages belong to other writers.
		}
		history := changes.HistoryOf(pl, slices.Collect(maps.Values(l.records)))
		open := 0
		for _, record := range history {
			if changes.IsOpen(record) {
				open++
			}
		}
		if open > 1 {
			l.breaks("%d records of Placement %s are open", open, pl.Name)
		}
		l.checkGaps(pl, history)
		published, err := l.w.published(ctx, client.ObjectKeyFromObject(pl))
		if err != nil {
			l.breaks("%v", err)
		}
		// A crash can lose the record of the newest change: the pages then have a later revision.
		if newest := history.Latest(0); newest != nil && open == 0 && newest.Spec.Revision >= l.revision(pl.Name) && newest.Spec.To != berthv1alpha1.Digest(published) {
			l.breaks("the newest record %s of Placement %s leads to %d clusters, published are %v", newest.Name, pl.Name, newest.Spec.Clusters, published)
		}
	}
}
