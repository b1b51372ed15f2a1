package api

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/testhub"
)

// stored is an object that was stored before the rules that refuse it.
type stored struct {
	about, body string
	// specPatch changes another part of the spec; none where the spec has no other part.
	specPatch string
	// worse changes the bad part into another bad one. It is refused.
	worse string
}

var storedBad = []stored{
	{"Placement with a negative count", placementNamed("negative", "{numberOfClusters: -1}"),
		`{"spec": {"clusterSets": ["s"]}}`, `{"spec": {"numberOfClusters": -2}}`},
	{"Placement with a long name", placementNamed(strings.Repeat("n", 70), "{}"),
		`{"spec": {"numberOfClusters": 2}}`, ""},
	{"Placement with a senseless toleration", placementNamed("toleration", "{tolerations: [{value: b}]}"),
		`{"spec": {"numberOfClusters": 2}}`, `{"spec": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}}`},
	{"Placement with an unknown toleration operator", placementNamed("operator", "{tolerations: [{key: a, operator: Like}]}"),
		`{"spec": {"numberOfClusters": 2}}`, `{"spec": {"tolerations": [{"key": "b", "operator": "Like"}]}}`},
	{"Placement with an unknown mode", placementNamed("mode", "{prioritizerPolicy: {mode: Mixed}}"),
		`{"spec": {"numberOfClusters": 2}}`, `{"spec": {"prioritizerPolicy": {"mode": "Shaken"}}}`},
	{"Placement with an AddOn coordinate without addOn",
		placementNamed("addon", "{prioritizerPolicy: {configurations: [{scoreCoordinate: {type: AddOn}}]}}"),
		`{"spec": {"numberOfClusters": 2}}`, `{"spec": {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"type": "AddOn"}, "weight": 3}]}}}`},
	{"Placement with a negative tolerationSeconds", placementNamed("seconds", "{tolerations: [{key: a, tolerationSeconds: -5}]}"),
		`{"spec": {"numberOfClusters": 2}}`, `{"spec": {"tolerations": [{"key": "a", "tolerationSeconds": -6}]}}`},
	{"Placement with builtIn and addOn", placementNamed("both",
		"{prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady, addOn: {resourceName: r, scoreName: s}}}]}}"),
		`{"spec": {"numberOfClusters": 2}}`,
		`{"spec": {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Balance", "addOn": {"resourceName": "r", "scoreName": "s"}}}]}}}`},
	{"Placement with an unknown selector operator",
		placementNamed("selector", "{predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Like}]}}}]}"),
		`{"spec": {"numberOfClusters": 2}}`,
		`{"spec": {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Unlike"}]}}}]}}`},
	{"Placement with too many cluster sets", placementNamed("sets", "{clusterSets: ["+strings.Repeat("s, ", 1_001)+"s]}"),
		`{"spec": {"numberOfClusters": 2}}`, `{"spec": {"clusterSets": [` + strings.Repeat(`"t", `, 1_001) + `"t"]}}`},
	{"Placement with too many tolerations", placementNamed("tolerations", "{tolerations: ["+strings.Repeat("{key: a}, ", 256)+"{key: b}]}"),
		`{"spec": {"numberOfClusters": 2}}`, `{"spec": {"tolerations": [` + strings.Repeat(`{"key": "a"}, `, 256) + `{"key": "c"}]}}`},
	{"ManagedClusterSet with a long name", "{kind: ManagedClusterSet, metadata: {name: " + strings.Repeat("s", 70) + "}}",
		`{"spec": {"clusterSelector": {"selectorType": "LabelSelector"}}}`, ""},
	{"ManagedClusterSet with a labelSelector and without selectorType",
		"{kind: ManagedClusterSet, metadata: {name: exclusive}, spec: {clusterSelector: {labelSelector: {matchLabels: {a: b}}}}}",
		`{"spec": {"managedNamespaces": [{"name": "n"}]}}`,
		`{"spec": {"clusterSelector": {"labelSelector": {"matchLabels": {"a": "c"}}}}}`},
	{"ManagedClusterSet with an unknown selector operator",
		"{kind: ManagedClusterSet, metadata: {name: selector}, spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}}}",
		`{"spec": {"managedNamespaces": [{"name": "n"}]}}`,
		`{"spec": {"clusterSelector": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Unlike"}]}}}}`},
	{"ManagedClusterSetBinding of another set", "{kind: ManagedClusterSetBinding, metadata: {name: mine}, spec: {clusterSet: theirs}}",
		"", `{"spec": {"clusterSet": "others"}}`},
	{"ManagedClusterSetBinding of no set", "{kind: ManagedClusterSetBinding, metadata: {name: none}}",
		"", `{"spec": {"clusterSet": "others"}}`},
}

func placementNamed(name, spec string) string {
	return "{kind: Placement, metadata: {name: " + name + "}, spec: " + spec + "}"
}

var _ = Describe("A stored object that a stricter CRD would refuse", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		hub.ReplaceCRDs(ctx, loosen)
		for _, s := range storedBad {
			object := parse(s.body, storageVersion(s))
			Eventually(func() error { return hub.Create(ctx, object.DeepCopy()) }, soon).Should(Succeed(), s.about)
			testhub.DeleteAfterwards(hub, object)
		}
		hub.ReplaceCRDs(ctx, func(string, *apiextensionsv1.JSONSchemaProps) {})
		for _, s := range storedBad {
			fresh := parse(s.body, storageVersion(s))
			fresh.SetName("z" + fresh.GetName())
			Eventually(func() error { return hub.Create(ctx, fresh.DeepCopy(), client.DryRunAll) }, soon).Should(HaveOccurred(), s.about)
		}
	})

	for _, s := range storedBad {
		Context("a "+s.about, func() {
			patch := func(ctx SpecContext, version, body string) error {
				return testhub.Patch(ctx, hub, parse(s.body, version), body)
			}

			It("accepts a condition", func(ctx SpecContext) {
				for _, version := range versionsOf(parse(s.body, "").GetKind()) {
					object := parse(s.body, version)
					Expect(hub.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
					Expect(unstructured.SetNestedSlice(object.Object, []any{map[string]any{
						"type": "T", "status": "False", "reason": "R", "message": "by " + version, "lastTransitionTime": "2026-01-01T00:00:00Z",
					}}, "status", "conditions")).To(Succeed())
					Expect(hub.Status().Update(ctx, object)).To(Succeed(), version)
					Expect(hub.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
					conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
					Expect(err).NotTo(HaveOccurred())
					Expect(conditions).To(HaveExactElements(HaveKeyWithValue("message", "by "+version)))
				}
			})

			It("can be labelled", func(ctx SpecContext) {
				for _, version := range versionsOf(parse(s.body, "").GetKind()) {
					Expect(patch(ctx, version, `{"metadata": {"labels": {"by": "`+version+`"}}}`)).To(Succeed(), version)
				}
			})

			if s.specPatch != "" {
				It("can be changed in other fields", func(ctx SpecContext) {
					Expect(patch(ctx, storageVersion(s), s.specPatch)).To(Succeed())
				})
			}
			if s.worse != "" {
				It("cannot get another invalid field", func(ctx SpecContext) {
					Expect(patch(ctx, storageVersion(s), s.worse)).NotTo(Succeed())
				})
			}
		})
	}
})

// storageVersion is the version the object is stored in.
func storageVersion(s stored) string {
	return versionsOf(parse(s.body, "").GetKind())[0]
}

// loosen takes from a schema the rules that Berth adds to the API it speaks.
func loosen(_ string, schema *apiextensionsv1.JSONSchemaProps) {
	schema.XValidations, schema.Minimum, schema.Enum, schema.MaxItems = nil, nil, nil, nil
	delete(schema.Properties, "metadata")
}
