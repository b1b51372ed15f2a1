package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
)

// relic is a Placement that an older schema let in.
type relic struct {
	name string
	edit func(*v1alpha1.Placement)
	// wantMisconfigured says whether its condition must name what is wrong. Some are merely
	// strange.
	wantMisconfigured bool
}

// relics are as many ways to be wrong.
func relics() []relic {
	predicate := func(match ...fixture.Match) func(*v1alpha1.Placement) {
		return func(pl *v1alpha1.Placement) {
			pl.Spec.Predicates = fixture.Placement("", "").Predicate(match...).Obj().Spec.Predicates
		}
	}
	prioritizer := func(c v1alpha1.ScoreCoordinate) func(*v1alpha1.Placement) {
		return func(pl *v1alpha1.Placement) {
			pl.Spec.PrioritizerPolicy.Configurations = []v1alpha1.PrioritizerConfig{{ScoreCoordinate: &c, Weight: new(int32(-99))}}
		}
	}
	return []relic{
		{"negative", func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(-3)) }, true},
		{strings.Repeat("n", 70), func(*v1alpha1.Placement) {}, true},
		{"operator", predicate(fixture.MatchLabelExpression("a", "Like", "b")), true},
		{"values", predicate(fixture.MatchLabelExpression("a", metav1.LabelSelectorOpIn)), true},
		{"key", predicate(fixture.MatchLabelExpression("not a key!", metav1.LabelSelectorOpExists)), true},
		{"claims", predicate(fixture.MatchClaim("a", "Unlike", "b")), true},
		{"cel", predicate(fixture.MatchCEL("managedCluster.metadata.name +")), true},
		{"mode", func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Mixed" }, true},
		{"toleration", func(pl *v1alpha1.Placement) {
			pl.Spec.Tolerations = []v1alpha1.Toleration{{Value: "x", TolerationSeconds: new(int64(-5))}}
		}, true},
		{"addon", prioritizer(v1alpha1.ScoreCoordinate{Type: "AddOn"}), true},
		{"builtin", prioritizer(v1alpha1.ScoreCoordinate{Type: "BuiltIn", BuiltIn: "Luck"}), true},
		{"percent", func(pl *v1alpha1.Placement) {
			pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString("many")
		}, true},
		{"skew", func(pl *v1alpha1.Placement) {
			pl.Spec.SpreadPolicy.SpreadConstraints = []v1alpha1.SpreadConstraintsTerm{{TopologyKey: "", TopologyKeyType: "Moon", MaxSkew: -4, WhenUnsatisfiable: "Panic"}}
		}, false},
		{"rate", func(pl *v1alpha1.Placement) { pl.Spec.SortBy, pl.Spec.ScoreRateLimit = "Mood", "soon" }, false},
		{"sets", func(pl *v1alpha1.Placement) { pl.Spec.ClusterSets = []string{"", strings.Repeat("s", 300), "no/set"} }, false},
	}
}

var _ = Describe("Stored objects of older schemas", func() {
	It("do not affect other objects", func(ctx SpecContext) {
		t := begin(ctx, "legacy")
		berth, proxy := t.controller()
		t.waitForSimulated(ctx)

		By("letting them in")
		t.loosely(ctx, func() { t.makeRelics(ctx) })

		By("deciding all the others meanwhile and after a restart")
		for range times(1, 3) {
			t.churn(ctx, false)
			before := proxy.Writes()
			Eventually(proxy.Writes).Should(BeNumerically(">", before+10))
			t.rest()
			t.expectRelics(ctx)
			Eventually(func() (string, error) { return t.unhurt(ctx) }).Should(BeEmpty())
			Expect(berth.Alive()).To(BeTrue())
			Expect(berth.Log()).NotTo(ContainSubstring("panic"))
			berth.Kill()
			t.injected["restart among relics"]++
			berth, proxy = t.controller()
		}
		t.forgetRelics(ctx)
		t.waitForSimulated(ctx)
		t.end("objects of older schemas", fmt.Sprintf("each of %d Placements kept to itself", len(relics())))
	}, NodeTimeout(5*time.Minute))
})

// loosely runs f while the CRDs have no rules but the fields' types.
func (t *trial) loosely(ctx context.Context, f func()) {
	GinkgoHelper()
	probe := fixture.Placement(t.Name, "probe").Number(-1).Obj()
	try := func() error { return hub.Create(ctx, probe.DeepCopy(), client.DryRunAll) }
	hub.ReplaceCRDs(ctx, loosen)
	Eventually(try).Should(Succeed())
	f()
	hub.ReplaceCRDs(ctx, func(string, *apiextensionsv1.JSONSchemaProps) {})
	Eventually(try).ShouldNot(Succeed())
}

func loosen(_ string, schema *apiextensionsv1.JSONSchemaProps) {
	schema.XValidations, schema.Minimum, schema.Maximum, schema.Enum, schema.Pattern = nil, nil, nil, nil, ""
	delete(schema.Properties, "metadata")
	schema.MinLength, schema.MaxLength, schema.MinItems, schema.MaxItems = nil, nil, nil, nil
}

// heavy is how many clusters share 5 MB of labels.
const heavy = 50

// makeRelics creates the Placements, and sets, bindings, clusters, scores and pages that are no
// better.
func (t *trial) makeRelics(ctx context.Context) {
	GinkgoHelper()
	create := func(kind string, o client.Object) {
		GinkgoHelper()
		Eventually(func() error { return hub.Create(ctx, o) }).Should(Succeed(), "%s %.20s", kind, o.GetName())
		t.injected[kind]++
	}
	for _, r := range relics() {
		pl := fixture.Placement(t.Name, r.name).Predicate(fixture.MatchLabel(faults.PoolLabel, "still")).Obj()
		r.edit(pl)
		create("Placement", pl)
	}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	strange := fixture.SelectorSet("legacy-strange", nil)
	strange.Spec.ClusterSelector.SelectorType = "Telepathy"
	for _, set := range []*v1alpha1.ManagedClusterSet{fixture.SelectorSet("legacy-broken", broken), strange, fixture.Set(strings.Repeat("s", 70))} {
		create("ManagedClusterSet", set)
		create("ManagedClusterSetBinding", fixture.Binding(t.Name, set.Name))
	}
	other := fixture.Binding(t.Name, "mine")
	other.Spec.ClusterSet = "theirs"
	create("ManagedClusterSetBinding", other)
	// A label's value has 63 characters at most, and a set's name is one: 50 clusters of 1,100
	// labels each are 5 MB.
	for i := range heavy {
		c := fixture.Cluster(fmt.Sprintf("legacy-heavy-%02d", i)).Set(t.Name)
		for j := range 1100 {
			c.Label(fmt.Sprintf("legacy.example.com/%04d-%s", j, strings.Repeat("k", 8)), strings.Repeat("v", 63))
		}
		create("ManagedCluster", c.Obj())
	}
	tainted := fixture.Cluster("legacy-tainted").Set(t.Name).Taint("", strings.Repeat("v", 2000), "NoSense").Obj()
	create("ManagedCluster", tainted)
	page := fixture.Page(t.Name, "legacy-page").Label(v1alpha1.DecisionGroupIndexLabel, "first").Obj()
	page.UID = ""
	create("PlacementDecision", page)
}

// forgetRelics leaves the CRDs' rules alone with what keeps them.
func (t *trial) forgetRelics(ctx context.Context) {
	GinkgoHelper()
	for _, r := range relics() {
		Expect(hub.Delete(ctx, fixture.Placement(t.Name, r.name).Obj())).To(Succeed())
	}
	for _, name := range []string{"legacy-broken", "legacy-strange", strings.Repeat("s", 70)} {
		Expect(hub.Delete(ctx, fixture.Binding(t.Name, name))).To(Succeed())
		Expect(hub.Delete(ctx, fixture.Set(name))).To(Succeed())
	}
	Expect(hub.Delete(ctx, fixture.Binding(t.Name, "mine"))).To(Succeed())
	Expect(hub.Delete(ctx, fixture.Cluster("legacy-tainted").Obj())).To(Succeed())
	faults.InParallel(heavy, func(i int) error { return hub.Delete(ctx, fixture.Cluster(fmt.Sprintf("legacy-heavy-%02d", i)).Obj()) })
	Expect(hub.Delete(ctx, fixture.Page(t.Name, "legacy-page").Obj())).To(Succeed())
}

// expectRelics wants each bad Placement to say what is wrong with it, or to be decided.
func (t *trial) expectRelics(ctx context.Context) {
	GinkgoHelper()
	for _, r := range relics() {
		misconfigured := func() (string, error) {
			return condition(ctx, t.Name, r.name, v1alpha1.PlacementConditionMisconfigured)
		}
		want := MatchRegexp("^(True|False) ")
		if r.wantMisconfigured {
			want = HavePrefix("True Misconfigured: ")
		}
		Eventually(misconfigured).Should(want, r.name)
	}
}

// unhurt is empty when the fleet's own Placements are decided, each for its present generation.
func (t *trial) unhurt(ctx context.Context) (string, error) {
	for _, w := range append(t.Watched(), faults.Watched{Namespace: t.Name, Name: quiet}) {
		text, err := condition(ctx, t.Name, w.Name, v1alpha1.PlacementConditionMisconfigured)
		if err != nil || !strings.HasPrefix(text, "False ") {
			return w.Name + " is not decided: " + text, err
		}
	}
	return "", nil
}
