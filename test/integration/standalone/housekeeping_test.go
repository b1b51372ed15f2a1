package standalone

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const nobody = "True NoClusterMatched: No ManagedCluster selected"

var _ = Describe("The sets of a hub", func() {
	It("default and global exist from the start, and are created again after a deletion", func(ctx SpecContext) {
		for name, want := range map[string]v1alpha1.ManagedClusterSelector{
			"default": {SelectorType: v1alpha1.ExclusiveClusterSetLabel},
			"global":  {SelectorType: v1alpha1.LabelSelector, LabelSelector: &metav1.LabelSelector{}},
		} {
			set := &v1alpha1.ManagedClusterSet{}
			uid := func() types.UID {
				set = fixture.Set(name)
				if alone.Get(ctx, client.ObjectKeyFromObject(set), set) != nil {
					return ""
				}
				return set.UID
			}
			Eventually(uid).ShouldNot(BeEmpty())
			Expect(set.Spec.ClusterSelector).To(Equal(want))
			first := set.UID
			Expect(alone.Delete(ctx, set)).To(Succeed())
			Eventually(uid).ShouldNot(BeElementOf(first, types.UID("")))
			Expect(set.Spec.ClusterSelector).To(Equal(want))
			Eventually(alone.empty(ctx, name)).Should(MatchRegexp("^(True|False) "))
		}
	})

	It("of users stay deleted", func(ctx SpecContext) {
		set := fixture.Set(unique("set"))
		alone.make(ctx, set)
		Eventually(alone.empty(ctx, set.Name)).Should(Equal(nobody))
		Expect(alone.Delete(ctx, set)).To(Succeed())
		Consistently(func() error { return alone.Get(ctx, client.ObjectKeyFromObject(set), set) }).ShouldNot(Succeed())
	})

	It("count the clusters with their label", func(ctx SpecContext) {
		set := fixture.Set(unique("set"))
		alone.make(ctx, set)
		says := alone.empty(ctx, set.Name)
		Eventually(says).Should(Equal(nobody))
		a, b := fixture.Cluster(unique("a")).Set(set.Name).Obj(), fixture.Cluster(unique("b")).Set(set.Name).Obj()
		alone.make(ctx, a)
		Eventually(says).Should(Equal("False ClustersSelected: 1 ManagedClusters selected"))
		alone.make(ctx, b)
		Eventually(says).Should(Equal("False ClustersSelected: 2 ManagedClusters selected"))
		testhub.Edit(ctx, alone, a, func(c *v1alpha1.ManagedCluster) { c.Labels[v1alpha1.ClusterSetLabel] = "elsewhere" })
		Eventually(says).Should(Equal("False ClustersSelected: 1 ManagedClusters selected"))
		Expect(alone.Delete(ctx, b)).To(Succeed())
		Eventually(says).Should(Equal(nobody))
	})

	It("do not count a cluster that is being deleted", func(ctx SpecContext) {
		set := fixture.Set(unique("set"))
		a := fixture.Cluster(unique("a")).Set(set.Name).Obj()
		a.Finalizers = []string{"example.com/slow"}
		alone.make(ctx, set, a)
		Eventually(alone.empty(ctx, set.Name)).Should(HavePrefix("False"))
		Expect(alone.Delete(ctx, a)).To(Succeed())
		Eventually(alone.empty(ctx, set.Name)).Should(Equal(nobody))
		testhub.Edit(ctx, alone, a, func(c *v1alpha1.ManagedCluster) { c.Finalizers = nil })
	})

	It("count the clusters that their selector matches, and report an invalid selector", func(ctx SpecContext) {
		key := unique("tier")
		set := fixture.SelectorSet(unique("set"), nil)
		a := fixture.Cluster(unique("a")).Label(key, "1").Obj()
		alone.make(ctx, set, a, fixture.Cluster(unique("b")).Label(key, "2").Obj())
		says := alone.empty(ctx, set.Name)
		Eventually(says).Should(Equal(nobody))
		selector := func(operator metav1.LabelSelectorOperator, values ...string) {
			testhub.Edit(ctx, alone, set, func(s *v1alpha1.ManagedClusterSet) {
				s.Spec.ClusterSelector.LabelSelector = &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}},
				}
			})
		}
		selector(metav1.LabelSelectorOpExists)
		Eventually(says).Should(Equal("False ClustersSelected: 2 ManagedClusters selected"))
		selector(metav1.LabelSelectorOpIn, "1")
		Eventually(says).Should(Equal("False ClustersSelected: 1 ManagedClusters selected"))
		testhub.Edit(ctx, alone, a, func(c *v1alpha1.ManagedCluster) { c.Labels[key] = "3" })
		Eventually(says).Should(Equal(nobody))
		selector(metav1.LabelSelectorOpIn)
		Eventually(says).Should(Equal("True InvalidSelector: spec.clusterSelector.labelSelector.matchExpressions[0].values: " +
			"Required value: the operator In requires at least one value"))
		selector(metav1.LabelSelectorOpIn, "3")
		Eventually(says).Should(Equal("False ClustersSelected: 1 ManagedClusters selected"))
	})

	It("change the Bound condition of their bindings when they are created and deleted", func(ctx SpecContext) {
		name := unique("set")
		namespace := alone.namespace(ctx, name)
		says := alone.bound(ctx, namespace, name)
		missing := `False ClusterSetNotFound: spec.clusterSet: ManagedClusterSet "` + name + `" does not exist`
		Eventually(says).Should(Equal(missing))
		set := fixture.Set(name)
		alone.make(ctx, set)
		Eventually(says).Should(Equal("True ClusterSetBound: "))
		Expect(alone.Delete(ctx, set)).To(Succeed())
		Eventually(says).Should(Equal(missing))
	})
})

var _ = Describe("A cluster", func() {
	// now is a check for Eventually: the cluster as it is.
	now := func(ctx context.Context, c *v1alpha1.ManagedCluster) func(Gomega) *v1alpha1.ManagedCluster {
		return func(g Gomega) *v1alpha1.ManagedCluster {
			g.Expect(alone.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
			return c
		}
	}
	inSet := func(name string) OmegaMatcher {
		return HaveField("Labels", HaveKeyWithValue(v1alpha1.ClusterSetLabel, name))
	}
	// taints is a check for Eventually: "key:effect" of each taint, all of which have their time.
	taints := func(ctx context.Context, c *v1alpha1.ManagedCluster) func(Gomega) []string {
		return func(g Gomega) []string {
			g.Expect(alone.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
			var list []string
			for _, t := range c.Spec.Taints {
				g.Expect(t.TimeAdded.Time).NotTo(BeZero(), t.Key)
				list = append(list, t.Key+":"+string(t.Effect))
			}
			return list
		}
	}

	It("in no set joins the default set, and a cluster in another set stays there", func(ctx SpecContext) {
		stray, member := fixture.Cluster(unique("stray")).Obj(), fixture.Cluster(unique("member")).Set("other").Obj()
		alone.make(ctx, stray, member)
		Eventually(now(ctx, stray)).Should(inSet("default"))
		Eventually(alone.empty(ctx, "default")).Should(HavePrefix("False ClustersSelected"))
		Consistently(now(ctx, member)).Should(inSet("other"))
		testhub.Edit(ctx, alone, member, func(c *v1alpha1.ManagedCluster) { delete(c.Labels, v1alpha1.ClusterSetLabel) })
		Eventually(now(ctx, member)).Should(inSet("default"))
	})

	It("gets timeAdded on its taints, if it is absent", func(ctx SpecContext) {
		long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		before := time.Now().Truncate(time.Second)
		c := fixture.Cluster(unique("a")).Set("x").TaintAt("old", "", v1alpha1.TaintEffectNoSelect, long).
			Taint("new", "v", v1alpha1.TaintEffectPreferNoSelect).Obj()
		alone.make(ctx, c)
		Eventually(taints(ctx, c)).Should(Equal([]string{"old:NoSelect", "new:PreferNoSelect"}))
		Expect(c.Spec.Taints[0].TimeAdded.Time).To(BeTemporally("==", long.Time))
		Expect(c.Spec.Taints[1].TimeAdded.Time).To(And(BeTemporally(">=", before), BeTemporally("<=", time.Now())))
		Expect(c.Spec.Taints[1].Value).To(Equal("v"))
	})

	It("is tainted by its Available condition, and keeps its other taints", func(ctx SpecContext) {
		c := fixture.Cluster(unique("a")).Set("x").Taint("mine", "", v1alpha1.TaintEffectNoSelect).Obj()
		alone.make(ctx, c)
		Eventually(taints(ctx, c)).Should(Equal([]string{"mine:NoSelect"}))
		Consistently(taints(ctx, c)).Should(Equal([]string{"mine:NoSelect"}), "an absent condition changes nothing")
		for _, step := range []struct {
			status metav1.ConditionStatus
			want   []string
		}{
			{metav1.ConditionFalse, []string{"mine:NoSelect", v1alpha1.ManagedClusterTaintUnavailable + ":NoSelect"}},
			{metav1.ConditionUnknown, []string{"mine:NoSelect", v1alpha1.ManagedClusterTaintUnreachable + ":NoSelect"}},
			{metav1.ConditionTrue, []string{"mine:NoSelect"}},
			{metav1.ConditionUnknown, []string{"mine:NoSelect", v1alpha1.ManagedClusterTaintUnreachable + ":NoSelect"}},
		} {
			alone.available(ctx, c, step.status)
			Eventually(taints(ctx, c)).Should(Equal(step.want))
		}
		By("taking the taint away by hand")
		testhub.Edit(ctx, alone, c, func(c *v1alpha1.ManagedCluster) { c.Spec.Taints = c.Spec.Taints[:1] })
		Eventually(taints(ctx, c)).Should(HaveLen(2))
	})

	It("is removed from the decision when it fails, and when the toleration of its stamped taint expires", func(ctx SpecContext) {
		const seconds = 3
		set := fixture.Set(unique("set"))
		names := []string{unique("a"), unique("b"), unique("c")}
		a, b, c := fixture.Cluster(names[0]).Set(set.Name).Obj(), fixture.Cluster(names[1]).Set(set.Name).Obj(), fixture.Cluster(names[2]).Set(set.Name).Obj()
		alone.make(ctx, set, a, b, c)
		namespace := alone.namespace(ctx, set.Name)
		pl := fixture.Placement(namespace, "p").Toleration("drain", v1alpha1.TolerationOpExists, "", "").Seconds(seconds).Obj()
		alone.make(ctx, pl)
		Eventually(ctx, testhub.Clusters).WithArguments(alone, pl).Should(Equal(names))

		testhub.Edit(ctx, alone, a, func(c *v1alpha1.ManagedCluster) {
			c.Spec.Taints = []v1alpha1.Taint{{Key: "drain", Effect: v1alpha1.TaintEffectNoSelect}}
		})
		Eventually(taints(ctx, a)).Should(Equal([]string{"drain:NoSelect"}))
		end := a.Spec.Taints[0].TimeAdded.Add(seconds * time.Second)
		alone.available(ctx, b, metav1.ConditionFalse)
		Eventually(ctx, testhub.Clusters).WithArguments(alone, pl).Should(Equal([]string{names[0], names[2]}))
		Expect(time.Now()).To(BeTemporally("<", end))
		Eventually(ctx, testhub.Clusters).WithArguments(alone, pl).Should(Equal([]string{names[2]}))
		Expect(time.Now()).To(And(BeTemporally(">=", end), BeTemporally("<", end.Add(3*time.Second))))
		alone.available(ctx, b, metav1.ConditionTrue)
		Eventually(ctx, testhub.Clusters).WithArguments(alone, pl).Should(Equal([]string{names[1], names[2]}))
	})
})

// duties are the housekeeping controllers.
var duties = []string{"cluster-availability", "cluster-default-set", "cluster-lease", "cluster-taint-time", "clusterset", "clustersetbinding"}

// neglect makes something for each housekeeping controller to do, and a check for Eventually: the
// names of those that did it. No controller must be running.
func (s *server) neglect(ctx context.Context) func(Gomega) []string {
	GinkgoHelper()
	for _, name := range []string{"default", "global"} {
		Expect(client.IgnoreNotFound(s.Delete(ctx, fixture.Set(name)))).To(Succeed())
	}
	set := fixture.Set(unique("set"))
	namespace := s.namespace(ctx, set.Name)
	c := fixture.Cluster(unique("a")).Taint("mine", "", v1alpha1.TaintEffectNoSelect).
		Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionUnknown, metav1.Now()).Obj()
	c.Status.Conditions[0].Reason = "Told"
	s.make(ctx, set, c)
	silent := s.makeSilent(ctx, -time.Hour)
	has := func(name string) bool {
		return s.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.ManagedClusterSet{}) == nil
	}
	return func(g Gomega) []string {
		g.Expect(s.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
		done := []string{}
		for duty, isDone := range map[string]bool{
			"clusterset":          has("default") && has("global") && testhub.Must(s.empty(ctx, set.Name)()) == nobody,
			"clustersetbinding":   testhub.Must(s.bound(ctx, namespace, set.Name)()) == "True ClusterSetBound: ",
			"cluster-default-set": c.Labels[v1alpha1.ClusterSetLabel] == "default",
			"cluster-taint-time":  !c.Spec.Taints[0].TimeAdded.IsZero(),
			"cluster-lease":       testhub.Must(s.availability(ctx, silent)()) == leaseStopped,
			"cluster-availability": slices.ContainsFunc(c.Spec.Taints, func(t v1alpha1.Taint) bool {
				return t.Key == v1alpha1.ManagedClusterTaintUnreachable
			}),
		} {
			if isDone {
				done = append(done, duty)
			}
		}
		slices.Sort(done)
		return done
	}
}

var _ = Describe("Housekeeping", func() {
	DescribeTable("runs the loops that are named:", func(ctx SpecContext, names, want []string) {
		alone.stopBerth()
		DeferCleanup(func() { alone.startBerth("*") })
		done := alone.neglect(ctx)
		alone.startBerth(names...)
		DeferCleanup(alone.stopBerth)
		Eventually(done).Should(Equal(want))
		Consistently(done).Should(Equal(want))
	},
		Entry("all of them", []string{"*"}, duties),
		Entry("one", []string{"cluster-lease"}, []string{"cluster-lease"}),
		Entry("all but one", []string{"-cluster-availability"}, duties[1:]),
		Entry("none", nil, []string{}),
	)

	DescribeTable("refuses unknown names", func(ctx SpecContext, name string) {
		_, err := controllers.NewManager(ctx, alone.Config, controllers.Options{
			MetricsAddress: "0", HealthAddress: "0", Log: GinkgoLogr, Housekeeping: []string{"*", name},
		})
		Expect(err).To(MatchError(`--housekeeping: unknown controller "sweeper"; allowed are *, -NAME and the names cluster-availability, cluster-default-set, ` +
			`cluster-lease, cluster-profile, cluster-taint-time, clusterset, clustersetbinding`))
	}, Entry("to be added", "sweeper"), Entry("to be left out", "-sweeper"))
})
