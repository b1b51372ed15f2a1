package api

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

// selecting returns a SelectionPolicy of the Placement web with the given fields.
func selecting(fields string) *unstructured.Unstructured {
	GinkgoHelper()
	return policyOf("SelectionPolicy", "{placement: web, "+fields+"}")
}

// items returns n items of a list, in YAML flow style; %d in the item is its position.
func items(n int, item string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(item, "%d", fmt.Sprint(i))
	}
	return strings.Join(all, ", ")
}

var _ = Describe("A SelectionPolicy", func() {
	DescribeTable("is refused with the path of the field",
		func(ctx SpecContext, fields string, want ...string) {
			err := hub.Create(ctx, selecting(fields), client.DryRunAll)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			for _, w := range want {
				Expect(err.Error()).To(ContainSubstring(w))
			}
		},
		Entry("with an empty name of a cluster", "clusterNames: {include: ['']}", "spec.clusterNames.include[0]"),
		Entry("with a name that no cluster has", "clusterNames: {exclude: ["+strings.Repeat("n", 254)+"]}", "spec.clusterNames.exclude[0]", "253"),
		Entry("with a name twice", "clusterNames: {include: [a, a]}", "spec.clusterNames.include[1]", "Duplicate value"),
		Entry("with 10,001 names", "clusterNames: {exclude: ["+items(10_001, "c%d")+"]}", "spec.clusterNames.exclude", "at most 10000 items"),

		Entry("with a preference without weight", "preferences: [{clusterSelector: {}}]", "spec.preferences[0].weight: Required"),
		Entry("with a weight of 101", "preferences: [{weight: 1}, {weight: 101}]", "spec.preferences[1].weight", "less than or equal to 100"),
		Entry("with a weight of -101", "preferences: [{weight: -101}]", "spec.preferences[0].weight", "greater than or equal to -100"),
		Entry("with 33 preferences", "preferences: ["+items(33, "{weight: 1}")+"]", "spec.preferences", "at most 32 items"),
		Entry("with a preferenceWeight of 11", "preferenceWeight: 11", "spec.preferenceWeight", "less than or equal to 10"),
		Entry("with a preferenceWeight of -11", "preferenceWeight: -11", "spec.preferenceWeight", "greater than or equal to -10"),
		Entry("with an unknown operator", "preferences: [{weight: 1, clusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Like}]}}}]",
			"spec.preferences[0].clusterSelector.labelSelector.matchExpressions[0].operator", `"Like"`),

		Entry("with an amount that is no quantity", "requests: {cpu: 4 cores}", "spec.requests"),
		Entry("with a negative amount", "requests: {cpu: -1}", "spec.requests", "must be a quantity from 0 to 1Pi"),
		Entry("with a negative amount as text", "requests: {cpu: '-100m'}", "spec.requests", "must be a quantity from 0 to 1Pi"),
		Entry("with more than 1Pi", "requests: {cpu: 1, memory: 2Pi}", "spec.requests", "must be a quantity from 0 to 1Pi"),
		Entry("with an amount that overflows", "requests: {memory: '9223372036854775807'}", "spec.requests", "must be a quantity from 0 to 1Pi"),
		Entry("with an exponent that takes seconds to parse", "requests: {memory: '1e-9999999'}", "spec.requests", "must be a quantity from 0 to 1Pi"),
		Entry("with a resource without a name", "requests: {'': 1}", "spec.requests", "1 to 253 characters"),
		Entry("with the name of a resource of 254 characters", "requests: {"+strings.Repeat("n", 254)+": 1}", "spec.requests", "1 to 253 characters"),
		Entry("with 17 resources", "requests: {"+items(17, "r%d: 1")+"}", "spec.requests", "at most 16 items"),

		Entry("with a tier without a name", "tiers: [{minClusters: 1}]", "spec.tiers[0].name: Required"),
		Entry("with a tier with an empty name", "tiers: [{name: ''}]", "spec.tiers[0].name"),
		Entry("with a tier whose name is no label", "tiers: [{name: EU}]", "spec.tiers[0].name", `"EU"`),
		Entry("with a tier with a long name", "tiers: [{name: "+longName+"}]", "spec.tiers[0].name", "63"),
		Entry("with a tier twice", "tiers: [{name: eu}, {name: eu}]", "spec.tiers[1]", "Duplicate value"),
		Entry("with a tier of no clusters", "tiers: [{name: eu, minClusters: 0}]", "spec.tiers[0].minClusters", "greater than or equal to 1"),
		Entry("with a tier of 100,001 clusters", "tiers: [{name: eu, minClusters: 100001}]", "spec.tiers[0].minClusters", "less than or equal to 100000"),
		Entry("with 17 tiers", "tiers: ["+items(17, "{name: t%d}")+"]", "spec.tiers", "at most 16 items"),
		Entry("with an unknown mode", "tierMode: Failover", "spec.tierMode", `"Failover"`),
		Entry("with a failback after less than never", "failbackAfterSeconds: -2", "spec.failbackAfterSeconds", "greater than or equal to -1"),
		Entry("with a failback after more than a year", "failbackAfterSeconds: 31536001", "spec.failbackAfterSeconds", "less than or equal to 31536000"),

		Entry("with a group without a name", "groups: [{count: 1}]", "spec.groups[0].name: Required"),
		Entry("with a group whose name is no label", "groups: [{name: a_b, count: 1}]", "spec.groups[0].name", `"a_b"`),
		Entry("with a group with a long name", "groups: [{name: "+longName+", count: 1}]", "spec.groups[0].name", "63"),
		Entry("with a group twice", "groups: [{name: a, count: 1}, {name: a, count: 2}]", "spec.groups[1]", "Duplicate value"),
		Entry("with a group without numbers", "groups: [{name: a}]", "spec.groups[0]: Invalid value", "count, min or max is required"),
		Entry("with a group with count and min", "groups: [{name: a, count: 1, min: 1}]", "spec.groups[0]: Invalid value", "count replaces min and max"),
		Entry("with a group with count and max", "groups: [{name: a, count: 1, max: 1}]", "spec.groups[0]: Invalid value", "count replaces min and max"),
		Entry("with a min above max", "groups: [{name: a, min: 1}, {name: b, min: 3, max: 2}]", "spec.groups[1]: Invalid value", "min must not be greater than max"),
		Entry("with a negative count", "groups: [{name: a, count: -1}]", "spec.groups[0].count", "greater than or equal to 0"),
		Entry("with a negative min", "groups: [{name: a, min: -1}]", "spec.groups[0].min", "greater than or equal to 0"),
		Entry("with a negative max", "groups: [{name: a, max: -1}]", "spec.groups[0].max", "greater than or equal to 0"),
		Entry("with a count of 100,001", "groups: [{name: a, count: 100001}]", "spec.groups[0].count", "less than or equal to 100000"),
		Entry("with a min of 100,001", "groups: [{name: a, min: 100001}]", "spec.groups[0].min", "less than or equal to 100000"),
		Entry("with a max of 100,001", "groups: [{name: a, max: 100001}]", "spec.groups[0].max", "less than or equal to 100000"),
		Entry("with 33 groups", "groups: ["+items(33, "{name: g%d, count: 1}")+"]", "spec.groups", "at most 32 items"),

		Entry("with an affinity to nothing", "affinity: {with: [{}]}", "spec.affinity.with[0]: Invalid value", "exactly one of placement and placementSelector is required"),
		Entry("with an affinity to a name and labels", "affinity: {apartFrom: [{placement: a}, {placement: a, placementSelector: {}}]}",
			"spec.affinity.apartFrom[1]: Invalid value", "exactly one of placement and placementSelector is required"),
		Entry("with an affinity to an empty name", "affinity: {with: [{placement: ''}]}", "spec.affinity.with[0].placement"),
		Entry("with an affinity to a long name", "affinity: {with: [{placement: "+longName+"}]}", "spec.affinity.with[0].placement", "63"),
		Entry("with an affinity to 11 labels", "affinity: {with: [{placementSelector: {matchLabels: {"+items(11, "a%d: b")+"}}}]}", "spec.affinity.with[0]", "at most 10 labels"),
		Entry("with an affinity to an unknown operator", "affinity: {apartFrom: [{placementSelector: {matchExpressions: [{key: a, operator: Like}]}}]}",
			"spec.affinity.apartFrom[0].placementSelector.matchExpressions[0].operator", `"Like"`),
		Entry("with 17 Placements to be with", "affinity: {with: ["+items(17, "{placement: p%d}")+"]}", "spec.affinity.with", "at most 16 items"),
		Entry("with 17 Placements to be apart from", "affinity: {apartFrom: ["+items(17, "{placement: p%d}")+"]}", "spec.affinity.apartFrom", "at most 16 items"),
	)

	DescribeTable("is refused without a Placement",
		func(ctx SpecContext, spec string, want ...string) {
			err := hub.Create(ctx, policyOf("SelectionPolicy", spec), client.DryRunAll)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			for _, w := range want {
				Expect(err.Error()).To(ContainSubstring(w))
			}
		},
		Entry("that it names", "{}", "spec.placement: Required"),
		Entry("with an empty name", "{placement: ''}", "spec.placement"),
		Entry("with a name that no Placement has", "{placement: "+longName+"}", "spec.placement", "63"),
		Entry("and without spec", "null", "spec: Required"),
	)

	DescribeTable("gets defaults",
		func(ctx SpecContext, fields, want string) {
			object := selecting(fields)
			Expect(hub.Create(ctx, object, client.DryRunAll)).To(Succeed())
			got, err := yaml.Marshal(object.Object["spec"])
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(MatchYAML(want))
		},
		Entry("of a policy without parts", "", "{placement: web, preferenceWeight: 1, tierMode: Fallback, failbackAfterSeconds: 300}"),
		Entry("only where a field is absent",
			"preferenceWeight: 0, tierMode: Overflow, failbackAfterSeconds: 0, tiers: [{name: a}], groups: [{name: a, count: 0}]",
			"{placement: web, preferenceWeight: 0, tierMode: Overflow, failbackAfterSeconds: 0, tiers: [{name: a}], groups: [{name: a, count: 0}]}"),
	)

	DescribeTable("is accepted at the bounds",
		func(ctx SpecContext, fields string) {
			Expect(hub.Create(ctx, selecting(fields), client.DryRunAll)).To(Succeed())
		},
		Entry("of names", "clusterNames: {include: ["+items(10_000, "c%d")+"], exclude: ["+strings.Repeat("n", 253)+"]}"),
		Entry("of preferences", "preferenceWeight: -10, preferences: ["+items(31, "{weight: 100}")+", {weight: -100}]"),
		Entry("of requests", "requests: {"+items(13, "r%d: 1Pi")+", cpu: 0, memory: 1.5Gi, "+strings.Repeat("n", 253)+": 100m}"),
		Entry("of tiers", "failbackAfterSeconds: -1, tiers: ["+items(16, "{name: t%d, minClusters: 100000}")+"]"),
		Entry("of groups", "groups: ["+items(32, "{name: g%d, min: 0, max: 100000}")+"]"),
		Entry("of affinity", "affinity: {with: ["+items(16, "{placement: p%d}")+"], apartFrom: ["+items(16, "{placementSelector: {}}")+"]}"),
	)

	It("is listed with Placement, readiness, whether it is required, used tiers and age, and its status is a subresource", func(ctx SpecContext) {
		stored := &berthv1alpha1.SelectionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "listed"},
			Spec:       berthv1alpha1.SelectionPolicySpec{Placement: "web", Tiers: []berthv1alpha1.SelectionTier{{Name: "eu"}, {Name: "us"}}},
		}
		status := berthv1alpha1.SelectionPolicyStatus{
			Tiers: []berthv1alpha1.SelectionTierStatus{{Name: "eu", Qualifying: 1}, {Name: "us", Qualifying: 3, Used: true}},
			Conditions: []metav1.Condition{{
				Type: berthv1alpha1.SelectionReady, Status: metav1.ConditionTrue, Reason: berthv1alpha1.ReasonSelectionApplied, LastTransitionTime: metav1.Now(),
			}, {
				Type: berthv1alpha1.SelectionRequired, Status: metav1.ConditionFalse, Reason: berthv1alpha1.ReasonNotRequired, LastTransitionTime: metav1.Now(),
			}},
		}
		stored.Status = status
		create(ctx, stored)
		Expect(stored.Status).To(BeZero(), "a status that was written with the object")
		generation := stored.Generation
		stored.Status = status
		Expect(hub.Status().Update(ctx, stored)).To(Succeed())
		Expect(stored.Generation).To(Equal(generation))
		columns, row := printed(ctx, "selectionpolicies", "listed")
		Expect(columns).To(HaveExactElements("Name", "Placement", "Ready", "Required", "Tiers", "Age"))
		Expect(row[:5]).To(HaveExactElements("listed", "web", "True", "False", "us"))
	})

	It("keeps an empty list of clusters apart from none, through the typed client", func(ctx SpecContext) {
		for _, include := range [][]string{nil, {}, {"a"}} {
			object := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "named-"}}
			object.Spec.Placement, object.Spec.ClusterNames.Include = "web", include
			create(ctx, object)
			stored := testhub.Must(testhub.Get(ctx, hub, object))
			Expect(stored.DeepCopy().Spec.ClusterNames.Include).To(Equal(include))
		}
	})

	It("can name another Placement, and is found by its short name", func(ctx SpecContext) {
		stored := selecting("")
		create(ctx, stored)
		Expect(testhub.Patch(ctx, hub, stored, `{"spec": {"placement": "api"}}`)).To(Succeed())
		_, row := printed(ctx, "selectionpolicies", stored.GetName())
		Expect(row[1]).To(Equal("api"))
	})

	It("is written by users with edit in its namespace, but its status is not", func(ctx SpecContext) {
		hub.InstallRoles(ctx)
		testhub.Grant(ctx, hub, namespace, "tenant", "edit")
		tenant := hub.As("tenant")
		object := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Spec: berthv1alpha1.SelectionPolicySpec{Placement: "web"}}
		// The controller that aggregates ClusterRoles does not run in this suite.
		aggregateEdit(ctx)
		Eventually(func() error { return tenant.Create(ctx, object.DeepCopy(), client.DryRunAll) }).WithTimeout(soon).Should(Succeed())
		Expect(tenant.Create(ctx, object)).To(Succeed())
		testhub.DeleteAfterwards(hub, object)
		Expect(testhub.Patch(ctx, tenant, object, `{"spec": {"tierMode": "Overflow"}}`)).To(Succeed())
		Expect(tenant.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		object.Status.UnknownNames = []string{"a"}
		Expect(apierrors.IsForbidden(tenant.Status().Update(ctx, object))).To(BeTrue())
		elsewhere := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs"}, Spec: object.Spec}
		Expect(apierrors.IsForbidden(tenant.Create(ctx, elsewhere))).To(BeTrue())
		Expect(tenant.Delete(ctx, object)).To(Succeed())
	})
})

// aggregateEdit gives the ClusterRole edit the rules of the ClusterRoles that are aggregated into
// it, as kube-controller-manager does.
func aggregateEdit(ctx context.Context) {
	GinkgoHelper()
	var parts rbacv1.ClusterRoleList
	Expect(hub.List(ctx, &parts, client.MatchingLabels{"rbac.authorization.k8s.io/aggregate-to-edit": "true"})).To(Succeed())
	edit := &rbacv1.ClusterRole{}
	Expect(hub.Get(ctx, client.ObjectKey{Name: "edit"}, edit)).To(Succeed())
	for i := range parts.Items {
		edit.Rules = append(edit.Rules, parts.Items[i].Rules...)
	}
	Expect(hub.Update(ctx, edit)).To(Succeed())
}
