package multicluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	namespace = "fleet"
	enabled   = "clusterProfiles: {enabled: true, namespace: profiles, schedulerName: berth-test}"
)

// pagesOf are the pages with a decision-key, by name: what a consumer of ClusterProfiles reads.
func pagesOf(ctx context.Context, key string) ([]decisions.ProfilePage, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.FromAPIVersionAndKind(decisions.ProfileGroupVersion, decisions.ProfileKind+"List"))
	if err := hub.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{decisions.DecisionKeyLabel: key}); err != nil {
		return nil, err
	}
	pages := make([]decisions.ProfilePage, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &pages[i]); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// difference says where the pages of ClusterProfiles differ from the Placement's own, and what else
// is wrong with them at rest.
func difference(ctx context.Context, name string) (string, error) {
	pages, err := pagesOf(ctx, name)
	if err != nil {
		return "", err
	}
	own := &v1alpha1.PlacementDecisionList{}
	if err := hub.List(ctx, own, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: name}); err != nil {
		return "", err
	}
	group := func(labels map[string]string) string {
		return labels[v1alpha1.DecisionGroupIndexLabel] + "/" + labels[v1alpha1.DecisionGroupNameLabel]
	}
	var want, got []string
	for _, page := range own.Items {
		for _, d := range page.Status.Decisions {
			want = append(want, group(page.Labels)+" profiles/"+d.ClusterName)
		}
	}
	var indexes []string
	for _, page := range pages {
		indexes = append(indexes, page.Labels[decisions.DecisionIndexLabel])
		if page.SchedulerName != "berth-test" || len(page.OwnerReferences) != 1 || page.OwnerReferences[0].Name != name || len(page.Decisions) > 100 {
			return fmt.Sprintf("page %s by %s of %v lists %d", page.Name, page.SchedulerName, page.OwnerReferences, len(page.Decisions)), nil
		}
		for _, d := range page.Decisions {
			got = append(got, group(page.Labels)+" "+d.ClusterProfileRef.Namespace+"/"+d.ClusterProfileRef.Name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	for i := range indexes {
		if !slices.Contains(indexes, strconv.Itoa(i)) {
			return fmt.Sprintf("indexes %v", indexes), nil
		}
	}
	if len(pages) == 0 || !slices.Equal(want, got) {
		return fmt.Sprintf("%d pages list %d clusters, and %d are wanted", len(pages), len(got), len(want)), nil
	}
	return "", nil
}

// poller reads pages again and again, and counts the core clusters that it missed once it had seen
// all of them.
type poller struct {
	polls, violations atomic.Int64
	example           atomic.Value
}

func (p *poller) follow(ctx context.Context, name string, core []string) {
	for seen := false; ctx.Err() == nil; p.polls.Add(1) {
		pages, err := pagesOf(ctx, name)
		if err != nil {
			continue
		}
		listed := map[string]bool{}
		for _, page := range pages {
			for _, d := range page.Decisions {
				listed[d.ClusterProfileRef.Name] = true
			}
			if len(page.Decisions) > 100 {
				p.violations.Add(1)
			}
		}
		missing := slices.DeleteFunc(slices.Clone(core), func(c string) bool { return listed[c] })
		if seen && len(missing) > 0 {
			p.violations.Add(1)
			p.example.Store(fmt.Sprintf("%s lacks %v", name, missing))
		}
		seen = seen || len(missing) == 0
	}
}

func satisfied(ctx context.Context, name string) func() (string, error) {
	return func() (string, error) {
		return testhub.Condition(ctx, hub, fixture.Placement(namespace, name).Obj(), v1alpha1.PlacementConditionSatisfied)
	}
}

var _ = Describe("PlacementDecisions of ClusterProfiles", Ordered, func() {
	var fleet *faults.Fleet
	const seed = 5

	BeforeAll(func(ctx SpecContext) {
		fleet = faults.NewFleet(ctx, hub, namespace, 230, 20, seed)
		fleet.Publish(ctx)
		DeferCleanup(func(ctx SpecContext) {
			pages := &unstructured.Unstructured{}
			pages.SetGroupVersionKind(schema.FromAPIVersionAndKind(decisions.ProfileGroupVersion, decisions.ProfileKind))
			Expect(hub.DeleteAllOf(ctx, pages, client.InNamespace(namespace))).To(Succeed())
		})
	})

	It("are reported as failed if the hub does not have the kind, and do not affect the other pages", func(ctx SpecContext) {
		kill := startController(enabled)
		Eventually(satisfied(ctx, faults.Ringed)).Should(And(HavePrefix("False "), ContainSubstring("the hub does not serve PlacementDecisions of multicluster.x-k8s.io/v1alpha1: install that CRD")))
		own := &v1alpha1.PlacementDecisionList{}
		Expect(hub.List(ctx, own, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: faults.Ringed})).To(Succeed())
		Expect(own.Items).NotTo(BeEmpty())
		kill()
		installCRD(ctx)
	})

	It("are not changed if they are not enabled", func(ctx SpecContext) {
		kill := startController("")
		Eventually(satisfied(ctx, faults.Ringed)).Should(HavePrefix("True "))
		Eventually(satisfied(ctx, faults.Counted)).Should(HavePrefix("True "))
		Expect(pagesOf(ctx, faults.Ringed)).To(BeEmpty())
		kill()
	})

	It("are written for Placements decided before, avoid names in use, and are restored after edits", func(ctx SpecContext) {
		stranger := &unstructured.Unstructured{Object: map[string]any{"decisions": []any{}}}
		stranger.SetGroupVersionKind(schema.FromAPIVersionAndKind(decisions.ProfileGroupVersion, decisions.ProfileKind))
		stranger.SetNamespace(namespace)
		stranger.SetName(faults.Ringed + "-decision-1")
		Expect(hub.Create(ctx, stranger)).To(Succeed())
		kill := startController(enabled)
		for _, name := range []string{faults.Ringed, faults.Counted} {
			Eventually(func() (string, error) { return difference(ctx, name) }).Should(BeEmpty())
			Eventually(satisfied(ctx, name)).Should(HavePrefix("True "))
		}
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(stranger), stranger)).To(Succeed())
		Expect(stranger.GetLabels()).To(BeEmpty())

		// A page without its labels is found again by its name.
		page := &unstructured.Unstructured{}
		page.SetGroupVersionKind(stranger.GroupVersionKind())
		Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: faults.Counted + "-decision-1"}, page)).To(Succeed())
		page.SetLabels(nil)
		Expect(hub.Update(ctx, page)).To(Succeed())
		Expect(hub.Create(ctx, fixture.Cluster("a-newcomer").Set(namespace).Label(faults.PoolLabel, "in").Obj())).To(Succeed())
		Eventually(func() (string, error) { return difference(ctx, faults.Counted) }).Should(BeEmpty())
		Expect(hub.Delete(ctx, fixture.Cluster("a-newcomer").Obj())).To(Succeed())
		Eventually(func() (string, error) { return difference(ctx, faults.Counted) }).Should(BeEmpty())
		kill()
	})

	It("follow every change and miss no cluster that stays, also when the controller is killed", func(ctx SpecContext) {
		const wantKills = 12
		watched, stop := context.WithCancel(ctx)
		polls := &poller{}
		for _, name := range []string{faults.Ringed, faults.Counted} {
			go polls.follow(watched, name, fleet.Core)
		}
		done := make(chan struct{})
		churned := fleet.RunSteps(ctx, done, false)
		random := rand.New(rand.NewPCG(seed, 3))
		for range wantKills {
			kill := startController(enabled)
			Eventually(ctx, time.After(time.Duration(1000+random.IntN(1500))*time.Millisecond)).Should(Receive())
			kill()
		}
		close(done)
		Expect(<-churned).To(Succeed())
		// The last step may have left fewer clusters than one Placement asks for.
		Expect(fleet.Change(ctx, faults.Counted, func(pl *v1alpha1.Placement) {
			pl.Spec.NumberOfClusters = new(int32(len(fleet.Core)))
		})).To(Succeed())
		startController(enabled)
		for _, name := range []string{faults.Ringed, faults.Counted} {
			Eventually(func() (string, error) { return difference(ctx, name) }).Should(BeEmpty())
			Eventually(satisfied(ctx, name)).Should(HavePrefix("True "))
		}
		stop()
		fmt.Printf("\npolled %d times through %d kills and %d steps of churn: %d violations\n", polls.polls.Load(), wantKills, fleet.Steps, polls.violations.Load())
		Expect(polls.violations.Load()).To(BeZero(), "%v", polls.example.Load())
		Expect(polls.polls.Load()).To(BeNumerically(">", 200))
	}, NodeTimeout(5*time.Minute))
})
