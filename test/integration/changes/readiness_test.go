package changes

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// reports is a readiness source over ConfigMaps in the Placement's namespace.
var reports = config.ReadinessSource{
	Name: "reports", APIVersion: "v1", Kind: "ConfigMap", Namespace: config.PlacementNamespace,
	LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"report": "true"}},
	Cluster:       "object.data.cluster", Ready: "object.data.ready == 'true'",
}

var _ = Describe("A readiness source", Ordered, func() {
	options := controllers.Options{Config: &config.PlacementSchedulerConfiguration{ReadinessSources: []config.ReadinessSource{reports}}}

	BeforeAll(func() {
		controller := hub.StartController(options)
		DeferCleanup(controller.Stop)
	})

	It("is not ready while Berth may not read it", func(ctx SpecContext) {
		p := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: testhub.CreateNamespace(ctx, hub, "team-"), Name: "p"}, Spec: byLabels(nil)}
		p.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "reports"}
		Expect(hub.Create(ctx, p)).To(Succeed())
		Eventually(statusOf(ctx, p)).Should(HavePrefix("0 False ReadinessSourceNotReady"))
		allowReports(ctx)
		Eventually(statusOf(ctx, p)).Should(Equal("0 False NoPlacementsSelected"))
	})

	It("lets a cluster leave once its replacement is ready", func(ctx SpecContext) {
		ns := fleet(ctx, 4)
		careful := policy(ctx, ns, func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "reports", PlacementLabel: "placement"}
			spec.MaxSurge = nil
		})
		Eventually(statusOf(ctx, careful)).Should(Equal("0 False NoPlacementsSelected"))
		pl := fixture.Placement(ns, "web").Number(2).Predicate(fixture.MatchLabel("tier", "old")).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(HaveLen(2))
		old := listed(ctx, ns)
		for _, name := range old {
			report(ctx, ns, name, "web", "true")
		}
		testhub.Edit(ctx, hub, pl, func(pl *v1alpha1.Placement) {
			pl.Spec = fixture.Placement(ns, "web").Number(2).Predicate(fixture.MatchLabel("tier", "new")).Obj().Spec
		})
		for i := range 2 {
			// Added, and not ready.
			Eventually(listed).WithContext(ctx).WithArguments(ns).Should(HaveLen(3))
			names := listed(ctx, ns)
			added := newest(names, old)
			Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionDecisionProgressing).
				Should(ContainSubstring("waiting for " + added + " (reports: no object matches)"))
			report(ctx, ns, added, "another", "true")
			report(ctx, ns, added, "web", "false")
			Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionDecisionProgressing).
				Should(ContainSubstring("waiting for " + added + " (reports: 0 of 1 objects ready)"))
			Expect(listed(ctx, ns)).To(Equal(names))
			report(ctx, ns, added, "web", "true")
			old = append(old, added)
			if i == 0 {
				Eventually(listed).WithContext(ctx).WithArguments(ns).Should(And(HaveLen(3), ContainElement(added), Not(Equal(names))))
			}
		}
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(Equal([]string{ns + "-1", ns + "-3"}))
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published, 2 Published"))
	})

	It("reports in the condition Ready whether it can be read", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		for source, want := range map[string]string{
			"argocd":  "0 False ReadinessSourceNotReady",
			"nowhere": "0 False ReadinessSourceNotReady",
			"cluster": "0 False NoPlacementsSelected",
			"reports": "0 False NoPlacementsSelected",
		} {
			p := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: source}, Spec: byLabels(nil)}
			p.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: source}
			Expect(hub.Create(ctx, p)).To(Succeed())
			Eventually(statusOf(ctx, p)).Should(HavePrefix(want), source)
		}
	})

	It("is refused if its selector has no values", func(ctx SpecContext) {
		p := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: testhub.CreateNamespace(ctx, hub, "team-"), Name: "p"}, Spec: byLabels(nil)}
		p.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "reports", Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}},
		}}
		Expect(hub.Create(ctx, p)).To(MatchError(ContainSubstring("readiness.selector.matchExpressions: In and NotIn need values")))
	})
})

// allowReports lets the controller read ConfigMaps.
func allowReports(ctx context.Context) {
	GinkgoHelper()
	name := metav1.ObjectMeta{Name: "berth-readiness-reports"}
	Expect(hub.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
	}})).To(Succeed())
	testhub.Grant(ctx, hub, "", testhub.Account, name.Name)
}

// newest returns the name that is not among the old ones.
func newest(names, old []string) string {
	for _, name := range names {
		if !slices.Contains(old, name) {
			return name
		}
	}
	return ""
}

// report writes the report of a cluster about a Placement.
func report(ctx context.Context, ns, cluster, placement, ready string) {
	GinkgoHelper()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: cluster + "-" + placement, Labels: map[string]string{"report": "true", "placement": placement}},
		Data:       map[string]string{"cluster": cluster, "ready": ready},
	}
	if err := hub.Create(ctx, object); err != nil {
		Expect(hub.Update(ctx, object)).To(Succeed())
	}
}
