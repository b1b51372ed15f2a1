package argocd

import (
	"context"
	"fmt"
	"slices"
	"time"

	argov1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	errorOccurred = argov1alpha1.ApplicationSetConditionErrorOccurred
	upToDate      = "False ApplicationSetUpToDate: All applications have been generated successfully"
)

// The specs are one sequence: a team follows the user's guide, then its fleet changes, while Argo
// CD's generator is asked all the time in both versions of the API, and its controller keeps an
// Application for each cluster.
var _ = Describe("Argo CD follows a Placement", Ordered, func() {
	var (
		// background lives as long as the story.
		background context.Context
		argo       *argoCD
		promised   = &promise{}
		readers    []*reader
		apps       *applications
		restored   time.Duration // what a page deleted by hand took to come back
		fleet      []string      // c001 to c150 at first, of which the first five are canaries
		selected   []string      // what Argo CD followed when the spec before ended
	)

	// settled waits until Argo CD follows exactly these clusters, with the same parameters in both
	// versions.
	settled := func(want []string) {
		GinkgoHelper()
		since := time.Now()
		Eventually(func(g Gomega) {
			for _, r := range readers {
				last, ok := r.since(since)
				g.Expect(ok).To(BeTrue())
				g.Expect(last.err).NotTo(HaveOccurred())
				names, twice := last.clusters()
				g.Expect(names).To(HaveExactElements(want))
				g.Expect(twice).To(BeEmpty())
			}
			first, _ := readers[0].since(since)
			second, _ := readers[1].since(since)
			g.Expect(first.params).To(Equal(second.params))
		}).Should(Succeed())
		Eventually(apps.clusters).Should(HaveExactElements(want))
	}
	// change makes Argo CD follow other clusters. Meanwhile no answer may lack a cluster that stays
	// or have one that belongs to neither, and only the Applications of those that go are deleted.
	change := func(want []string, do func()) {
		GinkgoHelper()
		stay := slices.DeleteFunc(slices.Clone(selected), func(name string) bool { return !slices.Contains(want, name) })
		leave := slices.DeleteFunc(slices.Clone(selected), func(name string) bool { return slices.Contains(want, name) })
		promised.during(stay, append(slices.Clone(selected), want...))
		do()
		settled(want)
		Expect(apps.taken()).To(HaveExactElements(leave))
		promised.set(want, want)
		selected = want
	}

	BeforeAll(func(ctx SpecContext) {
		apply(ctx, parse(`{apiVersion: ` + group + `/v1beta2, kind: ManagedClusterSet, metadata: {name: clusterset1}}`)[0])
		for n := range 150 {
			name, ring := fmt.Sprintf("c%03d", n+1), "wide"
			if n < 5 {
				ring = "canary"
			}
			join(ctx, name, ring)
			addSecret(ctx, name)
			fleet = append(fleet, name)
		}
		addSecret(ctx, "c151") // joins later
		for _, file := range []string{"10-placement.yaml", "30-configmap.yaml"} {
			for _, object := range read(file) {
				apply(ctx, object)
			}
		}
		other := read("30-configmap.yaml")[0]
		Expect(other.Object["data"]).To(HaveKeyWithValue("apiVersion", group+"/v1beta1"))
		other.SetName("ocm-placement-v1alpha1")
		other.Object["data"].(map[string]any)["apiVersion"] = group + "/v1alpha1"
		apply(ctx, other)
		Eventually(sizes(ctx)).Should(Equal([]int{2}))

		var end context.CancelFunc
		background, end = context.WithCancel(context.Background())
		DeferCleanup(func() {
			end()
			if argo.stopped != nil {
				Eventually(argo.stopped).Should(Receive(BeNil()))
			}
		})
		argo = newArgoCD(background)
		Eventually(func() int { return len(argo.clusters.GetStore().List()) }).Should(Equal(151))
		readers = []*reader{
			newReader("v1beta1", "ocm-placement", argo.generator(background), promised),
			newReader("v1alpha1", "ocm-placement-v1alpha1", argo.generator(background), promised),
		}
		apps = watchApplications(background, prefix)
		DeferCleanup(func() {
			fmt.Println() // ends Ginkgo's line of dots
			for _, r := range readers {
				fmt.Println(r)
			}
			fmt.Printf("observed: Argo CD's controller: %d Applications deleted, each of a cluster that had left\n", apps.total)
			fmt.Printf("observed: a page deleted by hand, and with it the clusters on it, was back after %v\n", restored)
		})
	})

	AfterEach(func() {
		for _, r := range readers {
			Expect(r.broken()).To(BeEmpty(), r.version)
		}
	})

	It("cannot read decisions before the Role of the guide is applied", func(ctx SpecContext) {
		for _, r := range readers {
			Expect(apierrors.IsForbidden(r.ask().err)).To(BeTrue())
		}
		for _, object := range read("20-role.yaml") {
			apply(ctx, object)
		}
		for _, r := range readers {
			Eventually(func() error { return r.ask().err }).Should(Succeed())
		}
	})

	It("reads decisions whose values are all strings", func(ctx SpecContext) {
		answer := readers[0].ask()
		Expect(answer.err).NotTo(HaveOccurred())
		selected, _ = answer.clusters()
		Expect(selected).To(HaveLen(2))
		for i, name := range selected {
			Expect(answer.params[i]).To(Equal(map[string]any{"name": name, "server": server(name), "clusterName": name, "reason": ""}))
		}
		promised.set(selected, selected)
		for _, r := range readers {
			go r.run(background)
		}
	})

	It("creates one Application for each cluster", func(ctx SpecContext) {
		argo.run(background)
		set := read("40-applicationset.yaml")[0]
		generator := set.Object["spec"].(map[string]any)["generators"].([]any)[0].(map[string]any)["clusterDecisionResource"].(map[string]any)
		generator["requeueAfterSeconds"] = 1 // the guide's 30 would make for a long test
		apply(ctx, set)
		settled(selected)
		Eventually(conditionOf(ctx, errorOccurred)).Should(Equal(upToDate))
	})

	It("reads two pages", func(ctx SpecContext) {
		change(fleet, func() { patch(ctx, placementObject(), `{"spec":{"numberOfClusters":null}}`) })
		Expect(sizes(ctx)()).To(Equal([]int{100, 50}))
	})

	It("deletes the Application of a removed cluster and creates one for an added cluster", func(ctx SpecContext) {
		fleet = slices.DeleteFunc(slices.Clone(fleet), func(name string) bool { return name == "c042" })
		change(fleet, func() { Expect(hub.Delete(ctx, cluster("c042"))).To(Succeed()) })
		fleet = append(slices.Clone(fleet), "c151")
		change(fleet, func() { join(ctx, "c151", "wide") })
		Expect(sizes(ctx)()).To(Equal([]int{100, 50}))
	})

	It("misses no cluster while clusters move between decision groups", func(ctx SpecContext) {
		change(fleet, func() {
			patch(ctx, placementObject(), `{"spec":{"decisionStrategy":{"groupStrategy":{"decisionGroups":[
				{"groupName":"canary","groupClusterSelector":{"labelSelector":{"matchLabels":{"ring":"canary"}}}}]}}}}`)
			Eventually(inGroup(ctx, "canary")).Should(HaveExactElements(fleet[:5]))
		})
		move := func(names []string, ring string, canaries int) {
			change(fleet, func() {
				for _, name := range names {
					patch(ctx, cluster(name), `{"metadata":{"labels":{"ring":%q}}}`, ring)
				}
				Eventually(inGroup(ctx, "canary")).Should(ConsistOf(fleet[:canaries]))
			})
		}
		for range 5 {
			move(fleet[5:45], "canary", 45)
			move(fleet[5:45], "wide", 5)
		}
	})

	It("reports a moving cluster that is listed twice and does not change its Application", func(ctx SpecContext) {
		// What is there between the two writes of a move, held: Berth is paused, and the first of
		// its writes made by hand.
		moving, other := fleet[9], fleet[10]
		pause(ctx)
		patch(ctx, cluster(moving), `{"metadata":{"labels":{"ring":"canary"}}}`)
		since := time.Now()
		Eventually(func(g Gomega) {
			add(ctx, g, "canary", moving)
			for _, r := range readers {
				last, ok := r.since(since)
				g.Expect(ok).To(BeTrue())
				names, twice := last.clusters()
				g.Expect(names).To(HaveExactElements(fleet))
				g.Expect(twice).To(HaveExactElements(moving))
			}
		}).Should(Succeed())
		Eventually(conditionOf(ctx, errorOccurred)).Should(Equal("True " + argov1alpha1.ApplicationSetReasonApplicationValidationError +
			": ApplicationSet book-import contains applications with duplicate name: " + prefix + moving))

		// Argo CD undoes a change to an Application, except to that of the moving cluster, which it
		// neither updates nor deletes.
		for _, name := range []string{moving, other} {
			patch(ctx, application(ctx, name), `{"spec":{"source":{"targetRevision":"edited"}}}`)
		}
		Eventually(revision(ctx, other)).Should(Equal("HEAD"))
		Expect(revision(ctx, moving)()).To(Equal("edited"))
		Expect(apps.taken()).To(BeEmpty())

		change(fleet, func() {
			resume(ctx) // Berth goes on from where the writes stopped
			Eventually(inGroup(ctx, "canary")).Should(ConsistOf(append(slices.Clone(fleet[:5]), moving)))
		})
		Eventually(conditionOf(ctx, errorOccurred)).Should(Equal(upToDate))
		Eventually(revision(ctx, moving)).Should(Equal("HEAD"))
	})

	It("sees a deleted page again after Berth restores it", func(ctx SpecContext) {
		before := pages(ctx)
		victim := before[len(before)-1]
		rest := slices.DeleteFunc(slices.Clone(fleet), func(name string) bool { return slices.Contains(victim.clusters, name) })
		// What is on the page is missing until Berth has seen the deletion: this reader cannot be
		// spared.
		promised.set(rest, fleet)
		start := time.Now()
		Expect(hub.Delete(ctx, victim.object)).To(Succeed())
		Eventually(func() map[string][]string { return contents(pages(ctx)) }).Should(Equal(contents(before)))
		restored = time.Since(start)
		refresh(ctx)
		settled(fleet)
		Expect(victim.clusters).To(ContainElements(apps.taken()), "and that only if Argo CD looked in that very moment")
		promised.set(fleet, fleet)
	})

	It("changes no Application when there is no page", func(ctx SpecContext) {
		for _, configMap := range []string{"ocm-placement", "ocm-placement-v1alpha1"} {
			_, err := argo.generator(ctx).GenerateParams(selector(configMap, "no-such-placement"), &argov1alpha1.ApplicationSet{}, nil)
			Expect(err).To(MatchError("no clusterDecisionResources found"))
		}
		few := fleet[:3]
		change(few, func() { patch(ctx, placementObject(), `{"spec":{"numberOfClusters":3,"decisionStrategy":null}}`) })
		Expect(sizes(ctx)()).To(Equal([]int{3}))

		promised.allowErrors()
		pause(ctx)
		since := time.Now()
		Eventually(func(g Gomega) {
			for _, p := range pages(ctx) {
				g.Expect(client.IgnoreNotFound(hub.Delete(ctx, p.object))).To(Succeed())
			}
			for _, r := range readers {
				last, ok := r.since(since)
				g.Expect(ok).To(BeTrue())
				g.Expect(last.err).To(MatchError("no clusterDecisionResources found"))
			}
		}).Should(Succeed())
		Eventually(conditionOf(ctx, errorOccurred)).Should(Equal(
			"True " + argov1alpha1.ApplicationSetReasonApplicationParamsGenerationError + ": no clusterDecisionResources found"))
		Expect(apps.clusters()).To(HaveExactElements(few))

		change(few, func() { resume(ctx) })
		refresh(ctx)
		Eventually(conditionOf(ctx, errorOccurred)).Should(Equal(upToDate))
		Expect(apps.taken()).To(BeEmpty())
	})

	It("deletes all Applications when the decision is empty", func(ctx SpecContext) {
		change(nil, func() {
			patch(ctx, placementObject(), `{"spec":{"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"ring":"none"}}}}]}}`)
		})
		Expect(sizes(ctx)()).To(Equal([]int{0}))
		Expect(conditionOf(ctx, errorOccurred)()).To(Equal(upToDate))
	})
})
