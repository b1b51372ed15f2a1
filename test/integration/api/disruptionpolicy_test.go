package api

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// policy returns a DisruptionPolicy with the given spec, in YAML flow style.
func policy(spec string) *unstructured.Unstructured {
	GinkgoHelper()
	return policyOf("DisruptionPolicy", spec)
}

// policyOf returns a policy of one of Berth's own kinds with the given spec, in YAML flow style.
func policyOf(kind, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte("{metadata: {generateName: policy-}, spec: "+spec+"}"), &object.Object)).To(Succeed())
	object.SetGroupVersionKind(berthv1alpha1.GroupVersion.WithKind(kind))
	object.SetNamespace(namespace)
	return object
}

var _ = Describe("A DisruptionPolicy", func() {
	DescribeTable("is refused with the path of the field",
		func(ctx SpecContext, spec string, want ...string) {
			err := hub.Create(ctx, policy(spec), client.DryRunAll)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			for _, w := range want {
				Expect(err.Error()).To(ContainSubstring(w))
			}
		},
		Entry("without selection", "{approval: Required}", "exactly one of placementSelector and placements is required"),
		Entry("with two selections", "{placementSelector: {}, placements: [a]}", "exactly one of placementSelector and placements is required"),
		Entry("with an empty list", "{placements: []}", "spec.placements", "at least 1 items"),
		Entry("with a name twice", "{placements: [a, a]}", "spec.placements[1]", "Duplicate value"),
		Entry("with an empty name", "{placements: ['']}", "spec.placements[0]"),
		Entry("with a name that no Placement has", "{placements: ["+longName+"]}", "spec.placements[0]"),
		Entry("with 1,001 names", "{placements: ["+strings.Join(names(1_001, 4), "n, ")+"n]}", "spec.placements", "at most 1000 items"),
		Entry("with an unknown operator", "{placementSelector: {matchExpressions: [{key: a, operator: Like}]}}",
			"spec.placementSelector.matchExpressions[0].operator", `"Like"`),
		Entry("with In without values", "{placementSelector: {matchExpressions: [{key: a, operator: In}]}}", "In and NotIn need values"),
		Entry("with NotIn of nothing", "{placementSelector: {matchExpressions: [{key: a, operator: NotIn, values: []}]}}", "In and NotIn need values"),
		Entry("with Exists and a value", "{placementSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}", "Exists and DoesNotExist have none"),
		Entry("with 11 labels", "{placementSelector: {matchLabels: {"+items(11, "a%d: b")+"}}}", "placementSelector.matchLabels: at most 10 labels"),
		Entry("with 11 requirements", "{placementSelector: {matchExpressions: ["+items(11, "{key: a%d, operator: Exists}")+"]}}",
			"placementSelector.matchExpressions: at most 10 requirements"),
		Entry("with 11 labels of ready objects", "{placementSelector: {}, readiness: {source: argocd, selector: {matchLabels: {"+items(11, "a%d: b")+"}}}}",
			"readiness.selector.matchLabels: at most 10 labels"),
		Entry("with 11 requirements of ready objects", "{placementSelector: {}, readiness: {source: argocd, selector: {matchExpressions: ["+items(11, "{key: a%d, operator: Exists}")+"]}}}",
			"readiness.selector.matchExpressions: at most 10 requirements"),
		Entry("with an unknown approval", "{placementSelector: {}, approval: Optional}", "spec.approval", `"Optional"`),
		Entry("with no time to approve", "{placementSelector: {}, approvalTimeoutSeconds: 0}", "spec.approvalTimeoutSeconds"),
		Entry("with more than a year to approve", "{placementSelector: {}, approvalTimeoutSeconds: 31536001}", "spec.approvalTimeoutSeconds"),
		Entry("with a negative stabilization window", "{placementSelector: {}, stabilizationWindowSeconds: -1}", "spec.stabilizationWindowSeconds"),
		Entry("with a stabilization window of more than an hour", "{placementSelector: {}, stabilizationWindowSeconds: 3601}", "spec.stabilizationWindowSeconds"),
		Entry("with a negative maxUnavailable", "{placementSelector: {}, maxUnavailable: -1}", "spec.maxUnavailable", "from 0 to 1000000"),
		Entry("with a maxSurge of more than all", "{placementSelector: {}, maxSurge: 101%}", "spec.maxSurge", "from 0% to 100%"),
		Entry("with a maxSurge that is no percentage", "{placementSelector: {}, maxSurge: '3'}", "spec.maxSurge", "from 0% to 100%"),
		Entry("with a maxSurge that overflows", "{placementSelector: {}, maxSurge: 9223372036854775807}", "spec.maxSurge"),
		Entry("with no way to replace a cluster", "{placementSelector: {}, maxUnavailable: 0%, maxSurge: 0}", "must not both be 0"),
		Entry("without a surge and the default maxUnavailable", "{placementSelector: {}, maxSurge: 0}", "must not both be 0"),
		Entry("with a negative minAvailable", "{placementSelector: {}, minAvailable: -1}", "spec.minAvailable", "from 0 to 1000000"),
		Entry("with a minAvailable of more than all", "{placementSelector: {}, minAvailable: 101%}", "spec.minAvailable", "from 0% to 100%"),
		Entry("with an unknown action for unavailable clusters", "{placementSelector: {}, unavailableClusters: Keep}", "spec.unavailableClusters", `"Keep"`),
		Entry("with a readiness without a source", "{placementSelector: {}, readiness: {}}", "spec.readiness.source"),
		Entry("with a source that is no name", "{placementSelector: {}, readiness: {source: Argo CD}}", "spec.readiness.source", "Argo CD"),
		Entry("with a label that is no key", "{placementSelector: {}, readiness: {source: argocd, placementLabel: a b}}", "spec.readiness.placementLabel", "a b"),
		Entry("with a readiness of In without values", "{placementSelector: {}, readiness: {source: argocd, selector: {matchExpressions: [{key: a, operator: In}]}}}",
			"readiness.selector.matchExpressions: In and NotIn need values"),
		Entry("with negative minReadySeconds", "{placementSelector: {}, minReadySeconds: -1}", "spec.minReadySeconds"),
		Entry("with an unknown action at the deadline", "{placementSelector: {}, onDeadline: Abort}", "spec.onDeadline", `"Abort"`),
		Entry("with a window of four fields", "{placementSelector: {}, windows: [{schedule: 0 22 * *, duration: 1h}]}", "spec.windows[0].schedule"),
		Entry("with a window without an end", "{placementSelector: {}, windows: [{schedule: 0 22 * * *, duration: 1 h}]}", "spec.windows[0].duration"),
		Entry("with 33 windows", "{placementSelector: {}, windows: ["+strings.Repeat("{schedule: 0 22 * * *, duration: 1h}, ", 33)+"]}", "spec.windows", "at most 32 items"),
		Entry("without history", "{placementSelector: {}, historyLimit: 0}", "spec.historyLimit"),
		Entry("with a history of 101", "{placementSelector: {}, historyLimit: 101}", "spec.historyLimit"),
	)

	It("is refused without spec", func(ctx SpecContext) {
		object := policy("{}")
		unstructured.RemoveNestedField(object.Object, "spec")
		Expect(hub.Create(ctx, object, client.DryRunAll)).To(MatchError(ContainSubstring("spec: Required")))
	})

	DescribeTable("gets defaults",
		func(ctx SpecContext, spec, want string) {
			object := policy(spec)
			Expect(hub.Create(ctx, object, client.DryRunAll)).To(Succeed())
			got, err := yaml.Marshal(object.Object["spec"])
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(MatchYAML(want))
		},
		Entry("of the whole namespace", "{placementSelector: {}}", `{placementSelector: {}, approvalTimeoutSeconds: 604800, stabilizationWindowSeconds: 0, maxUnavailable: 0, maxSurge: "25%", unavailableClusters: Remove, minReadySeconds: 0, onDeadline: Pause, progressDeadlineSeconds: 600, historyLimit: 10}`),
		Entry("of names", "{placements: [b, a], approval: Required}",
			`{placements: [b, a], approval: Required, approvalTimeoutSeconds: 604800, stabilizationWindowSeconds: 0, maxUnavailable: 0, maxSurge: "25%", unavailableClusters: Remove, minReadySeconds: 0, onDeadline: Pause, progressDeadlineSeconds: 600, historyLimit: 10}`),
		Entry("of labels", "{placementSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}, approvalTimeoutSeconds: 1, stabilizationWindowSeconds: 3600, maxUnavailable: 50%, maxSurge: 0, minAvailable: 80%, unavailableClusters: ReplaceFirst, readiness: {source: argocd, selector: {matchLabels: {a: b}}, placementLabel: p}, minReadySeconds: 7, windows: [{schedule: 0 22 * * 1-5, duration: 1h30m, timeZone: Europe/Berlin}], onDeadline: Continue, progressDeadlineSeconds: 1, historyLimit: 100}",
			"{placementSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}, approvalTimeoutSeconds: 1, stabilizationWindowSeconds: 3600, maxUnavailable: 50%, maxSurge: 0, minAvailable: 80%, unavailableClusters: ReplaceFirst, readiness: {source: argocd, selector: {matchLabels: {a: b}}, placementLabel: p}, minReadySeconds: 7, windows: [{schedule: 0 22 * * 1-5, duration: 1h30m, timeZone: Europe/Berlin}], onDeadline: Continue, progressDeadlineSeconds: 1, historyLimit: 100}"),
	)

	It("can change its selection from names to a selector, but not to both", func(ctx SpecContext) {
		object := policy("{placements: [a]}")
		create(ctx, object)
		edited := object.DeepCopy()
		Expect(unstructured.SetNestedMap(edited.Object, map[string]any{}, "spec", "placementSelector")).To(Succeed())
		Expect(hub.Update(ctx, edited)).To(MatchError(ContainSubstring("exactly one of placementSelector and placements is required")))
		unstructured.RemoveNestedField(edited.Object, "spec", "placements")
		Expect(hub.Update(ctx, edited)).To(Succeed())
	})

	It("can have 1,000 names, and is listed with approval, suspension, number of Placements, readiness and age", func(ctx SpecContext) {
		stored := &berthv1alpha1.DisruptionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "listed"},
			Spec:       berthv1alpha1.DisruptionPolicySpec{Placements: names(1_000, 63), Approval: berthv1alpha1.ApprovalRequired},
		}
		create(ctx, stored)
		stored.Status = berthv1alpha1.DisruptionPolicyStatus{Placements: 7, Conditions: []metav1.Condition{{
			Type: berthv1alpha1.PolicyReady, Status: metav1.ConditionTrue, Reason: "Selected", LastTransitionTime: metav1.Now(),
		}}}
		Expect(hub.Status().Update(ctx, stored)).To(Succeed())
		columns, row := printed(ctx, "disruptionpolicies", "listed")
		Expect(columns).To(HaveExactElements("Name", "Approval", "Suspend", "Placements", "Ready", "Reason", "Age"))
		Expect(row[:6]).To(HaveExactElements("listed", "Required", BeNil(), BeEquivalentTo(7), "True", "Selected"))
	})
})

func asUnstructured(object client.Object) *unstructured.Unstructured {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	converted := &unstructured.Unstructured{Object: content}
	converted.SetGroupVersionKind(berthv1alpha1.GroupVersion.WithKind("PlacementChange"))
	return converted
}

// printed is how kubectl get lists an object of Berth's own kinds: the columns and the object's
// row.
func printed(ctx context.Context, resource, name string) (columns []string, row []any) {
	GinkgoHelper()
	return hub.Row(ctx, "/apis/berth.dev/v1alpha1/namespaces/"+namespace+"/"+resource+"/"+name)
}
