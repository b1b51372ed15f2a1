package shadows

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A shadow profile", func() {
	It("is compared while the pages stay as they are", func(ctx SpecContext) {
		newTeam(ctx, "red")
		newTeam(ctx, "blue")
		stop := run(" []")
		Expect(hub.Create(ctx, fixture.Placement("red", "two").Number(2).Obj())).To(Succeed())
		Expect(hub.Create(ctx, fixture.Placement("red", "all").Obj())).To(Succeed())
		Expect(hub.Create(ctx, fixture.Placement("blue", "one").Number(1).Obj())).To(Succeed())
		Eventually(published).WithContext(ctx).WithArguments("red", "two").Should(Equal("red-1 red-2"))
		Eventually(published).WithContext(ctx).WithArguments("red", "all").Should(Equal("red-1 red-2 red-3 red-4"))
		Eventually(published).WithContext(ctx).WithArguments("blue", "one").Should(Equal("blue-1"))
		code, _, stderr := command("shadow", "-A")
		Expect(code).To(Equal(1))
		Expect(stderr).To(ContainSubstring("The controller has no shadow profiles"))
		stop()
		before := versions(ctx, "red")

		stop = run(roomy)
		var first map[string]berthv1alpha1.ShadowComparison
		Eventually(func(g Gomega) {
			first = comparisons(g, "-A")
			g.Expect(first).To(HaveLen(3))
			g.Expect(first["red/two roomy"].Result).To(Equal("Differs"))
			g.Expect(first["red/all roomy"].Result).To(Equal("Agrees"))
			g.Expect(first["blue/one roomy"].Result).To(Equal("Differs"))
		}).Should(Succeed())
		two := first["red/two roomy"]
		Expect(two.OnlyProfile).To(Equal([]string{"red-1", "red-2"}))
		Expect(two.OnlyShadow).To(Equal([]string{"red-3", "red-4"}))
		Expect([]int64{two.ProfileMoves, two.ShadowMoves}).To(Equal([]int64{0, 2}))
		Expect(testhub.Metric("berth_shadow_placements", "default", "roomy", "Differs")).To(BeEquivalentTo(2))
		Expect(testhub.Metric("berth_shadow_placements", "default", "roomy", "Agrees")).To(BeEquivalentTo(1))
		Expect(testhub.Metric("berth_shadow_moves_total", "roomy", "Shadow")).To(BeEquivalentTo(3))
		Expect(testhub.Metric("berth_shadow_moves_total", "roomy", "Profile")).To(BeEquivalentTo(0))
		Expect(versions(ctx, "red")).To(Equal(before))

		By("moving the shadow only")
		setMemory(ctx, "red-1", "red", 64)
		// The default profile does not read memory: its decision follows another event.
		patch(ctx, fixture.Placement("red", "two").Obj(), `{"spec":{"tolerations":[{"key":"any"}]}}`)
		Eventually(func(g Gomega) {
			c := comparisons(g, "-n", "red")["red/two roomy"]
			g.Expect(c.OnlyShadow).To(Equal([]string{"red-4"}))
			g.Expect([]int64{c.ProfileMoves, c.ShadowMoves}).To(Equal([]int64{0, 3}))
		}).Should(Succeed())
		Expect(published(ctx, "red", "two")).To(Equal("red-1 red-2"))
		Expect(versions(ctx, "red")).To(Equal(before))

		By("showing one Placement")
		_, out, _ := command("shadow", "two", "-n", "red")
		Expect(out).To(HavePrefix("Placement red/two: default selects 2 clusters, its shadow roomy selects 2: they differ in 1\n  Only default: red-2\n  Only roomy: red-4\n"))
		code, _, stderr = command("shadow", "none", "-n", "red")
		Expect(code).To(Equal(1))
		Expect(stderr).To(Equal("kubectl placement: there is no Placement red/none\n"))

		By("forgetting a deleted Placement")
		Expect(hub.Delete(ctx, fixture.Placement("red", "all").Obj())).To(Succeed())
		Eventually(func(g Gomega) { g.Expect(comparisons(g, "-n", "red")).To(HaveLen(1)) }).Should(Succeed())

		By("beginning again after a restart")
		stop()
		run(roomy)
		Eventually(func(g Gomega) {
			c := comparisons(g, "-n", "red")["red/two roomy"]
			g.Expect(c.OnlyShadow).To(Equal([]string{"red-4"}))
			g.Expect(c.Since.Time).To(BeTemporally(">=", two.Since.Time))
			g.Expect([]int64{c.ProfileMoves, c.ShadowMoves}).To(Equal([]int64{0, 1}))
		}).Should(Succeed())
	})

	It("publishes what it selected once it counts", func(ctx SpecContext) {
		newTeam(ctx, "green")
		stop := run(roomy)
		Expect(hub.Create(ctx, fixture.Placement("green", "web").Number(2).Obj())).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(comparisons(g, "-n", "green")["green/web roomy"].OnlyShadow).To(Equal([]string{"green-3", "green-4"}))
		}).Should(Succeed())
		Expect(published(ctx, "green", "web")).To(Equal("green-1 green-2"))
		stop()

		By("exchanging the two profiles")
		run(strings.NewReplacer("name: roomy", "name: default", "  shadowOf: default\n", "").Replace(roomy) + "- {name: old, shadowOf: default}\n")
		Eventually(published).WithContext(ctx).WithArguments("green", "web").Should(Equal("green-3 green-4"))
		Eventually(func(g Gomega) { g.Expect(comparisons(g, "-n", "green")).To(HaveKey("green/web old")) }).Should(Succeed())
	})

	It("cannot be selected by a Placement", func(ctx SpecContext) {
		newTeam(ctx, "grey")
		run(roomy)
		pl := fixture.Placement("grey", "web").Annotation(v1alpha1.ProfileAnnotation, "roomy").Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), pl)).To(Succeed())
			c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionMisconfigured)
			g.Expect(c).NotTo(BeNil())
			g.Expect(c.Message).To(ContainSubstring(`Unsupported value: "roomy": supported values: "default"`))
		}).Should(Succeed())
		Expect(comparisons(Default, "-n", "grey")).To(BeEmpty())
		code, _, stderr := command("shadow", "web", "-n", "grey")
		Expect(code).To(Equal(1))
		Expect(stderr).To(ContainSubstring(`The profile "roomy" of the Placement has no shadow`))
	})

	It("tells the author of one namespace nothing of others", func(ctx SpecContext) {
		newTeam(ctx, "pink")
		newTeam(ctx, "cyan")
		run(roomy)
		for _, namespace := range []string{"pink", "cyan"} {
			Expect(hub.Create(ctx, fixture.Placement(namespace, "web-"+namespace).Number(1).Obj())).To(Succeed())
			Eventually(func(g Gomega) { g.Expect(comparisons(g, "-n", namespace)).To(HaveLen(1)) }).Should(Succeed())
		}
		author := hub.Author(ctx, "pink")
		ask := func(name, placement string) *berthv1alpha1.PlacementExplanation {
			e := &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "pink", Name: name}}
			e.Spec.Placement, e.Spec.Shadows = placement, true
			Expect(author.Create(ctx, e)).To(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(author.Get(ctx, client.ObjectKeyFromObject(e), e)).To(Succeed())
				g.Expect(e.Status.Conditions).NotTo(BeEmpty())
			}).Should(Succeed())
			return e
		}
		all := ask("all", "")
		Expect(all.Status.Shadows).To(HaveLen(1))
		Expect(all.Status.Shadows[0].Placement).To(Equal("web-pink"))
		Expect(all.Status.Candidates).To(BeZero())
		other := ask("other", "web-cyan")
		Expect(other.Status.Shadows).To(BeEmpty())
		Expect(other.Status.Conditions[0].Reason).To(Equal(berthv1alpha1.ReasonPlacementNotFound))
		e := &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "cyan", Name: "theirs"}}
		e.Spec.Shadows = true
		Expect(author.Create(ctx, e)).To(MatchError(ContainSubstring("forbidden")))
		e.Namespace, e.Spec.Template = "pink", &berthv1alpha1.PlacementTemplate{}
		Expect(author.Create(ctx, e)).To(MatchError(ContainSubstring("shadows compares existing Placements: template is not allowed")))
	})

	It("delays no decision while its plugin blocks", func(ctx SpecContext) {
		newTeam(ctx, "black")
		plugin := &blocking{entered: make(chan string), open: make(chan struct{})}
		defer close(plugin.open)
		stop := run(` [{name: slow, shadowOf: default, plugins: {preFilter: {enabled: [{name: Blocking}]}}}]`, plugin)
		Expect(hub.Create(ctx, fixture.Placement("black", "first").Number(1).Obj())).To(Succeed())
		// The shadow is inside its plugin from here on, and until after the last decision.
		Eventually(plugin.entered).WithContext(ctx).Should(Receive(Equal("first")))
		Expect(hub.Create(ctx, fixture.Placement("black", "second").Number(2).Obj())).To(Succeed())
		Eventually(published).WithContext(ctx).WithArguments("black", "second").Should(Equal("black-2 black-3"))
		patch(ctx, fixture.Placement("black", "second").Obj(), `{"spec":{"numberOfClusters":3}}`)
		Eventually(published).WithContext(ctx).WithArguments("black", "second").Should(Equal("black-2 black-3 black-4"))
		Eventually(func(g Gomega) {
			all := comparisons(g, "-n", "black")
			g.Expect(all["black/first slow"].Result).To(Equal("Pending"))
			g.Expect(all["black/second slow"].Result).To(Equal("Pending"))
			g.Expect(all["black/second slow"].Skipped).To(BeNumerically(">", 0))
		}).Should(Succeed())
		Expect(hub.Delete(ctx, fixture.Placement("black", "first").Obj())).To(Succeed())
		Eventually(func(g Gomega) { g.Expect(comparisons(g, "-n", "black")).To(HaveLen(1)) }).Should(Succeed())
		// A blocked shadow does not keep the controller from stopping either.
		stop()
	})

	It("may panic, and may have a long name", func(ctx SpecContext) {
		newTeam(ctx, "white")
		long := strings.Repeat("n", 40<<10)
		run(` [{name: `+long+`, shadowOf: default, plugins: {preFilter: {enabled: [{name: Panicking}]}}}]`, panicking{})
		Expect(hub.Create(ctx, fixture.Placement("white", "web").Number(1).Obj())).To(Succeed())
		Eventually(published).WithContext(ctx).WithArguments("white", "web").Should(Equal("white-1"))
		Eventually(func(g Gomega) {
			for _, c := range comparisons(g, "-n", "white") {
				g.Expect(c.Result).To(Equal("Failed"))
				g.Expect(c.Message).To(Equal("a plugin panicked: as always"))
				g.Expect(len(c.Shadow)).To(BeNumerically("<=", 253))
				return
			}
			g.Expect("a comparison").To(BeEmpty())
		}).Should(Succeed())
		patch(ctx, fixture.Placement("white", "web").Obj(), `{"spec":{"numberOfClusters":2}}`)
		Eventually(published).WithContext(ctx).WithArguments("white", "web").Should(Equal("white-1 white-2"))
	})
})

func patch(ctx context.Context, object client.Object, text string) {
	GinkgoHelper()
	Expect(hub.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(text)))).To(Succeed())
}

// blocking is a plugin that never returns, until the spec ends.
type blocking struct {
	entered chan string
	open    chan struct{}
}

func (*blocking) Name() string { return "Blocking" }

func (b *blocking) PreFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	select {
	case b.entered <- pl.Name:
		<-b.open
	case <-b.open:
	}
	return nil, nil
}

// panicking is a plugin that panics.
type panicking struct{}

func (panicking) Name() string { return "Panicking" }

func (panicking) PreFilter(context.Context, *framework.CycleState, *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	panic("as always")
}
