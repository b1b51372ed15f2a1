package plugin

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// team is a namespace bound to a set of the same name with three clusters, <team>-1 to -3, of which
// all but the third have the label gpu.
type team string

var teams int

// newTeam makes a team, and empties the hub after the spec.
func newTeam(ctx context.Context) team {
	GinkgoHelper()
	teams++
	t := team(fmt.Sprintf("team%03d", teams))
	DeferCleanup(emptyHub)
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: string(t)}})).To(Succeed())
	Expect(hub.Create(ctx, fixture.Set(string(t)))).To(Succeed())
	Expect(hub.Create(ctx, fixture.Binding(string(t), string(t)))).To(Succeed())
	for i := 1; i <= 3; i++ {
		cluster := fixture.Cluster(t.name(i)).Set(string(t))
		if i < 3 {
			cluster = cluster.Label("gpu", "true")
		}
		Expect(hub.Create(ctx, cluster.Obj())).To(Succeed())
	}
	return t
}

// name is that of the i-th cluster, from 1.
func (t team) name(i int) string { return fmt.Sprintf("%s-%d", t, i) }

// place creates a Placement and waits until so many clusters are published for it.
func (t team) place(ctx context.Context, b fixture.PlacementBuilder, clusters int) *v1alpha1.Placement {
	GinkgoHelper()
	pl := b.Obj()
	Expect(hub.Create(ctx, pl)).To(Succeed())
	Eventually(answer(ctx, pl.Namespace, pl.Name)).Should(HaveLen(clusters))
	Eventually(func() string { return condition(ctx, pl, v1alpha1.PlacementConditionSatisfied) }).ShouldNot(BeEmpty())
	return pl
}

// emptyHub leaves nothing that another spec would see; a hub without other controllers collects
// nothing.
func emptyHub(ctx SpecContext) {
	for _, list := range []client.ObjectList{
		&v1alpha1.PlacementList{}, &v1alpha1.PlacementDecisionList{}, &v1alpha1.ManagedClusterSetBindingList{},
		&v1alpha1.ManagedClusterList{}, &v1alpha1.ManagedClusterSetList{},
	} {
		Expect(hub.List(ctx, list)).To(Succeed())
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			if pl, is := item.(*v1alpha1.Placement); is && len(pl.Annotations) > 0 {
				patch(ctx, fixture.Placement(pl.Namespace, pl.Name).Obj(), `{"metadata":{"annotations":null}}`)
			}
			return client.IgnoreNotFound(hub.Delete(ctx, item.(client.Object)))
		})).To(Succeed())
	}
	// What the controller was about to write is gone, too, before another spec looks.
	Eventually(func() []v1alpha1.PlacementDecision {
		var pages v1alpha1.PlacementDecisionList
		Expect(hub.List(ctx, &pages)).To(Succeed())
		for i := range pages.Items {
			Expect(client.IgnoreNotFound(hub.Delete(ctx, &pages.Items[i]))).To(Succeed())
		}
		return pages.Items
	}).Should(BeEmpty())
}

// answer is a check for Eventually: the published clusters.
func answer(ctx context.Context, namespace, name string) func() []string {
	return func() []string {
		var pages v1alpha1.PlacementDecisionList
		Expect(hub.List(ctx, &pages, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: name})).To(Succeed())
		names := []string{}
		for _, page := range pages.Items {
			for _, d := range page.Status.Decisions {
				names = append(names, d.ClusterName)
			}
		}
		slices.Sort(names)
		return names
	}
}

// now is a Placement as it is.
func now(ctx context.Context, pl *v1alpha1.Placement) *v1alpha1.Placement {
	GinkgoHelper()
	got := &v1alpha1.Placement{}
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), got)).To(Succeed())
	return got
}

// condition is "status reason: message", or nothing.
func condition(ctx context.Context, pl *v1alpha1.Placement, kind string) string {
	GinkgoHelper()
	c := meta.FindStatusCondition(now(ctx, pl).Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// require asks for approval of all changes from now on.
func require(ctx context.Context, pl *v1alpha1.Placement) {
	GinkgoHelper()
	policy := fixture.ApprovalPolicy(pl.Namespace, pl.Name, pl.Name)
	Expect(hub.Create(ctx, policy)).To(Succeed())
	// The controller may see a later edit of the Placement before the policy.
	Eventually(func() (int32, error) {
		err := hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		return policy.Status.Placements, err
	}).Should(BeEquivalentTo(1))
}

// number asks for so many clusters.
func number(ctx context.Context, pl *v1alpha1.Placement, n int) {
	GinkgoHelper()
	patch(ctx, fixture.Placement(pl.Namespace, pl.Name).Obj(), fmt.Sprintf(`{"spec":{"numberOfClusters":%d}}`, n))
}

var countsPattern = regexp.MustCompile(`^True Held: Change \d+ \((\d+) added.*, (\d+) removed`)

// held waits until a change is held that adds so many clusters and removes none.
func held(ctx context.Context, pl *v1alpha1.Placement, added int) {
	GinkgoHelper()
	Eventually(func() []string {
		found := countsPattern.FindStringSubmatch(condition(ctx, pl, v1alpha1.PlacementConditionDecisionPending))
		if found == nil {
			return nil
		}
		return found[1:]
	}).Should(Equal([]string{fmt.Sprint(added), "0"}))
}

// grant gives a user rights in the namespace: resources to their verbs.
func (t team) grant(ctx context.Context, user string, rights map[string][]string) {
	GinkgoHelper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: string(t), Name: user}}
	for resource, verbs := range rights {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{resource}, Verbs: verbs})
	}
	Expect(hub.Create(ctx, role)).To(Succeed())
	Expect(hub.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: string(t), Name: user},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	})).To(Succeed())
}
