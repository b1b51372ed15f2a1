package property

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// grownLists has the case that grows each list of the kinds that a tenant, or a cluster, writes.
// Lists of cluster selectors are in grownSelectors.
var grownLists = map[string]string{
	"AddOnPlacementScore.status.scores":                            "scores of an AddOnPlacementScore",
	"DisruptionPolicy.spec.placements":                             "Placements that DisruptionPolicies name",
	"DisruptionPolicy.spec.windows":                                "windows of a DisruptionPolicy",
	"ManagedCluster.spec.taints":                                   "taints of clusters",
	"ManagedCluster.status.clusterClaims":                          "claims of clusters",
	"Placement.spec.clusterSets":                                   "clusterSets",
	"Placement.spec.decisionStrategy.groupStrategy.decisionGroups": "decisionGroups",
	"Placement.spec.predicates":                                    "predicates",
	"Placement.spec.prioritizerPolicy.configurations":              "prioritizers",
	"Placement.spec.spreadPolicy.spreadConstraints":                "spreadConstraints",
	"Placement.spec.tolerations":                                   "tolerations",
	"PlacementChange.spec.added":                                   "names of records",
	"PlacementChange.spec.forced":                                  "names of records",
	"PlacementChange.spec.removals":                                "removals of records",
	"PlacementChange.spec.removed":                                 "names of records",
	"PlacementChange.spec.returned":                                "names of records",
	"SelectionPolicy.spec.affinity.apartFrom":                      "affinity",
	"SelectionPolicy.spec.affinity.with":                           "affinity to others",
	"SelectionPolicy.spec.clusterNames.exclude":                    "excluded names",
	"SelectionPolicy.spec.clusterNames.include":                    "included names",
	"SelectionPolicy.spec.groups":                                  "groups",
	"SelectionPolicy.spec.preferences":                             "preferences",
	"SelectionPolicy.spec.tiers":                                   "tiers",

	"DisruptionPolicy.spec.placementSelector.matchExpressions":                              "requirements of DisruptionPolicies",
	"DisruptionPolicy.spec.placementSelector.matchExpressions[].values":                     "values of DisruptionPolicies",
	"DisruptionPolicy.spec.readiness.selector.matchExpressions":                             "requirements of readiness",
	"DisruptionPolicy.spec.readiness.selector.matchExpressions[].values":                    "values of readiness",
	"SelectionPolicy.spec.affinity.apartFrom[].placementSelector.matchExpressions":          "requirements of affinity",
	"SelectionPolicy.spec.affinity.apartFrom[].placementSelector.matchExpressions[].values": "values of affinity",
	"SelectionPolicy.spec.affinity.with[].placementSelector.matchExpressions":               "requirements of affinity",
	"SelectionPolicy.spec.affinity.with[].placementSelector.matchExpressions[].values":      "values of affinity",
}

// grownSelectors are the cases for the lists of a cluster selector, by the end of the path.
var grownSelectors = map[string]string{
	"Selector.matchExpressions":          "requirements of a predicate",
	"Selector.matchExpressions[].values": "values of a requirement",
	"celSelector.celExpressions":         "CEL expressions",
}

// unreadLists are not part of a decision.
var unreadLists = []string{"ManagedCluster.spec.managedClusterClientConfigs", "ManagedCluster.status.managedNamespaces"}

// TestEveryListIsGrown: each list of a tenant's kind has a case in TestWorkGrowsLinearly.
func TestEveryListIsGrown(t *testing.T) {
	cases := growthCases()
	crds, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range crds {
		for _, version := range c.Spec.Versions {
			for _, list := range listsOf(version.Schema.OpenAPIV3Schema, c.Spec.Names.Kind) {
				if !writtenByTenants(list) {
					continue
				}
				found[list] = true
				if name := growthCaseOf(list); cases[name].objects == nil {
					t.Errorf("no case grows %s: %q", list, name)
				}
			}
		}
	}
	for list := range grownLists {
		if !found[list] {
			t.Errorf("no kind has the list %s", list)
		}
	}
}

func growthCaseOf(list string) string {
	if name := grownLists[list]; name != "" {
		return name
	}
	for _, end := range slices.Sorted(maps.Keys(grownSelectors)) {
		if strings.HasSuffix(list, end) {
			return grownSelectors[end]
		}
	}
	return ""
}

// writtenByTenants leaves out PlacementExplanations: their template is a Placement of limited size.
func writtenByTenants(list string) bool {
	kind, path, _ := strings.Cut(list, ".")
	if slices.ContainsFunc(unreadLists, func(unread string) bool { return strings.HasPrefix(list, unread) }) || path == "status.conditions" {
		return false
	}
	switch kind {
	case "AddOnPlacementScore", "ManagedCluster":
		return true
	case "Placement", "PlacementChange", "PlacementEviction", "DisruptionPolicy", "SelectionPolicy":
		return strings.HasPrefix(path, "spec.")
	}
	return false
}

func listsOf(schema *apiextensionsv1.JSONSchemaProps, path string) (all []string) {
	for name, property := range schema.Properties {
		all = append(all, listsOf(&property, path+"."+name)...)
	}
	if schema.Items != nil {
		all = append(append(all, path), listsOf(schema.Items.Schema, path+"[]")...)
	}
	return all
}

// manyPolicies is a case of as many DisruptionPolicies as may select a Placement.
func manyPolicies(limit int, set func(spec *berthv1alpha1.DisruptionPolicySpec, size int)) growing {
	return growing{limit, func(size int) (all []client.Object) {
		for i := range berthv1alpha1.MaxPoliciesPerPlacement {
			policy := growthPolicy(i, 0)
			set(&policy.Spec, size)
			all = append(all, policy)
		}
		return all
	}}
}

func selectionCase(limit int, set func(spec *berthv1alpha1.SelectionPolicySpec, size int)) growing {
	return growing{limit, func(size int) []client.Object { return []client.Object{selectionOf(size, set)} }}
}

func selectionOf(size int, set func(spec *berthv1alpha1.SelectionPolicySpec, size int)) *berthv1alpha1.SelectionPolicy {
	policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "s"}}
	policy.Spec.Placement = "p"
	set(&policy.Spec, size)
	return policy
}

// requirements has as many requirements as size, valuesOf one requirement of as many values. Both
// match what has no such labels.
func requirements(size int) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for i := range size {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	return s
}

func valuesOf(size int) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "l", Operator: metav1.LabelSelectorOpNotIn, Values: names("v", size)}}}
}

func apartFrom(s *metav1.LabelSelector) []berthv1alpha1.PlacementReference {
	return []berthv1alpha1.PlacementReference{{PlacementSelector: s}}
}

// otherPlacements are of the same namespace. They have the label l and a page.
func otherPlacements(size int) (all []client.Object) {
	for i := range size {
		name := fmt.Sprint("other", i)
		pl := fixture.Placement("ns", name).Obj()
		pl.Labels = map[string]string{"l": "x"}
		all = append(all, pl, fixture.Page("ns", name+"-decision-1").Of(name).OwnedBy(name).Lists("c39").Obj())
	}
	return all
}

func recordsOf(count int, set func(spec *berthv1alpha1.PlacementChangeSpec)) (all []client.Object) {
	for i := range count {
		record := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprint("p-", i+1), UID: types.UID(fmt.Sprint("r", i)), ResourceVersion: strconv.Itoa(i + 1),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Placement", Name: "p", UID: "ns/p", Controller: new(true)}},
		}}
		record.Spec.Placement, record.Spec.Revision, record.Status.Phase = "p", int64(i+1), berthv1alpha1.PhasePublished
		set(&record.Spec)
		all = append(all, record)
	}
	return all
}

// objectsOfSource is the case, and its readiness source, that grows the number of its objects.
const objectsOfSource = "objects"

func readyObjects(size int) (all []inventory.ReadyObject) {
	for i := range size {
		all = append(all, inventory.ReadyObject{
			Key: inventory.Key{Namespace: "ns", Name: fmt.Sprint("o", i)}, Labels: map[string]string{"l": strconv.Itoa(i)}, Cluster: fmt.Sprint("c", i%growthClusters), Ready: true,
		})
	}
	return all
}

// listCases grow lists inside other lists, and numbers of objects that one Placement reads.
func listCases() map[string]growing {
	type disruption = berthv1alpha1.DisruptionPolicySpec
	type selection = berthv1alpha1.SelectionPolicySpec
	readiness := func(source string, s *metav1.LabelSelector) *berthv1alpha1.ReadinessRequirement {
		return &berthv1alpha1.ReadinessRequirement{Source: source, Selector: s}
	}
	const most, short = v1alpha1.MaxRequirementValues, berthv1alpha1.MaxPlacementRequirements
	return map[string]growing{
		"requirements of DisruptionPolicies": manyPolicies(short, func(s *disruption, size int) { s.PlacementSelector = requirements(size) }),
		"values of DisruptionPolicies":       manyPolicies(most, func(s *disruption, size int) { s.PlacementSelector = valuesOf(size) }),
		"requirements of readiness":          manyPolicies(short, func(s *disruption, size int) { s.Readiness = readiness("cluster", requirements(size)) }),
		"values of readiness":                manyPolicies(most, func(s *disruption, size int) { s.Readiness = readiness("cluster", valuesOf(size)) }),
		objectsOfSource:                      manyPolicies(2000, func(s *disruption, _ int) { s.Readiness = readiness(objectsOfSource, requirements(1)) }),
		"Placements that DisruptionPolicies name": manyPolicies(1000, func(s *disruption, size int) {
			s.PlacementSelector, s.Placements = nil, append(names("n", size-1), "p")
		}),
		"requirements of affinity": selectionCase(short, func(s *selection, size int) { s.Affinity.ApartFrom = apartFrom(requirements(size)) }),
		"values of affinity":       selectionCase(most, func(s *selection, size int) { s.Affinity.ApartFrom = apartFrom(valuesOf(size)) }),
		"affinity to others": selectionCase(16, func(s *selection, size int) {
			for i := range size {
				s.Affinity.With = append(s.Affinity.With, berthv1alpha1.PlacementReference{Placement: fmt.Sprint("other", i)})
			}
		}),
		"Placements that affinity selects": {1000, func(size int) []client.Object {
			return append(otherPlacements(size), selectionOf(size, func(s *selection, _ int) {
				s.Affinity.ApartFrom = apartFrom(&metav1.LabelSelector{MatchLabels: map[string]string{"l": "x"}})
			}))
		}},
		"requirements of a predicate": {v1alpha1.MaxRequirements, func(size int) []client.Object {
			pl := fixture.Placement("ns", "p").Obj()
			pl.Spec.Predicates = make([]v1alpha1.ClusterPredicate, 1)
			pl.Spec.Predicates[0].RequiredClusterSelector.LabelSelector = *requirements(size)
			return []client.Object{pl}
		}},
		"CEL expressions": {v1alpha1.MaxCelExpressions, func(size int) []client.Object {
			pl := fixture.Placement("ns", "p").Obj()
			pl.Spec.Predicates = make([]v1alpha1.ClusterPredicate, 1)
			cel := &pl.Spec.Predicates[0].RequiredClusterSelector.CelSelector
			for i := range size {
				cel.CelExpressions = append(cel.CelExpressions, fmt.Sprintf("managedCluster.metadata.name != 'x%d'", i))
			}
			return []client.Object{pl}
		}},
		"clusters on a page, one again and again": {1000, func(size int) []client.Object {
			return []client.Object{fixture.Page("ns", "more").Of("p").ControlledBy("Other", "o").Lists(append(names("x", size/2), slices.Repeat([]string{"c0"}, size/2)...)...).Obj()}
		}},
		"names of records": {berthv1alpha1.MaxListedClusters, func(size int) []client.Object {
			return recordsOf(5, func(s *berthv1alpha1.PlacementChangeSpec) {
				s.Added, s.Removed, s.Forced, s.Returned = names("a", size), names("r", size), names("r", size), names("b", size)
			})
		}},
		"removals of records": {100, func(size int) []client.Object {
			return recordsOf(20, func(s *berthv1alpha1.PlacementChangeSpec) { s.Removals = make([]berthv1alpha1.MergedRemoval, size) })
		}},
		"taints and tolerations": {v1alpha1.MaxTolerations, func(size int) (all []client.Object) {
			pl := fixture.Placement("ns", "p")
			for i := range size {
				pl = pl.Toleration(fmt.Sprint("t", i), v1alpha1.TolerationOpEqual, "x", v1alpha1.TaintEffectNoSelect)
			}
			for c := range growthClusters {
				b := fixture.Cluster(fmt.Sprint("c", c)).Set("s1").Label("l", strconv.Itoa(c))
				for i := range size {
					b = b.Taint(fmt.Sprint("t", i), "x", v1alpha1.TaintEffectNoSelect)
				}
				all = append(all, b.Obj())
			}
			return append(all, pl.Obj())
		}},
	}
}
