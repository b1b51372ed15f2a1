package flicker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// What the suite shows at least.
const (
	wantPolls = 10_000
	wantKills = 50
)

var _ = Describe("A reader", func() {
	It("misses no cluster that stays, whatever changes, fails or is killed", func(ctx SpecContext) {
		seed := uint64(GinkgoRandomSeed())
		f := newFleet(ctx, "fleet", seed)
		faulty.reset()
		faulty.fail(someOf(rand.New(rand.NewPCG(seed, 2))))
		DeferCleanup(faulty.calm)
		observer := startObserver(orders{Namespace: f.namespace, Placements: []string{ringed, counted}, Core: f.core, Pollers: 12})
		began := time.Now()
		f.publish(ctx)

		// 1. Everything changes, much fails, and the controller is killed again and again.
		done := make(chan struct{})
		churned := f.churn(ctx, done)
		kills := killer{random: rand.New(rand.NewPCG(seed, 3))}
		for kills.count < wantKills || observer.soFar().Polls < wantPolls {
			kills.next(kills.count*wantPolls <= observer.soFar().Polls*wantKills)
			Expect(observer.soFar().Violations).To(BeZero(), "%v", observer.soFar().Examples)
		}
		close(done)
		Expect(<-churned).To(Succeed())
		faulty.calm()

		// 2. Calm: the answer is what a simulation of the same objects says.
		last := startController()
		Eventually(func() (string, error) { return f.difference(ctx) }).Should(BeEmpty())
		seen := observer.stop()
		Expect(last.alive()).To(BeTrue())
		writes, faults := faulty.reset()

		// 3. The counts.
		fmt.Printf("\nobserved: %d polls and %d single writes watched, %d violations; %d kills (%d between a write and its answer), "+
			"%d steps of churn, %d page writes, faults %s; up to %d pages and %d groups; seed %d, %s\n",
			seen.Polls, seen.States, seen.Violations, kills.count, kills.amidst,
			f.steps, writes, counts(faults), seen.Pages, seen.Groups, seed, seconds(time.Since(began)))
		Expect(seen.Violations).To(BeZero(), "%v", seen.Examples)
		Expect(seen.Errors).To(BeZero())
		Expect(seen.Polls).To(BeNumerically(">=", wantPolls))
		Expect(seen.States).To(BeNumerically(">", wantKills))
		Expect(seen.Pages).To(BeNumerically(">", 2))
		for _, kind := range []string{"409", "429", "500", "409 after the write", "429 after the write", "500 after the write", "cut after the write"} {
			Expect(faults).To(HaveKey(kind))
		}
	}, NodeTimeout(5*time.Minute))
})

// someOf fails one in five of the controller's writes, in a way of its own each.
func someOf(random *rand.Rand) func(*http.Request) fault {
	var mu sync.Mutex
	codes := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, cut}
	return func(r *http.Request) fault {
		if !isPageWrite(r) && !isStatusWrite(r) {
			return fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(5) > 0 {
			return fault{}
		}
		return fault{code: codes[random.IntN(len(codes))], lost: random.IntN(2) == 0}
	}
}

// counts are printed in order.
func counts(of map[string]int) string {
	text := "{"
	for i, kind := range slices.Sorted(maps.Keys(of)) {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s: %d", kind, of[kind])
	}
	return text + "}"
}

// churn changes the fleet until done is closed.
func (f *fleet) churn(ctx context.Context, done <-chan struct{}) <-chan error {
	result := make(chan error, 1)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				result <- nil
				return
			case <-tick.C:
				if err := f.step(ctx); err != nil {
					result <- err
					return
				}
			}
		}
	}()
	return result
}

// killer starts the controller and kills it.
type killer struct {
	random *rand.Rand
	count  int
	// amidst counts the kills that came when a page was written and the controller had not heard of it.
	amidst int
}

// next is one life of the controller. Two in three end right after a write, the others at any moment from the start on. A
// longer life leaves the machine to the readers.
func (k *killer) next(short bool) {
	GinkgoHelper()
	p := startController()
	limit, left, most := 1500*time.Millisecond, -1, 12
	if !short {
		limit, most = 4*limit, 8*most
	}
	if k.random.IntN(3) > 0 {
		left = 1 + k.random.IntN(most)
		limit *= 2
	} else {
		limit = time.Duration(k.random.Int64N(int64(limit)))
	}
	faulty.afterWrites(func(*http.Request) {
		if left--; left == 0 {
			k.amidst++
			// It runs: the request is its own.
			_ = p.command.Process.Kill()
		}
	})
	select {
	case <-p.ended:
	case <-time.After(limit):
	}
	faulty.afterWrites(nil)
	p.kill()
	Expect(p.command.ProcessState.String()).To(Equal("signal: killed"), "it ends in no other way")
	k.count++
}

// page is what a reader sees of one.
type page struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels"`
	Clusters []string          `json:"clusters"`
}

func pageOf(object *v1alpha1.PlacementDecision) page {
	p := page{Name: object.Name, Labels: object.Labels, Clusters: []string{}}
	for _, d := range object.Status.Decisions {
		p.Clusters = append(p.Clusters, d.ClusterName)
	}
	return p
}

// difference compares what is published with what berth simulate makes of the hub's objects; empty when they agree. With the
// pages among the objects every page must agree; without them, which clusters are selected.
func (f *fleet) difference(ctx context.Context) (string, error) {
	var objects []client.Object
	published := map[string][]page{}
	for _, list := range []client.ObjectList{
		&v1alpha1.ManagedClusterList{}, &v1alpha1.ManagedClusterSetList{}, &v1alpha1.ManagedClusterSetBindingList{}, &v1alpha1.PlacementList{},
	} {
		if err := hub.List(ctx, list); err != nil {
			return "", err
		}
		objects = append(objects, items(list)...)
	}
	pages := &v1alpha1.PlacementDecisionList{}
	if err := hub.List(ctx, pages, client.InNamespace(f.namespace)); err != nil {
		return "", err
	}
	for i := range pages.Items {
		p := pageOf(&pages.Items[i])
		name := p.Labels[v1alpha1.PlacementLabel]
		published[name] = append(published[name], p)
	}
	fresh, err := simulate(ctx, objects)
	if err != nil {
		return "", err
	}
	again, err := simulate(ctx, append(objects, items(pages)...))
	if err != nil {
		return "", err
	}
	for _, name := range []string{ringed, counted} {
		byName := func(a, b page) int { return strings.Compare(a.Name, b.Name) }
		slices.SortFunc(again[name], byName)
		slices.SortFunc(published[name], byName)
		if want, got := fmt.Sprint(again[name]), fmt.Sprint(published[name]); want != got {
			return fmt.Sprintf("%s: simulated from the pages: %s, published: %s", name, want, got), nil
		}
		if want, got := fmt.Sprint(selected(fresh[name])), fmt.Sprint(selected(published[name])); want != got {
			return fmt.Sprintf("%s: simulated: %s, published: %s", name, want, got), nil
		}
	}
	return "", nil
}

func selected(pages []page) []string {
	var names []string
	for _, p := range pages {
		names = append(names, p.Clusters...)
	}
	slices.Sort(names)
	return names
}

// simulate runs berth simulate and returns the pages by Placement.
func simulate(ctx context.Context, objects []client.Object) (map[string][]page, error) {
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(GinkgoT().TempDir(), "objects.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, binary(), "simulate", "-f", file, "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("berth simulate: %w", err)
	}
	var result struct {
		Results []struct {
			Placement string `json:"placement"`
			Decisions []page `json:"decisions"`
		} `json:"results"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return nil, err
	}
	answers := map[string][]page{}
	for _, r := range result.Results {
		answers[filepath.Base(r.Placement)] = r.Decisions
	}
	return answers, nil
}

// items are a list's objects with their kinds, as files hold them.
func items(list client.ObjectList) []client.Object {
	GinkgoHelper()
	objects, err := meta.ExtractList(list)
	Expect(err).NotTo(HaveOccurred())
	var out []client.Object
	for _, o := range objects {
		object, ok := o.(client.Object)
		Expect(ok).To(BeTrue())
		kind, err := apiutil.GVKForObject(object, hub.Scheme())
		Expect(err).NotTo(HaveOccurred())
		object.GetObjectKind().SetGroupVersionKind(kind)
		object.SetManagedFields(nil)
		out = append(out, object)
	}
	return out
}
