package standalone

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// unique is a name that no other spec has.
func unique(prefix string) string { return prefix + "-" + rand.String(6) }

// make creates objects, to be gone after the spec.
func (s *server) make(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		status, ok := object.DeepCopyObject().(*v1alpha1.ManagedCluster)
		Expect(s.Create(ctx, object)).To(Succeed())
		if ok && len(status.Status.Conditions) > 0 {
			editStatus(ctx, s, status, func(c *v1alpha1.ManagedCluster, was v1alpha1.ManagedCluster) { c.Status = was.Status })
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(s.Delete(ctx, object))).To(Succeed())
		})
	}
}

// namespace makes a namespace and binds sets to it. It stays.
func (s *server) namespace(ctx context.Context, sets ...string) string {
	GinkgoHelper()
	name := unique("team")
	Expect(s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	for _, set := range sets {
		s.make(ctx, fixture.Binding(name, set))
	}
	return name
}

// edit changes an object as it is on the server, like kubectl edit.
func edit[T client.Object](ctx context.Context, s *server, object T, change func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return s.Update(ctx, object)
	}).Should(Succeed())
}

// editStatus is edit with --subresource=status; change is also given the object as it was passed.
func editStatus(ctx context.Context, s *server, object *v1alpha1.ManagedCluster, change func(c *v1alpha1.ManagedCluster, was v1alpha1.ManagedCluster)) {
	GinkgoHelper()
	was := *object.DeepCopy()
	Eventually(func() error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object, was)
		return s.Status().Update(ctx, object)
	}).Should(Succeed())
}

// available sets the Available condition.
func (s *server) available(ctx context.Context, c *v1alpha1.ManagedCluster, status metav1.ConditionStatus) {
	GinkgoHelper()
	editStatus(ctx, s, c, func(c *v1alpha1.ManagedCluster, _ v1alpha1.ManagedCluster) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ManagedClusterConditionAvailable, Status: status, Reason: "Told",
		})
	})
}

// conditionText returns "status reason: message" of a condition of the current generation.
func conditionText(object client.Object, conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.ObservedGeneration != object.GetGeneration() {
		return "not reported yet"
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// empty returns, for Eventually, the condition ClusterSetEmpty of a set.
func (s *server) empty(ctx context.Context, name string) func(Gomega) string {
	return func(g Gomega) string {
		set := fixture.Set(name)
		g.Expect(s.Get(ctx, client.ObjectKeyFromObject(set), set)).To(Succeed())
		return conditionText(set, set.Status.Conditions, v1alpha1.ManagedClusterSetConditionEmpty)
	}
}

// bound returns, for Eventually, the condition Bound of a binding.
func (s *server) bound(ctx context.Context, namespace, name string) func(Gomega) string {
	return func(g Gomega) string {
		binding := fixture.Binding(namespace, name)
		g.Expect(s.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		return conditionText(binding, binding.Status.Conditions, v1alpha1.ManagedClusterSetBindingConditionBound)
	}
}

// placement is a check for Eventually: what a condition of a Placement says.
func (s *server) placement(ctx context.Context, pl *v1alpha1.Placement, kind string) func(Gomega) string {
	return func(g Gomega) string {
		now := &v1alpha1.Placement{}
		g.Expect(s.Get(ctx, client.ObjectKeyFromObject(pl), now)).To(Succeed())
		return conditionText(now, now.Status.Conditions, kind)
	}
}

// satisfied waits until all that the Placement asks for is published.
func (s *server) satisfied(ctx context.Context, pl *v1alpha1.Placement) {
	GinkgoHelper()
	Eventually(s.placement(ctx, pl, v1alpha1.PlacementConditionSatisfied)).Should(HavePrefix("True AllDecisionsScheduled"))
}

// pages are the pages that carry the Placement's label, by name.
func (s *server) pages(ctx context.Context, pl *v1alpha1.Placement) []v1alpha1.PlacementDecision {
	GinkgoHelper()
	list := &v1alpha1.PlacementDecisionList{}
	Expect(s.List(ctx, list, client.InNamespace(pl.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: pl.Name})).To(Succeed())
	slices.SortFunc(list.Items, func(a, b v1alpha1.PlacementDecision) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// chosen is a check for Eventually: the clusters on all pages.
func (s *server) chosen(ctx context.Context, pl *v1alpha1.Placement) func() []string {
	return func() []string {
		names := []string{}
		for _, page := range s.pages(ctx, pl) {
			for _, d := range page.Status.Decisions {
				names = append(names, d.ClusterName)
			}
		}
		return names
	}
}

// grant gives a user what a ClusterRole allows.
func (s *server) grant(ctx context.Context, user, role string) {
	GinkgoHelper()
	Expect(s.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: unique("grant")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
}

// user is a new user's client. They may do as they please with clusters and bindings, have the
// rights (such as "bind") given for the sets named, and the server knows.
func (s *server) user(ctx context.Context, right string, sets ...string) client.Client {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: unique("user")}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"managedclusters", "managedclustersetbindings"}, Verbs: []string{"*"}},
	}}
	asked := []authorizationv1.ResourceAttributes{{Group: v1alpha1.GroupName, Resource: "managedclusters", Verb: "create"}}
	for _, set := range sets {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"managedclustersets/" + right}, ResourceNames: []string{set}, Verbs: []string{"create"},
		})
		asked = append(asked, authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupName, Resource: "managedclustersets", Subresource: right, Name: set, Verb: "create",
		})
	}
	Expect(s.Create(ctx, role)).To(Succeed())
	s.grant(ctx, role.Name, role.Name)
	c := s.As(role.Name)
	for _, attributes := range asked {
		Eventually(func(g Gomega) bool {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
			g.Expect(c.Create(ctx, review)).To(Succeed())
			return review.Status.Allowed
		}).Should(BeTrue())
	}
	return c
}
