package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

const boundClusters = 1000

func numbered(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%05d", prefix, i))
	}
	return all
}

// boundPlacement is the Placement p<i>, with a page.
func boundPlacement(i int, clusters ...string) []client.Object {
	name := fmt.Sprint("p", i)
	pl := fixture.Placement("ns", name).Obj()
	pl.Labels = map[string]string{"l": "x"}
	return []client.Object{pl, fixture.Page("ns", name+"-decision-1").Of(name).OwnedBy(name).Lists(clusters...).Obj()}
}

func editedPlacement(i, version int, set func(s *v1alpha1.PlacementSpec)) []client.Object {
	pl := fixture.Placement("ns", fmt.Sprint("p", i)).Generation(int64(version + 1)).Obj()
	set(&pl.Spec)
	return []client.Object{pl}
}

// selecting is a SelectionPolicy of p<i>.
func selecting(i, version int, set func(s *berthv1alpha1.SelectionPolicySpec)) client.Object {
	name := fmt.Sprint("p", i)
	p := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(version + 1)}}
	p.Spec.Placement = name
	set(&p.Spec)
	return p
}

// requiring is a selector with the label l and other requirements, which Placements fulfil.
func requiring(l string, others int) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{"l": l}}
	for i := range others {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	return s
}

func references(n int, s *metav1.LabelSelector) []berthv1alpha1.PlacementReference {
	return slices.Repeat([]berthv1alpha1.PlacementReference{{PlacementSelector: s}}, n)
}

func resources(n int, amount string) v1alpha1.ResourceList {
	all := v1alpha1.ResourceList{}
	for i := range n {
		all[v1alpha1.ResourceName(fmt.Sprint("r", i))] = resource.MustParse(amount)
	}
	return all
}

func honestCluster(i, version int) []client.Object {
	return []client.Object{cluster(boundClusters+i, version%2 == 1)}
}

func honestPlacement(i, _ int) []client.Object {
	return []client.Object{threeOf("ns", fmt.Sprint("p", i)).Obj()}
}

// honestPolicy is a Placement with a page and a policy that uses one feature as most do.
func honestPolicy(set func(s *berthv1alpha1.SelectionPolicySpec, i, version int)) func(i, version int) []client.Object {
	return func(i, version int) []client.Object {
		return append(boundPlacement(i, numbered("cluster-", 3)...), selecting(i, version, func(s *berthv1alpha1.SelectionPolicySpec) { set(s, i, version%2) }))
	}
}

func honestPage(i, version int) []client.Object {
	return boundPlacement(i, numbered("cluster-", 3+version%2)...)
}

func selectionBounds() map[string]bound {
	type spec = berthv1alpha1.SelectionPolicySpec
	of := func(row bound, clusters func(i int) int, honest, hostile func(s *spec, i, version int)) bound {
		row.honest, row.hostile = honestPolicy(honest), func(i, version int) []client.Object {
			return append(boundPlacement(i, numbered("cluster-", clusters(i)+version%2)...), selecting(i, version, func(s *spec) { hostile(s, i, version%2) }))
		}
		return row
	}
	named := func(s *spec, _, version int) { s.ClusterNames.Include = numbered("cluster-", 20+version) }
	together := func(s *spec, i, _ int) {
		s.Affinity.With = []berthv1alpha1.PlacementReference{{Placement: fmt.Sprint("p", i/2)}}
	}
	requested := func(s *spec, _, version int) { s.Requests = resources(2, fmt.Sprint(1+version)) }
	each := func(clusters int) func(int) int { return func(int) int { return clusters } }
	firstHasAll := func(i int) int {
		if i == 0 {
			return boundClusters
		}
		return 1
	}
	return map[string]bound{
		// The index by name takes as much as short names.
		"SelectionPolicy, names of clusters": of(bound{n: 4, most: 1.9, kept: 2600, event: 1, attempt: 1}, each(1), named, func(s *spec, i, version int) {
			s.ClusterNames.Include, s.ClusterNames.Exclude = numbered(fmt.Sprint("i", i, version), 10_000), numbered(fmt.Sprint("e", i, version), 10_000)
		}),
		"SelectionPolicy, affinity": of(bound{n: 200, kept: 35, event: 0.7, attempt: 0.5}, each(1), together, func(s *spec, _, version int) {
			s.Affinity.With, s.Affinity.ApartFrom = references(4, requiring("y", 9)), references(5+version, requiring("y", 9))
		}),
		"SelectionPolicy, with all": of(bound{n: 150, most: 1.3, kept: 10, event: 8, attempt: 0.5}, each(3), together, func(s *spec, _, version int) {
			s.Affinity.With, s.Affinity.ApartFrom, s.PreferenceWeight = references(1, requiring("x", 0)), references(1, requiring("z", 0)), new(int32(version))
		}),
		"SelectionPolicy, requests": of(bound{n: 1000, kept: 160, event: 20, attempt: 5}, each(boundClusters), requested, func(s *spec, _, version int) {
			s.Requests = resources(16, fmt.Sprint(1+version))
		}),
		// A short amount becomes a large one in memory.
		"SelectionPolicy, requests that never fit": of(bound{n: 1000, most: 1.6, kept: 15, event: 5, attempt: 5}, firstHasAll, requested, func(s *spec, i, version int) {
			if s.Requests = resources(16, "100"); i == 0 {
				s.Requests = resources(16, fmt.Sprint(1+200*version))
			}
			s.Requests["r15"] = resource.MustParse("1000")
		}),
	}
}

func bounds() map[string]bound {
	all := map[string]bound{
		"ManagedCluster, labels": {n: 1, kept: 150, event: 0.5, attempt: 0.5, honest: honestCluster, hostile: func(i, version int) []client.Object {
			c := cluster(i, false)
			for _, name := range numbered("", 100_000) {
				c.Labels[name] = fmt.Sprint(version)
			}
			return []client.Object{c}
		}},
		"ManagedCluster, all else": {n: 1, kept: 3000, event: 0.5, attempt: 0.5, honest: honestCluster, hostile: func(i, version int) []client.Object {
			c := cluster(i, false)
			c.Annotations = map[string]string{}
			for _, name := range numbered("", 20_000) {
				c.Annotations[name] = fmt.Sprint(version)
			}
			for _, name := range numbered("", 10_000) {
				c.Status.ManagedNamespaces = append(c.Status.ManagedNamespaces, v1alpha1.ClusterSetManagedNamespaceConfig{ManagedNamespaceConfig: v1alpha1.ManagedNamespaceConfig{Name: name}})
			}
			for _, name := range numbered("", 1000) {
				c.Status.ClusterClaims = append(c.Status.ClusterClaims, v1alpha1.ManagedClusterClaim{Name: name, Value: fmt.Sprint(version)})
			}
			c.Status.Allocatable, c.Status.Capacity = resources(1000, fmt.Sprint(version)), resources(1000, fmt.Sprint(version))
			return []client.Object{c}
		}},
		"AddOnPlacementScore": {n: caches.MaxScores, kept: 120, event: 0.5, attempt: 0.5, honest: func(i, version int) []client.Object {
			return []client.Object{fixture.Score("cluster-00001", fmt.Sprint("s", i)).Value("a", 1).Value("b", int32(version%2)).Obj()}
		}, hostile: func(i, version int) []client.Object {
			s := fixture.Score("cluster-00001", fmt.Sprint("s", i))
			for k := range 2000 {
				s = s.Value(fmt.Sprintf("%064d", k), int32(version%2))
			}
			return []client.Object{s.Obj()}
		}},
		"Placement, values": {n: 4, kept: 2600, event: 0.5, attempt: 0.5, honest: honestPlacement, hostile: func(i, version int) []client.Object {
			return editedPlacement(i, version, func(s *v1alpha1.PlacementSpec) {
				s.Predicates = slices.Repeat([]v1alpha1.ClusterPredicate{{}}, 100)
				for k := range s.Predicates {
					s.Predicates[k] = selectorPredicate(metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", version), Operator: metav1.LabelSelectorOpNotIn, Values: numbered("", 1000)})
				}
			})
		}},
		"Placement, requirements": {n: 4, kept: 2500, event: 7, attempt: 5, honest: honestPlacement, hostile: func(i, version int) []client.Object {
			return editedPlacement(i, version, func(s *v1alpha1.PlacementSpec) {
				for k := range 99 {
					var all []metav1.LabelSelectorRequirement
					for _, name := range numbered(fmt.Sprintf("%045d.%d.%d.", 0, k, version%2), 99) {
						all = append(all, metav1.LabelSelectorRequirement{Key: name, Operator: metav1.LabelSelectorOpDoesNotExist})
					}
					s.Predicates = append(s.Predicates, selectorPredicate(all...))
				}
			})
		}},
		"Placement, number": {n: 1000, kept: 50, event: 0.5, attempt: 0.5, honest: honestPlacement, hostile: func(i, version int) []client.Object {
			return editedPlacement(i, version, func(s *v1alpha1.PlacementSpec) {
				s.ClusterSets = append(numbered("none", v1alpha1.MaxClusterSets-1), "s1")
				s.Predicates = []v1alpha1.ClusterPredicate{selectorPredicate(metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i, version), Operator: metav1.LabelSelectorOpDoesNotExist})}
			})
		}},
		"PlacementDecision, of another controller": {n: 200, kept: 220, event: 0.5, attempt: 2, honest: honestPage, hostile: func(i, version int) []client.Object {
			p := fixture.Page("ns", fmt.Sprint("page", i)).Of("p0").ControlledBy("Other", "o").Lists(numbered(fmt.Sprint(i, ".", version%2, "."), 1000)...)
			return []client.Object{p.Obj()}
		}},
		"PlacementEviction": {n: 2000, kept: 2, event: 0.5, attempt: 2, honest: func(i, version int) []client.Object {
			return []client.Object{fixture.Eviction("ns", fmt.Sprint("e", i), fmt.Sprint("p", i), "cluster-00001").Created(fixture.Now.Add(time.Duration(version) * time.Second)).Valid(metav1.ConditionTrue).Obj()}
		}, hostile: func(i, version int) []client.Object {
			return []client.Object{fixture.Eviction("ns", fmt.Sprint("e", i), "p0", fmt.Sprint("c", i, version)).Created(fixture.Now).Valid(metav1.ConditionTrue).Obj()}
		}},
		"DisruptionPolicy": {n: 500, kept: 12, event: 0.5, attempt: 0.5, honest: func(i, _ int) []client.Object {
			return append(boundPlacement(i, "cluster-00001"), fixture.ApprovalPolicy("ns", fmt.Sprint("d", i), fmt.Sprint("p", i)))
		}, hostile: func(i, version int) []client.Object {
			p := fixture.ApprovalPolicy("ns", fmt.Sprint("d", i))
			p.Spec.PlacementSelector, p.Spec.Approval, p.Spec.HistoryLimit = requiring("x", 10), "", int32(1+version%2)
			p.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "source", Selector: requiring("x", 10)}
			return append(boundPlacement(i, "cluster-00001"), p)
		}},
		"PlacementExplanation": {n: berthv1alpha1.MaxKeptExplanations, kept: 2, event: 0.5, attempt: 0.5, honest: func(i, _ int) []client.Object {
			return []client.Object{&berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("e", i)}}}
		}, hostile: func(i, _ int) []client.Object {
			e := &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("e", i), Annotations: map[string]string{}}}
			for _, name := range numbered("", 1000) {
				e.Annotations[name], e.Spec.Clusters = "", append(e.Spec.Clusters, name)
			}
			return []client.Object{e}
		}},
	}
	for _, more := range []map[string]bound{selectionBounds(), recordBounds(), hubBounds(), readinessBounds()} {
		maps.Copy(all, more)
	}
	return all
}

func selectorPredicate(all ...metav1.LabelSelectorRequirement) (p v1alpha1.ClusterPredicate) {
	p.RequiredClusterSelector.LabelSelector.MatchExpressions = all
	return p
}

// recordOf is a record of p<owner>, as Berth writes it.
func recordOf(owner, revision int, before, after []string, phase berthv1alpha1.ChangePhase) client.Object {
	pl := fixture.Placement("ns", fmt.Sprint("p", owner)).Obj()
	at := metav1.NewTime(fixture.Now.Truncate(time.Second))
	record := changes.NewRecord(pl, 0, int64(revision), changes.NewChange(before, after))
	record.UID, record.ResourceVersion = types.UID(fmt.Sprintf("0e6f3e0b-32a7-4f7c-8f0b-%012d", revision)), fmt.Sprint(revision)
	record.Status = berthv1alpha1.PlacementChangeStatus{Phase: phase, StartTime: &at, PermittedTime: &at, CompletionTime: &at}
	return record
}

func recordBounds() map[string]bound {
	const history = 100
	long := func(kind string, version int) []string {
		return numbered(fmt.Sprintf("%s%d%055d", kind, version, 0), boundClusters)
	}
	return map[string]bound{
		"PlacementChange, ended": {n: history, kept: 12, event: 1, attempt: 5, honest: func(i, version int) []client.Object {
			return []client.Object{recordOf(0, 1+i+history*version, numbered("cluster-", 3), numbered("cluster-", 4), berthv1alpha1.PhasePublished)}
		}, hostile: func(i, version int) []client.Object {
			return []client.Object{recordOf(0, 1+i+history*version, long("a", i%2), long("a", 1-i%2), berthv1alpha1.PhasePublished)}
		}},
		"PlacementChange, open": {n: history, kept: 340, event: 0.5, attempt: 2, honest: func(i, version int) []client.Object {
			return append(boundPlacement(i, "cluster-00001"), recordOf(i, 1+version, numbered("cluster-", 1), numbered("cluster-", 3), berthv1alpha1.PhaseHeld))
		}, hostile: func(i, version int) []client.Object {
			return append(boundPlacement(i, "cluster-00001"), recordOf(i, 1+version, long("a", i), long("b", i), berthv1alpha1.PhaseHeld))
		}},
	}
}

// hubBounds are of the kinds that administrators and agents write for the hub.
func hubBounds() map[string]bound {
	annotated := func(o client.Object, values int) client.Object {
		all := map[string]string{}
		for _, name := range numbered("", values) {
			all[name] = strings.Repeat("x", 1000)
		}
		o.SetAnnotations(all)
		return o
	}
	lease := func(i, version int) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("cluster-%05d", i), Name: v1alpha1.ManagedClusterLeaseName}}
		l.Spec.RenewTime = new(metav1.NewMicroTime(fixture.Now.Add(time.Duration(version) * time.Second)))
		return l
	}
	namespace := func(i int) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
	}
	selecting := func(i int, requirements, values, version int) []client.Object {
		s := &metav1.LabelSelector{}
		for k := range requirements {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", k, version), Operator: metav1.LabelSelectorOpNotIn, Values: numbered("", values)})
		}
		return []client.Object{fixture.SelectorSet(fmt.Sprint("set", i), s)}
	}
	return map[string]bound{
		"ManagedClusterSet": {n: 20, kept: 2500, event: 1, attempt: 0.5,
			honest:  func(i, version int) []client.Object { return selecting(i, 1, 1, version%2) },
			hostile: func(i, version int) []client.Object { return selecting(i, 100, 1000, version%2) }},
		"ManagedClusterSetBinding": {n: 5000, kept: 2, event: 0.1, attempt: 0.5, honest: func(i, _ int) []client.Object {
			return []client.Object{fixture.Binding(fmt.Sprint("n", i), "s1")}
		}, hostile: func(i, version int) []client.Object {
			return []client.Object{annotated(fixture.Binding("ns", fmt.Sprint("none", i, ".", version)), 5)}
		}},
		"Lease": {n: 1000, kept: 1, event: 0.1, attempt: 0.5, honest: func(i, version int) []client.Object {
			return []client.Object{lease(i, version)}
		}, hostile: func(i, version int) []client.Object {
			l := lease(i, version)
			l.Spec.HolderIdentity = new(strings.Repeat("x", 10_000))
			return []client.Object{annotated(l, 100)}
		}},
		"Namespace": {n: 100, kept: 300, event: 0.1, attempt: 0.5,
			honest:  func(i, _ int) []client.Object { return []client.Object{namespace(i)} },
			hostile: func(i, _ int) []client.Object { return []client.Object{annotated(namespace(i), 250)} }},
	}
}

func application(i, cluster, labels int, health string) client.Object {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"spec":   map[string]any{"destination": map[string]any{"name": fmt.Sprintf("cluster-%05d", cluster)}},
		"status": map[string]any{"health": map[string]any{"status": health}, "sync": map[string]any{"status": "Synced"}},
	}}
	u.SetNamespace("ns")
	u.SetName(fmt.Sprint("app", i))
	all := map[string]string{"l": "x"}
	for _, name := range numbered("", labels) {
		all[name] = fmt.Sprintf("%055d", i)
	}
	u.SetLabels(all)
	return u
}

func readinessBounds() map[string]bound {
	health := []string{"Healthy", "Degraded"}
	waiting := func(i int) []client.Object {
		if i >= berthv1alpha1.MaxPoliciesPerPlacement {
			return nil
		}
		p := fixture.ApprovalPolicy("ns", fmt.Sprint("d", i), "p0")
		p.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "argocd", Selector: requiring("x", i)}
		if i > 0 {
			return []client.Object{p}
		}
		return append(boundPlacement(0, numbered("cluster-", boundClusters)...), p)
	}
	return map[string]bound{
		"objects of readiness sources": {n: 5_000, kept: 5, event: 0.5, attempt: 2.5, honest: func(i, version int) []client.Object {
			return append(waiting(i), application(i, i%boundClusters, 1, health[version%2]))
		}, hostile: func(i, version int) []client.Object {
			return append(waiting(i), application(i, 1, 65, health[version%2]))
		}},
	}
}
