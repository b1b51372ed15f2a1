package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// hush is in everything that is not for the author: names, labels, claims, taints, scores.
const hush = "hush4711"

// probes are specs that look beyond what is bound. "$THEIRS" stands for a set that the author has
// heard of. The author knows what the others' labels are called, and not what they say.
var probes = map[string]string{
	"all":                "{}",
	"more-than-there-is": "{numberOfClusters: 100}",
	"their-set":          "{clusterSets: [$THEIRS]}",
	"both-sets":          "{clusterSets: [$THEIRS, $MINE]}",
	"global":             "{clusterSets: [global]}",
	"label":              "{predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: owner, operator: Exists}]}}}]}",
	"claim":              "{predicates: [{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: owner, operator: Exists}]}}}]}",
	"name":               `{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.metadata.name != ''"]}}}]}`,
	// The error would quote the label.
	"conversion": `{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["int(managedCluster.metadata.labels[?'owner'].orValue('1')) > 0"]}}}]}`,
	"scores":     `{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.scores('usage').exists(s, s.value > 0)"]}}}]}`,
	"tolerating": "{tolerations: [{operator: Exists}]}",
	"spread":     "{numberOfClusters: 2, spreadPolicy: {spreadConstraints: [{topologyKey: owner, topologyKeyType: Label, whenUnsatisfiable: DoNotSchedule}]}}",
	"add-on":     "{prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {type: AddOn, addOn: {resourceName: usage, scoreName: cpu}}, weight: 1}]}}",
	"balance":    "{numberOfClusters: 1, prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {builtIn: Balance}, weight: 1}]}}",
}

// editor is a user with rights in one namespace only.
type editor struct {
	*tenant
	name   string
	client client.Client
}

var _ = Describe("A user who can edit one namespace", func() {
	It("reads and changes nothing outside that namespace", func(ctx SpecContext) {
		mine, theirs := newTenant(ctx), newTenant(ctx)
		mine.clusters(ctx, "a", "b", "c")
		theirs.fillQuietly(ctx)
		before, told := versions(ctx, theirs.namespace, "one", "all"), theirs.eventsOfPlacements(ctx, "one", "all")
		user := newUser(ctx, mine)

		By("reading elsewhere")
		user.cannotRead(ctx, theirs)
		By("binding what is not the author's to bind")
		user.cannotBind(ctx, theirs)
		By("looking for others' clusters")
		user.probe(ctx, theirs)
		By("writing what others' decisions are about")
		user.cannotDecide(ctx, theirs)
		user.forge(ctx, theirs)

		theirs.waitForDecision(ctx, theirs.full(hush+"-1"))
		text := user.readable(ctx)
		Expect(text).To(ContainSubstring(mine.full("a")))
		for _, secret := range []string{hush, theirs.full("")} {
			Expect(strings.Count(text, secret)).To(BeZero(), "%s: %s", secret, around(text, secret))
		}
		Expect(versions(ctx, theirs.namespace, "one", "all")).To(Equal(before))
		Expect(theirs.eventsOfPlacements(ctx, "one", "all")).To(Equal(told))
	})
})

// fillQuietly makes clusters that say hush wherever they can, and two Placements that choose among
// them.
func (t *tenant) fillQuietly(ctx context.Context) {
	GinkgoHelper()
	for i := range 3 {
		name := fmt.Sprintf("%s-%d", hush, i)
		t.apply(ctx,
			"{kind: ManagedCluster, metadata: {name: "+name+", labels: {owner: "+hush+", "+hush+".example.com/zone: z9}}, "+
				"spec: {hubAcceptsClient: true, taints: [{key: "+hush+", value: "+hush+", effect: PreferNoSelect}]}, "+
				"status: {allocatable: {cpu: \"64\"}, clusterClaims: [{name: owner, value: "+hush+"}]}}",
			"{kind: AddOnPlacementScore, metadata: {name: usage, namespace: "+name+"}, status: {scores: [{name: cpu, value: 90}]}}")
	}
	t.placement(ctx, "one", "{numberOfClusters: 1, prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {builtIn: Steady}, weight: 1}]}}")
	t.placement(ctx, "all", "{}")
	Eventually(t.published(ctx, "one")).Should(HaveLen(1))
	Eventually(t.published(ctx, "all")).Should(HaveLen(3))
	for _, name := range []string{"one", "all"} {
		Eventually(t.satisfied(ctx, name)).Should(Equal(allScheduled))
		Eventually(eventsOf(ctx, placementAt(ctx, t.key(name)))).Should(HaveLen(3))
	}
}

// eventsOfPlacements returns the events of Placements.
func (t *tenant) eventsOfPlacements(ctx context.Context, placements ...string) map[string][]event {
	GinkgoHelper()
	events := map[string][]event{}
	for _, name := range placements {
		events[name] = eventsOf(ctx, placementAt(ctx, t.key(name)))()
	}
	return events
}

// newUser has what the roles for people give an editor of the tenant's namespace, events included.
func newUser(ctx context.Context, t *tenant) *editor {
	GinkgoHelper()
	user := &editor{tenant: t, name: "author-" + t.namespace}
	user.client = hub.As(user.name)
	t.apply(ctx, "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: events}, "+
		"rules: [{apiGroups: ['', events.k8s.io], resources: [events], verbs: [get, list, watch]}]}")
	for role, kind := range map[string]string{"berth-viewer": "ClusterRole", "berth-editor": "ClusterRole", "events": "Role"} {
		user.grant(ctx, role, kind)
	}
	return user
}

func (u *editor) grant(ctx context.Context, role, kind string) {
	GinkgoHelper()
	u.apply(ctx, "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: "+role+"}, "+
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: "+kind+", name: "+role+"}, "+
		"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "+u.name+"}]}")
}

func (u *editor) cannotRead(ctx context.Context, theirs *tenant) {
	GinkgoHelper()
	Eventually(func() error { return u.client.List(ctx, &v1alpha1.PlacementList{}, client.InNamespace(u.namespace)) }).Should(Succeed())
	for _, list := range []client.ObjectList{
		&v1alpha1.ManagedClusterList{}, &v1alpha1.ManagedClusterSetList{}, &v1alpha1.AddOnPlacementScoreList{},
		&v1alpha1.PlacementList{}, &v1alpha1.PlacementDecisionList{}, &v1alpha1.ManagedClusterSetBindingList{},
	} {
		Expect(u.client.List(ctx, list)).To(beForbidden(), "%T of the hub", list)
		Expect(u.client.List(ctx, list, client.InNamespace(theirs.namespace))).To(beForbidden(), "%T of theirs", list)
	}
	Expect(u.client.Get(ctx, client.ObjectKey{Name: u.full("a")}, &v1alpha1.ManagedCluster{})).To(beForbidden(), "not even its own")
}

func (u *editor) cannotBind(ctx context.Context, theirs *tenant) {
	GinkgoHelper()
	// A new policy takes a moment to be enforced.
	bind := func() error {
		return u.client.Create(ctx, fixture.Binding(u.namespace, theirs.namespace), client.DryRunAll)
	}
	Eventually(bind).Should(And(beForbidden(), MatchError(ContainSubstring("may not bind ManagedClusterSet"))))
	Expect(u.client.Create(ctx, fixture.Binding(u.namespace, "global"))).To(beForbidden())
	Expect(u.client.Create(ctx, fixture.Binding(theirs.namespace, u.namespace))).To(beForbidden())
	alias := fixture.Binding(u.namespace, "alias")
	alias.Spec.ClusterSet = theirs.namespace
	Expect(u.client.Create(ctx, alias)).NotTo(Succeed())
	redirect := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"clusterSet":"`+theirs.namespace+`"}}`))
	Expect(u.client.Patch(ctx, fixture.Binding(u.namespace, u.namespace), redirect)).NotTo(Succeed())
	join := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+v1alpha1.ClusterSetLabel+`":"`+u.namespace+`"}}}`))
	Expect(u.client.Patch(ctx, theirs.cluster(hush+"-0"), join)).To(beForbidden())
}

// probe creates Placements that look as far as Placements can, and wants each to be decided on the
// author's clusters only.
func (u *editor) probe(ctx context.Context, theirs *tenant) {
	GinkgoHelper()
	names := strings.NewReplacer("$THEIRS", "rumour", "$MINE", u.namespace)
	// The name of a set is in what the author asks; that there is one must not be in what the
	// author is told.
	existing := strings.NewReplacer("$THEIRS", theirs.namespace, "$MINE", u.namespace)
	answers := map[string][]string{}
	for name, spec := range probes {
		u.ask(ctx, name, names.Replace(spec))
		Eventually(u.satisfied(ctx, name)).Should(MatchRegexp("^(True|False) "), name)
		answers[name] = []string{testhub.Must(u.satisfied(ctx, name)()), testhub.Must(u.misconfigured(ctx, name)()), strings.Join(u.published(ctx, name)(), " ")}
		for _, cluster := range published(ctx, u.key(name), "")() {
			Expect(cluster).To(HavePrefix(u.namespace+"-"), name)
		}
	}
	for name, spec := range probes {
		if spec == existing.Replace(spec) {
			continue
		}
		By("asking for the set that is there: " + name)
		u.ask(ctx, name, existing.Replace(spec))
		said := func() []string {
			text := []string{testhub.Must(u.satisfied(ctx, name)()), testhub.Must(u.misconfigured(ctx, name)()), strings.Join(u.published(ctx, name)(), " ")}
			for i := range text {
				text[i] = strings.ReplaceAll(text[i], theirs.namespace, "rumour")
			}
			return text
		}
		Eventually(said).Should(Equal(answers[name]), name)
		Expect(u.client.Delete(ctx, placementAt(ctx, u.key(name)))).To(Succeed())
	}
	Expect(answers["all"][2]).To(Equal("a b c"))
	Expect(answers["more-than-there-is"][2]).To(Equal("a b c"))
	for _, name := range []string{"their-set", "global", "label", "claim", "scores"} {
		Expect(answers[name][2]).To(BeEmpty(), name)
	}
}

// ask applies a Placement as the author.
func (u *editor) ask(ctx context.Context, name, spec string) {
	GinkgoHelper()
	object := testhub.Parse("{apiVersion: " + apiVersions["Placement"] + ", kind: Placement, metadata: {name: " + name + "}, spec: " + spec + "}")[0]
	object.SetNamespace(u.namespace)
	Expect(u.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("author"), client.ForceOwnership)).To(Succeed(), name)
}

// cannotDecide tries what would need more rights than an editor's.
func (u *editor) cannotDecide(ctx context.Context, theirs *tenant) {
	GinkgoHelper()
	for _, page := range slices.Concat(pagesOf(ctx, u.key("all")), pagesOf(ctx, theirs.key("all"))) {
		Expect(u.client.Delete(ctx, &page)).To(beForbidden())
		Expect(u.client.Update(ctx, &page)).To(beForbidden())
		Expect(u.client.Status().Update(ctx, &page)).To(beForbidden())
	}
	Expect(u.client.Create(ctx, fixture.Page(u.namespace, "forged").Of("one").Obj())).To(beForbidden())
	for _, t := range []*tenant{u.tenant, theirs} {
		for _, record := range recordsIn(ctx, t.namespace) {
			Expect(u.client.Patch(ctx, &record, client.RawPatch("application/merge-patch+json",
				[]byte(`{"spec":{"approval":{"decision":"Approved","by":"author"}}}`)))).To(beForbidden(), record.Name)
		}
	}
	// These are the author's to write, and concern the author's Placement alone.
	for annotation, value := range map[string]string{
		v1alpha1.PriorityAnnotation: "1000000",
		v1alpha1.QueueAnnotation:    "root." + theirs.namespace,
	} {
		pl := fixture.Placement(u.namespace, "all").Obj()
		Expect(u.client.Patch(ctx, pl, annotate(annotation, value))).To(Succeed(), annotation)
		remove := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, annotation)
		Expect(u.client.Patch(ctx, pl, client.RawPatch("application/merge-patch+json", []byte(remove)))).To(Succeed(), annotation)
	}
}

// recordsIn are the records of a namespace's changes.
func recordsIn(ctx context.Context, namespace string) []berthv1alpha1.PlacementChange {
	GinkgoHelper()
	records := &berthv1alpha1.PlacementChangeList{}
	Eventually(func() int {
		Expect(hub.List(ctx, records, client.InNamespace(namespace))).To(Succeed())
		return len(records.Items)
	}).ShouldNot(BeZero())
	return records.Items
}

// forge has the author, who may write pages of its own namespace now, write one as for another
// namespace's Placement.
func (u *editor) forge(ctx context.Context, theirs *tenant) {
	GinkgoHelper()
	u.apply(ctx, "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: pages}, "+
		"rules: [{apiGroups: ["+v1alpha1.GroupName+"], resources: [placementdecisions, placementdecisions/status], verbs: ['*']}]}")
	u.grant(ctx, "pages", "Role")
	owner := placementAt(ctx, theirs.key("one"))
	page := fixture.Page(u.namespace, "one-decision-1").Of("one").Obj()
	page.UID, page.ResourceVersion = "", ""
	page.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.GroupVersionV1Beta1.WithKind("Placement"))}
	Eventually(func() error { return u.client.Create(ctx, page) }).Should(Succeed())
	page.Status.Decisions = []v1alpha1.ClusterDecision{{ClusterName: u.full("a")}}
	Expect(u.client.Status().Update(ctx, page)).To(Or(Succeed(), WithTransform(apierrors.IsNotFound, BeTrue())), "the garbage collector may be faster")
	Expect(client.IgnoreNotFound(u.client.Delete(ctx, page))).To(Succeed())
}

// readable is all that the user may read.
func (u *editor) readable(ctx context.Context) string {
	GinkgoHelper()
	var text strings.Builder
	for resource, version := range map[string]schema.GroupVersion{
		"Placement": v1alpha1.GroupVersionV1Beta1, "PlacementDecision": v1alpha1.GroupVersionV1Beta1,
		"ManagedClusterSetBinding": v1alpha1.GroupVersionV1Beta2, "Event": {Group: "events.k8s.io", Version: "v1"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(version.WithKind(resource + "List"))
		Expect(u.client.List(ctx, list, client.InNamespace(u.namespace))).To(Succeed())
		data, err := json.Marshal(list)
		Expect(err).NotTo(HaveOccurred())
		text.Write(data)
	}
	return text.String()
}

func annotate(name, value string) client.Patch {
	return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, name, value))
}

func beForbidden() OmegaMatcher { return WithTransform(apierrors.IsForbidden, BeTrue()) }

// around is what a text says about a word.
func around(text, word string) string {
	before, after, _ := strings.Cut(text, word)
	return before[max(0, len(before)-200):] + word + after[:min(200, len(after))]
}
