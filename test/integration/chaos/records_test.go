package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	recorded = "recorded"
	// waveSize is how many clusters each of the two waves has; two of them may be down.
	waveSize, maxDown = 8, 2
)

// The Placements of the spec: one is changed in steps, one needs approvals too, one has no policy.
var inSteps, asked, plain = "in-steps", "asked", "plain"

var _ = Describe("Changes", func() {
	It("are each in one record or a visible gap, and never published if rejected, while two replicas and requests fail", func(ctx SpecContext) {
		freeLease(ctx)
		reader := newRecorded(ctx)
		team := &replicas{random: rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 20)), injected: map[string]int{}}
		approvals := startApprovals(ctx)
		team.active = team.start()
		churn := &recordedChurn{random: rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 21)), down: map[string]bool{}}
		Eventually(func() ([]string, error) { return answer(ctx, recorded, asked) }).Should(HaveLen(desiredInSteps))
		team.standby = team.start()

		kinds := []string{"killed", "paused", "lease lost"}
		rounds := times(2, 24)
		for round := range rounds {
			team.failOver(ctx, kinds[round%len(kinds)], churn)
		}
		steps := reader.check(inSteps, desiredInSteps, false)
		withApproval := reader.check(asked, desiredInSteps, true)
		team.endFaults()
		approvals.all.Store(true)
		finish(ctx, reader)
		close(approvals.stop)
		<-approvals.ended

		fmt.Printf("\nobserved: changes: %d rounds, %d edits, faults %s; %d changes approved, %d rejected\n",
			rounds, churn.edits, faults.Counts(team.counts()), approvals.approved, approvals.rejected)
		Expect(steps.fewest).To(Equal(desiredInSteps), "nothing may be missing")
		Expect(steps.most).To(BeNumerically("<=", desiredInSteps+2), "25% of 6, rounded up, is 2")
		Expect(withApproval.fewest).To(BeNumerically(">=", desiredInSteps-1), "one may be missing")
		Expect(withApproval.most).To(BeNumerically("<=", desiredInSteps+1))
		Expect(approvals.rejected).To(BeNumerically(">", 0))
		for _, placement := range []string{inSteps, asked, plain} {
			w := reader.check(placement, desiredInSteps, placement == asked)
			fmt.Printf("observed: changes of %s: %s\n", placement, w)
			Expect(w.problems).To(BeEmpty())
			Expect(w.steps).To(BeNumerically(">", rounds))
			reader.expectShown(ctx, placement, w.gaps)
		}
	}, NodeTimeout(20*time.Minute))
})

// newRecorded creates the namespace of the spec and reads its changes from the first one on.
func newRecorded(ctx context.Context) *changeReader {
	GinkgoHelper()
	Expect(hub.Create(ctx, fixture.Set(recorded))).To(Succeed())
	faults.Bind(ctx, hub, recorded, recorded)
	faults.CleanUp(hub, recorded, recorded)
	reader := watchChanges(ctx, recorded)
	for i := range 2 * waveSize {
		Expect(hub.Create(ctx, fixture.Cluster(fmt.Sprintf("%s-%02d", recorded, i)).Set(recorded).
			Label("wave", []string{"a", "b"}[i%2]).Label("state", "up").Obj())).To(Succeed())
	}
	for name, spec := range map[string]berthv1alpha1.DisruptionPolicySpec{
		inSteps: {},
		asked:   {Approval: berthv1alpha1.ApprovalRequired, MaxUnavailable: new(intstr.FromInt32(1)), MaxSurge: new(intstr.FromInt32(1))},
	} {
		spec.Placements, spec.HistoryLimit = []string{name}, berthv1alpha1.MaxHistoryLimit
		Expect(hub.Create(ctx, &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: recorded, Name: name}, Spec: spec})).To(Succeed())
	}
	for _, name := range []string{inSteps, asked, plain} {
		Expect(hub.Create(ctx, wave(name, "a", desiredInSteps))).To(Succeed())
	}
	return reader
}

// wave is a Placement that wants a number of clusters of one wave that are up.
func wave(name, of string, number int32) *v1alpha1.Placement {
	return fixture.Placement(recorded, name).Number(number).Predicate(fixture.MatchLabel("wave", of), fixture.MatchLabel("state", "up")).Obj()
}

// replica is a controller with its own way to the hub.
type replica struct {
	*faults.Process
	proxy *faults.Proxy
}

// replicas are the active controller and the one that waits.
type replicas struct {
	random          *rand.Rand
	active, standby *replica
	all             []*replica
	injected        map[string]int
}

func (t *replicas) start() *replica {
	GinkgoHelper()
	proxy := faults.StartProxy(hub.Config)
	r := &replica{faults.StartController(proxy.Kubeconfig(), electing...), proxy}
	t.all = append(t.all, r)
	return r
}

func (t *replicas) endFaults() {
	for _, r := range t.all {
		r.proxy.EndFaults()
	}
}

// counts returns the faults so far.
func (t *replicas) counts() map[string]int {
	for _, r := range t.all {
		_, failed := r.proxy.Reset()
		for kind, n := range failed {
			t.injected[kind] += n
		}
	}
	return t.injected
}

func isChangeWrite(r *http.Request) bool {
	return faults.IsPageWrite(r) || faults.IsWrite(r) && strings.Contains(r.URL.Path, "/placementchanges")
}

// failOver lets requests fail and ends the active replica at one of its writes, while things
// change. It returns when the other one has gone on.
func (t *replicas) failOver(ctx context.Context, kind string, churn *recordedChurn) {
	GinkgoHelper()
	t.injected[kind]++
	some := &tenth{random: rand.New(rand.NewPCG(t.random.Uint64(), 0))}
	failing := func(r *http.Request) faults.Fault {
		if faults.IsLease(r) {
			return faults.Fault{}
		}
		return some.fault(r)
	}
	t.standby.proxy.Fail(failing)
	taken, stopped := make(chan struct{}), make(chan string, 1)
	t.active.proxy.Fail(t.breakdown(kind, failing, taken, stopped))
	began, freed, late := time.Now(), kind != "killed", ""
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for made := t.standby.proxy.Made(); len(made.Versions) < 3 || late != "" && made.Written[late] == 0; made = t.standby.proxy.Made() {
		select {
		case late = <-stopped:
		default:
		}
		Expect(time.Since(began)).To(BeNumerically("<", patience), "%s: the other replica does not go on", kind)
		if !t.standby.Alive() {
			// A request of its start failed.
			t.standby = t.start()
			t.standby.proxy.Fail(failing)
		}
		if !freed && !t.active.Alive() {
			// The lease of a dead replica only takes time.
			freeLease(ctx)
			freed = true
		}
		churn.edit(ctx)
		<-tick.C
	}
	close(taken)
	if kind == "paused" {
		Expect(t.active.Command.Process.Signal(syscall.SIGCONT)).To(Succeed())
	}
	Eventually(t.active.Ended).Should(BeClosed())
	for range 10 {
		churn.edit(ctx)
		<-tick.C
	}
	t.active, t.standby = t.standby, t.start()
}

// breakdown returns the faults of the active replica. When it is paused, its write reaches the hub
// after the other one has written, and has changed the same page.
func (t *replicas) breakdown(kind string, failing func(*http.Request) faults.Fault, taken <-chan struct{}, stopped chan<- string) func(*http.Request) faults.Fault {
	at, executed, process := int64(1+t.random.IntN(12)), t.random.IntN(2) == 0, t.active
	var writes atomic.Int64
	return func(r *http.Request) faults.Fault {
		switch {
		case kind == "lease lost" && faults.IsLease(r):
			return faults.Fault{Code: http.StatusGatewayTimeout, After: 20 * time.Second}
		case kind == "lease lost" && faults.IsPageWrite(r):
			return faults.Fault{After: 200 * time.Millisecond}
		case kind == "lease lost" || !isChangeWrite(r) || writes.Add(1) != at:
			return failing(r)
		case kind == "killed":
			process.Kill()
			return faults.Fault{Code: faults.Cut, Lost: executed}
		}
		// It is stopped before the hub has the request.
		_ = process.Command.Process.Signal(syscall.SIGSTOP)
		if faults.IsPageWrite(r) {
			stopped <- path.Base(r.URL.Path)
		}
		select {
		case <-taken:
		case <-r.Context().Done():
		}
		return faults.Fault{}
	}
}

// finish makes a last change of every Placement and waits until all are published and recorded.
func finish(ctx context.Context, reader *changeReader) {
	GinkgoHelper()
	for i := range 2 * waveSize {
		Expect(faults.SetLabel(ctx, hub, fmt.Sprintf("%s-%02d", recorded, i), "state", "up")).To(Succeed())
	}
	// A step of a change before may list just the clusters of the last one, which is none then.
	Eventually(func() (string, error) { return openRecords(ctx, recorded) }).MustPassRepeatedly(20).Should(BeEmpty())
	for _, placement := range []string{inSteps, asked, plain} {
		setWave(ctx, placement, "b", desiredInSteps+1)
		Eventually(func() (string, error) {
			names, err := answer(ctx, recorded, placement)
			if err != nil || len(names) != desiredInSteps+1 {
				return fmt.Sprint(names), err
			}
			history, err := testhub.Records(ctx, hub, client.InNamespace(recorded))
			if !slices.ContainsFunc(history, func(r *berthv1alpha1.PlacementChange) bool {
				return r.Spec.Placement == placement && r.Status.Phase == berthv1alpha1.PhasePublished && r.Spec.Clusters == desiredInSteps+1
			}) {
				return "the last change has no record", err
			}
			return "", err
		}).Should(BeEmpty())
		Eventually(func() (string, error) { return reader.caughtUp(ctx, recorded, placement) }).Should(BeEmpty())
	}
	Eventually(func() (string, error) { return openRecords(ctx, recorded) }).Should(BeEmpty())
	for _, placement := range []string{inSteps, asked, plain} {
		Eventually(func() (string, error) { return reader.caughtUp(ctx, recorded, placement) }).Should(BeEmpty())
	}
}

// expectShown compares the gaps with those that the command shows.
func (r *changeReader) expectShown(ctx context.Context, placement string, gaps []int64) {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, testhub.Binary(), "history", placement, "-n", recorded, "--kubeconfig", local.KubeconfigPath(), "-o", "json").Output()
	Expect(err).NotTo(HaveOccurred())
	var shown struct {
		Changes []struct {
			Revision      int64
			MissingBefore bool
		}
	}
	Expect(json.Unmarshal(out, &shown)).To(Succeed())
	Expect(shown.Changes).NotTo(BeEmpty())
	for _, change := range shown.Changes[1:] {
		if slices.Contains(gaps, change.Revision) {
			Expect(change.MissingBefore).To(BeTrue(), "revision %d of %s", change.Revision, placement)
		}
	}
}

// tenth fails one request in ten, reads and watches too. Failures of reads and of writes each have
// all kinds in turn.
type tenth struct {
	mu            sync.Mutex
	random        *rand.Rand
	reads, writes int
}

func (f *tenth) fault(r *http.Request) faults.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.IntN(10) > 0 {
		return faults.Fault{}
	}
	kinds := []faults.Fault{
		{Code: http.StatusTooManyRequests, RetryAfter: 1},
		{Code: http.StatusInternalServerError},
		{Code: http.StatusGatewayTimeout},
		{Code: faults.Cut},
		{Code: faults.Cut, After: 2 * time.Second},
	}
	if !faults.IsWrite(r) {
		f.reads++
		return kinds[f.reads%len(kinds)]
	}
	kinds = append(kinds, faults.Fault{Code: http.StatusConflict})
	chosen := kinds[f.writes%len(kinds)]
	// Half of the writes that fail have happened.
	chosen.Lost = f.writes/len(kinds)%2 == 1
	f.writes++
	return chosen
}
