package standalone

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
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
			wanted := *status.Status.DeepCopy()
			testhub.EditStatus(ctx, s, status, func(c *v1alpha1.ManagedCluster) { c.Status = wanted })
		}
		testhub.DeleteAfterwards(s, object)
	}
}

// namespace makes a namespace and binds sets to it. It stays.
func (s *server) namespace(ctx context.Context, sets ...string) string {
	GinkgoHelper()
	name := unique("team")
	testhub.CreateNamespace(ctx, s, name)
	for _, set := range sets {
		s.make(ctx, fixture.Binding(name, set))
	}
	return name
}

// available sets the Available condition.
func (s *server) available(ctx context.Context, c *v1alpha1.ManagedCluster, status metav1.ConditionStatus) {
	GinkgoHelper()
	testhub.EditStatus(ctx, s, c, func(c *v1alpha1.ManagedCluster) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ManagedClusterConditionAvailable, Status: status, Reason: "Told",
		})
	})
}

// condition is a check for Eventually: a condition of an object.
func (s *server) condition(ctx context.Context, object client.Object, kind string) func() (string, error) {
	return func() (string, error) { return testhub.Condition(ctx, s, object, kind) }
}

// empty is a check for Eventually: the ClusterSetEmpty condition of a set.
func (s *server) empty(ctx context.Context, name string) func() (string, error) {
	return s.condition(ctx, fixture.Set(name), v1alpha1.ManagedClusterSetConditionEmpty)
}

// bound is a check for Eventually: the Bound condition of a binding.
func (s *server) bound(ctx context.Context, namespace, name string) func() (string, error) {
	return s.condition(ctx, fixture.Binding(namespace, name), v1alpha1.ManagedClusterSetBindingConditionBound)
}

// availability is a check for Eventually: the Available condition of a cluster.
func (s *server) availability(ctx context.Context, name string) func() (string, error) {
	return s.condition(ctx, fixture.Cluster(name).Obj(), v1alpha1.ManagedClusterConditionAvailable)
}

// satisfied waits until all that the Placement asks for is published.
func (s *server) satisfied(ctx context.Context, pl *v1alpha1.Placement) {
	GinkgoHelper()
	Eventually(s.condition(ctx, pl, v1alpha1.PlacementConditionSatisfied)).Should(HavePrefix("True AllDecisionsScheduled"))
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
	testhub.Grant(ctx, s, "", role.Name, role.Name)
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
