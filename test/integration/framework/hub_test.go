package framework

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
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
	testhub.CreateTeam(ctx, hub, string(t))
	DeferCleanup(func(ctx SpecContext) {
		// A hub without other controllers collects nothing.
		for _, kind := range []client.Object{&v1alpha1.Placement{}, &v1alpha1.PlacementDecision{}, &berthv1alpha1.PlacementChange{}, &berthv1alpha1.DisruptionPolicy{}} {
			Expect(hub.DeleteAllOf(ctx, kind, client.InNamespace(string(t)))).To(Succeed())
		}
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.ManagedCluster{}, client.MatchingLabels{v1alpha1.ClusterSetLabel: string(t)})).To(Succeed())
	})
	return t
}

// names are those of the team's clusters from number a up to b; b is none of them.
func (t team) names(a, b int) []string {
	names := []string{}
	for i := a; i < b; i++ {
		names = append(names, fmt.Sprintf("%s-%03d", t, i))
	}
	return names
}

// clusters creates clusters 0 to n-1 in the pool.
func (t team) clusters(ctx context.Context, n int) {
	GinkgoHelper()
	faults.InParallel(n, func(i int) error {
		return hub.Create(ctx, fixture.Cluster(t.names(i, i+1)[0]).Set(string(t)).Label(poolLabel, "in").Obj())
	})
}

// placement begins a Placement of the pool.
func (t team) placement(name string) fixture.PlacementBuilder {
	return fixture.Placement(string(t), name).Predicate(inPool)
}

// require has a policy require approval of all changes of the Placement from now on, in a profile.
func require(ctx context.Context, pl *v1alpha1.Placement, profile string) {
	GinkgoHelper()
	timeout := int64(berthv1alpha1.DefaultApprovalTimeoutSeconds)
	if profile == hasty || profile == guarded {
		timeout = int64(hastyTimeout.Seconds())
	}
	probe := func(i int) string { return fmt.Sprintf("probe-%s-%d", pl.Name, i) }
	requireBy(ctx, pl, timeout, probe(0), probe(1), probe(2), probe(3), probe(4))
	annotate(ctx, pl, v1alpha1.ProfileAnnotation, profile)
	// Placements and policies come by different watches: until the controller has seen the policy,
	// it may still publish a change. A Placement whose first publication is held shows when it has.
	for i := 0; ; i++ {
		one := fixture.Placement(pl.Namespace, probe(i)).Predicate(inPool).Obj()
		Expect(hub.Create(ctx, one)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, one, v1alpha1.PlacementConditionSatisfied).ShouldNot(BeEmpty())
		seen := strings.HasPrefix(testhub.Must(pending(ctx, one)()), "True Held: ")
		Expect(hub.Delete(ctx, one)).To(Succeed())
		if seen {
			break
		}
	}
	// An edit that asks for the same shows when the controller has seen the profile.
	now := testhub.Must(testhub.Get(ctx, hub, pl))
	Expect(testhub.Patch(ctx, hub, now, fmt.Sprintf(`{"spec":{"scoreRateLimit":"%ds"}}`, 61+now.Generation))).To(Succeed())
	Eventually(func() int64 {
		now := testhub.Must(testhub.Get(ctx, hub, pl))
		if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.PlacementConditionMisconfigured); c != nil {
			return now.Generation - c.ObservedGeneration
		}
		return -1
	}).Should(BeZero())
}

// requireBy creates the policy that requires approval for one Placement, and for others by name.
func requireBy(ctx context.Context, pl *v1alpha1.Placement, timeout int64, others ...string) {
	GinkgoHelper()
	testhub.Govern(ctx, hub, &berthv1alpha1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: pl.Name},
		Spec: berthv1alpha1.DisruptionPolicySpec{
			Placements: append([]string{pl.Name}, others...), Approval: berthv1alpha1.ApprovalRequired, ApprovalTimeoutSeconds: timeout,
		},
	})
}

// annotate sets an annotation as kubectl annotate does; an empty value removes it.
func annotate(ctx context.Context, pl *v1alpha1.Placement, key, value string) {
	GinkgoHelper()
	Expect(annotation(ctx, hub, pl, key, value)).To(Succeed())
}

func annotation(ctx context.Context, as client.Client, pl *v1alpha1.Placement, key, value string) error {
	return testhub.Patch(ctx, as, fixture.Placement(pl.Namespace, pl.Name).Obj(), fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, quoted(value)))
}

// move changes a cluster's pool.
func move(ctx context.Context, cluster, pool string) {
	GinkgoHelper()
	Expect(testhub.Patch(ctx, hub, fixture.Cluster(cluster).Obj(), fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, poolLabel, pool))).To(Succeed())
}

func quoted(value string) string {
	if value == "" {
		return "null"
	}
	return fmt.Sprintf("%q", value)
}

// approve approves the change with a revision.
func approve(ctx context.Context, pl *v1alpha1.Placement, revision string) {
	GinkgoHelper()
	Expect(answerChange(ctx, hub, pl, revision, berthv1alpha1.Approved)).To(Succeed())
}

// answerChange approves or rejects the change with a revision, as a user.
func answerChange(ctx context.Context, as client.Client, pl *v1alpha1.Placement, revision string, decision berthv1alpha1.ApprovalDecision) error {
	GinkgoHelper()
	me := &authenticationv1.SelfSubjectReview{}
	Expect(as.Create(ctx, me)).To(Succeed())
	record := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: pl.Name + "-" + revision}}
	return testhub.Patch(ctx, as, record, fmt.Sprintf(`{"spec":{"approval":{"decision":%q,"by":%q}}}`, decision, me.Status.UserInfo.Username))
}

// pending is condition for DecisionPending.
func pending(ctx context.Context, pl *v1alpha1.Placement) func() (string, error) {
	return func() (string, error) {
		return testhub.Condition(ctx, hub, pl, v1alpha1.PlacementConditionDecisionPending)
	}
}

// held matches a change that waits, of so many clusters each way.
func held(added, removed int) OmegaMatcher {
	return MatchRegexp(`^True Held: Change \d+ \(%d added[^,]*, %d removed[^,]*\) is held by `, added, removed)
}

var revisionPattern = regexp.MustCompile(`Change (\d+) `)

// revisionOf waits for a held change and returns its revision.
func revisionOf(ctx context.Context, pl *v1alpha1.Placement, is OmegaMatcher) string {
	GinkgoHelper()
	var text string
	Eventually(pending(ctx, pl)).Should(And(is, WithTransform(func(s string) string { text = s; return s }, Not(BeEmpty()))))
	return revisionPattern.FindStringSubmatch(text)[1]
}

// recordsOf are the records of this very Placement.
func recordsOf(ctx context.Context, pl *v1alpha1.Placement) changes.History {
	GinkgoHelper()
	all := testhub.Must(testhub.Records(ctx, hub, client.InNamespace(pl.Namespace)))
	return changes.HistoryOf(testhub.Must(testhub.Get(ctx, hub, pl)), all)
}

// deadline reads from a condition when the change expires that a plugin holds.
func deadline(text, plugin string) time.Time {
	GinkgoHelper()
	_, rest, _ := strings.Cut(text, plugin+": ")
	_, rest, found := strings.Cut(rest, "(expires ")
	Expect(found).To(BeTrue(), text)
	at, err := time.Parse(time.RFC3339, rest[:strings.IndexAny(rest, " )")])
	Expect(err).NotTo(HaveOccurred())
	return at
}

// heldClusters is a check for Eventually: the clusters that the open change leads to.
func heldClusters(ctx context.Context, pl *v1alpha1.Placement) func() []string {
	return func() []string {
		open := recordsOf(ctx, pl).Open()
		if open == nil {
			return nil
		}
		target, err := changes.Target(open, testhub.Must(testhub.Clusters(ctx, hub, pl)))
		if err != nil {
			return []string{err.Error()}
		}
		return append([]string{}, target...)
	}
}

// published waits until these clusters are published and nothing is pending.
func published(ctx context.Context, pl *v1alpha1.Placement, clusters []string) {
	GinkgoHelper()
	Eventually(ctx, testhub.Clusters).WithArguments(hub, pl).Should(Equal(clusters))
	Eventually(pending(ctx, pl)).Should(BeEmpty())
	Eventually(heldClusters(ctx, pl)).Should(BeEmpty())
	Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionSatisfied).Should(HavePrefix("True "))
}
