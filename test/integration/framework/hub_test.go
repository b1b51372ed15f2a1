package framework

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// poolLabel says whether a cluster is selectable.
const poolLabel = "pool"

var inPool = fixture.MatchLabel(poolLabel, "in")

// team is a namespace with a set of clusters of its own, both of one name.
type team string

var teams atomic.Int32

// newTeam makes a team, and removes what it has after the spec.
func newTeam(ctx context.Context) team {
	GinkgoHelper()
	t := team(fmt.Sprintf("team-%d", teams.Add(1)))
	makeNamespace(ctx, string(t))
	Expect(hub.Create(ctx, fixture.Set(string(t)))).To(Succeed())
	Expect(hub.Create(ctx, fixture.Binding(string(t), string(t)))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		// A hub without other controllers collects nothing.
		for _, kind := range []client.Object{&v1alpha1.Placement{}, &v1alpha1.PlacementDecision{}} {
			Expect(hub.DeleteAllOf(ctx, kind, client.InNamespace(string(t)))).To(Succeed())
		}
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.ManagedCluster{}, client.MatchingLabels{v1alpha1.ClusterSetLabel: string(t)})).To(Succeed())
	})
	return t
}

func makeNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

// names are those of the team's clusters from number a up to b; b is none of them.
func (t team) names(a, b int) []string {
	names := []string{}
	for i := a; i < b; i++ {
		names = append(names, fmt.Sprintf("%s-%03d", t, i))
	}
	return names
}

// clusters creates clusters 0 to n-1 in the pool. How an i-th one differs is up to the caller.
func (t team) clusters(ctx context.Context, n int, differ ...func(i int, b fixture.ClusterBuilder) fixture.ClusterBuilder) {
	GinkgoHelper()
	inParallel(n, func(i int) error {
		b := fixture.Cluster(t.names(i, i+1)[0]).Set(string(t)).Label(poolLabel, "in")
		for _, d := range differ {
			b = d(i, b)
		}
		return hub.Create(ctx, b.Obj())
	})
}

// placement begins a Placement of the pool.
func (t team) placement(name string) fixture.PlacementBuilder {
	return fixture.Placement(string(t), name).Predicate(inPool)
}

// place creates a Placement and waits until so many clusters are published for it.
func (t team) place(ctx context.Context, b fixture.PlacementBuilder, clusters int) *v1alpha1.Placement {
	GinkgoHelper()
	pl := b.Obj()
	Expect(hub.Create(ctx, pl)).To(Succeed())
	Eventually(answer(ctx, pl)).Should(HaveLen(clusters))
	Eventually(condition(ctx, pl, v1alpha1.PlacementConditionSatisfied)).ShouldNot(BeEmpty())
	return pl
}

// require asks for approval of all changes from now on, by a profile.
func require(ctx context.Context, pl *v1alpha1.Placement, profile string) {
	GinkgoHelper()
	annotate(ctx, pl, v1alpha1.ProfileAnnotation, profile)
	// Clusters come by another watch: until the controller has seen this one, it may still decide on a change of theirs without it. An
	// edit that asks for the same shows when it has.
	now := get(ctx, pl)
	Expect(mergePatch(ctx, hub, now, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"scoreRateLimit":"%ds"}}`,
		v1alpha1.ApprovalAnnotation, v1alpha1.ApprovalRequired, 61+now.Generation))).To(Succeed())
	Eventually(func() int64 {
		now := get(ctx, pl)
		if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.PlacementConditionMisconfigured); c != nil {
			return now.Generation - c.ObservedGeneration
		}
		return -1
	}).Should(BeZero())
}

// inParallel runs n calls, eight at a time, and fails with the first error.
func inParallel(n int, call func(i int) error) {
	GinkgoHelper()
	var next atomic.Int64
	var workers sync.WaitGroup
	var once sync.Once
	var failure error
	for range 8 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := call(i); err != nil {
					once.Do(func() { failure = err })
				}
			}
		})
	}
	workers.Wait()
	Expect(failure).NotTo(HaveOccurred())
}

// annotate sets an annotation as kubectl annotate does; an empty value removes it.
func annotate(ctx context.Context, pl *v1alpha1.Placement, key, value string) {
	GinkgoHelper()
	Expect(annotation(ctx, hub, pl, key, value)).To(Succeed())
}

func annotation(ctx context.Context, as client.Client, pl *v1alpha1.Placement, key, value string) error {
	return mergePatch(ctx, as, fixture.Placement(pl.Namespace, pl.Name).Obj(), fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, quoted(value)))
}

// move changes a cluster's pool.
func move(ctx context.Context, cluster, pool string) {
	GinkgoHelper()
	Expect(mergePatch(ctx, hub, fixture.Cluster(cluster).Obj(), fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, poolLabel, pool))).To(Succeed())
}

func quoted(value string) string {
	if value == "" {
		return "null"
	}
	return fmt.Sprintf("%q", value)
}

func mergePatch(ctx context.Context, as client.Client, object client.Object, patch string) error {
	return as.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// approve answers a held change.
func approve(ctx context.Context, pl *v1alpha1.Placement, token string) {
	GinkgoHelper()
	annotate(ctx, pl, v1alpha1.ApproveAnnotation, token)
}

// number asks for another number of clusters.
func number(ctx context.Context, pl *v1alpha1.Placement, n int) {
	GinkgoHelper()
	Expect(mergePatch(ctx, hub, fixture.Placement(pl.Namespace, pl.Name).Obj(), fmt.Sprintf(`{"spec":{"numberOfClusters":%d}}`, n))).To(Succeed())
}

// condition is a check for Eventually: "status reason: message", or nothing.
func condition(ctx context.Context, pl *v1alpha1.Placement, kind string) func() string {
	return func() string {
		now := &v1alpha1.Placement{}
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), now)).To(Succeed())
		c := meta.FindStatusCondition(now.Status.Conditions, kind)
		if c == nil {
			return ""
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}

// pending is condition for DecisionPending.
func pending(ctx context.Context, pl *v1alpha1.Placement) func() string {
	return condition(ctx, pl, v1alpha1.PlacementConditionDecisionPending)
}

// held matches a change that waits, of so many clusters each way.
func held(added, removed int) OmegaMatcher {
	return MatchRegexp(`^True Held: Change [0-9a-f]{64}-[0-9a-z]+ \(%d added[^,]*, %d removed[^,]*\) is held by `, added, removed)
}

var tokenPattern = regexp.MustCompile(`Change ([0-9a-f]{64}-[0-9a-z]+) `)

// tokenOf waits for a held change and returns its name.
func tokenOf(ctx context.Context, pl *v1alpha1.Placement, is OmegaMatcher) string {
	GinkgoHelper()
	var text string
	Eventually(pending(ctx, pl)).Should(And(is, WithTransform(func(s string) string { text = s; return s }, Not(BeEmpty()))))
	return tokenPattern.FindStringSubmatch(text)[1]
}

// deadline reads from a condition until when a plugin holds the change.
func deadline(text, plugin string) time.Time {
	GinkgoHelper()
	_, rest, found := strings.Cut(text, plugin+" until ")
	Expect(found).To(BeTrue(), text)
	rest, _, _ = strings.Cut(rest, ": ")
	at, err := time.Parse(time.RFC3339, rest)
	Expect(err).NotTo(HaveOccurred())
	return at
}

// pagesBy are a Placement's pages by one of its two labels, by name.
func pagesBy(ctx context.Context, pl *v1alpha1.Placement, label string) []v1alpha1.PlacementDecision {
	GinkgoHelper()
	list := &v1alpha1.PlacementDecisionList{}
	Expect(hub.List(ctx, list, client.InNamespace(pl.Namespace), client.MatchingLabels{label: pl.Name})).To(Succeed())
	slices.SortFunc(list.Items, func(a, b v1alpha1.PlacementDecision) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func clustersOn(pages []v1alpha1.PlacementDecision) []string {
	names := []string{}
	for _, page := range pages {
		for _, d := range page.Status.Decisions {
			names = append(names, d.ClusterName)
		}
	}
	slices.Sort(names)
	return names
}

// answer is a check for Eventually: the clusters that consumers find, a doubled one twice.
func answer(ctx context.Context, pl *v1alpha1.Placement) func() []string {
	return func() []string { return clustersOn(pagesBy(ctx, pl, v1alpha1.PlacementLabel)) }
}

// heldClusters is a check for Eventually: the clusters on held pages.
func heldClusters(ctx context.Context, pl *v1alpha1.Placement) func() []string {
	return func() []string { return clustersOn(pagesBy(ctx, pl, v1alpha1.HeldLabel)) }
}

// published waits until these clusters are published and nothing is pending or held.
func published(ctx context.Context, pl *v1alpha1.Placement, clusters []string) {
	GinkgoHelper()
	Eventually(answer(ctx, pl)).Should(Equal(clusters))
	Eventually(pending(ctx, pl)).Should(BeEmpty())
	Eventually(func() []v1alpha1.PlacementDecision { return pagesBy(ctx, pl, v1alpha1.HeldLabel) }).Should(BeEmpty())
	Eventually(condition(ctx, pl, v1alpha1.PlacementConditionSatisfied)).Should(HavePrefix("True "))
}
