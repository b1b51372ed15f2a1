package testhub

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

// NotReported is the text of a condition of an earlier generation.
const NotReported = "not reported yet"

// Must returns the value of a call that must not fail.
func Must[T any](value T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return value
}

// Get reads the stored object into a new one.
func Get[T client.Object](ctx context.Context, c client.Reader, object T) (T, error) {
	stored := reflect.New(reflect.TypeOf(object).Elem()).Interface().(T)
	return stored, c.Get(ctx, client.ObjectKeyFromObject(object), stored)
}

// Condition is "<status> <reason>: <message>" of a condition of the stored object, or empty. It is
// NotReported if it is of an earlier generation, but the health of a cluster does not depend on its
// spec.
func Condition(ctx context.Context, c client.Reader, object client.Object, kind string) (string, error) {
	stored, err := Get(ctx, c, object)
	if err != nil {
		return "", err
	}
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(stored)
	if err != nil {
		return "", err
	}
	var with struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(content, &with); err != nil {
		return "", err
	}
	_, isCluster := object.(*v1alpha1.ManagedCluster)
	switch found := meta.FindStatusCondition(with.Status.Conditions, kind); {
	case found == nil:
		return "", nil
	case !isCluster && found.ObservedGeneration > 0 && found.ObservedGeneration != stored.GetGeneration():
		return NotReported, nil
	default:
		return fmt.Sprintf("%s %s: %s", found.Status, found.Reason, found.Message), nil
	}
}

// Pages are the pages of a Placement, by name.
func Pages(ctx context.Context, c client.Reader, pl *v1alpha1.Placement) ([]v1alpha1.PlacementDecision, error) {
	return PagesIn(ctx, c, client.InNamespace(pl.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: pl.Name})
}

// PagesIn are the pages that the options select, by name.
func PagesIn(ctx context.Context, c client.Reader, options ...client.ListOption) ([]v1alpha1.PlacementDecision, error) {
	list := &v1alpha1.PlacementDecisionList{}
	err := c.List(ctx, list, options...)
	slices.SortFunc(list.Items, func(a, b v1alpha1.PlacementDecision) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, err
}

// Clusters are the names on the pages of a Placement, sorted.
func Clusters(ctx context.Context, c client.Reader, pl *v1alpha1.Placement) ([]string, error) {
	pages, err := Pages(ctx, c, pl)
	names := ClustersOn(pages...)
	slices.Sort(names)
	return names, err
}

// ClustersOn are the names on pages, in their order.
func ClustersOn(pages ...v1alpha1.PlacementDecision) []string {
	names := []string{}
	for i := range pages {
		for _, d := range pages[i].Status.Decisions {
			names = append(names, d.ClusterName)
		}
	}
	return names
}

// Decided counts the Placements of a namespace that have all clusters that they ask for.
func Decided(ctx context.Context, c client.Reader, namespace string) (int, error) {
	list := &v1alpha1.PlacementList{}
	err := c.List(ctx, list, client.InNamespace(namespace))
	n := 0
	for i := range list.Items {
		if pl := &list.Items[i]; pl.Status.NumberOfSelectedClusters == *pl.Spec.NumberOfClusters {
			n++
		}
	}
	return n, err
}

// Records are the records of changes that the options select, by revision.
func Records(ctx context.Context, c client.Reader, options ...client.ListOption) (changes.History, error) {
	list := &berthv1alpha1.PlacementChangeList{}
	err := c.List(ctx, list, options...)
	var records changes.History
	for i := range list.Items {
		records = append(records, &list.Items[i])
	}
	slices.SortFunc(records, func(a, b *berthv1alpha1.PlacementChange) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	return records, err
}

// Events are the events of a namespace, by time.
func Events(ctx context.Context, c client.Reader, namespace string) ([]eventsv1.Event, error) {
	list := &eventsv1.EventList{}
	err := c.List(ctx, list, client.InNamespace(namespace))
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return list.Items, err
}

// IsGone tells whether an object is deleted.
func IsGone(ctx context.Context, c client.Reader, object client.Object) bool {
	return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(object), object))
}

// Patch sends a merge patch.
func Patch(ctx context.Context, c client.Client, object client.Object, patch string) error {
	return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// Edit changes the stored object, again after a conflict.
func Edit[T client.Object](ctx context.Context, c client.Client, object T, change func(T)) {
	GinkgoHelper()
	edit(ctx, c, object, change, func() error { return c.Update(ctx, object) })
}

// EditStatus changes the status of the stored object, again after a conflict.
func EditStatus[T client.Object](ctx context.Context, c client.Client, object T, change func(T)) {
	GinkgoHelper()
	edit(ctx, c, object, change, func() error { return c.Status().Update(ctx, object) })
}

func edit[T client.Object](ctx context.Context, c client.Client, object T, change func(T), write func() error) {
	GinkgoHelper()
	Eventually(func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return write()
	}).Should(Succeed())
}

// DeleteAfterwards deletes an object, if it exists, at the end of the node that calls it.
func DeleteAfterwards(c client.Client, object client.Object) {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(c.Delete(ctx, object))).To(Succeed())
	})
}

// CreateNamespace creates a namespace. A name that ends with "-" is completed.
func CreateNamespace(ctx context.Context, c client.Client, name string) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if strings.HasSuffix(name, "-") {
		ns.ObjectMeta = metav1.ObjectMeta{GenerateName: name}
	}
	Expect(c.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

// CreateTeam creates a namespace (CreateNamespace), a set of its name and the binding to it. The
// clusters are in the set.
func CreateTeam(ctx context.Context, c client.Client, name string, clusters ...fixture.ClusterBuilder) string {
	GinkgoHelper()
	name = CreateNamespace(ctx, c, name)
	Expect(c.Create(ctx, fixture.Set(name))).To(Succeed())
	Expect(c.Create(ctx, fixture.Binding(name, name))).To(Succeed())
	for _, cluster := range clusters {
		Expect(c.Create(ctx, cluster.Set(name).Obj())).To(Succeed())
	}
	return name
}

// Place creates a Placement and waits until it has so many clusters and the condition Satisfied.
func Place(ctx context.Context, c client.Client, b fixture.PlacementBuilder, clusters int) *v1alpha1.Placement {
	GinkgoHelper()
	pl := b.Obj()
	Expect(c.Create(ctx, pl)).To(Succeed())
	Eventually(ctx, Clusters).WithArguments(c, pl).Should(HaveLen(clusters))
	Eventually(ctx, Condition).WithArguments(c, pl, v1alpha1.PlacementConditionSatisfied).ShouldNot(BeEmpty())
	return pl
}

// Govern creates a DisruptionPolicy and waits until the controller knows it: what is created after
// it may arrive there earlier.
func Govern(ctx context.Context, c client.Client, policy *berthv1alpha1.DisruptionPolicy) {
	GinkgoHelper()
	Expect(c.Create(ctx, policy)).To(Succeed())
	Eventually(ctx, Condition).WithArguments(c, policy, berthv1alpha1.PolicyReady).ShouldNot(BeEmpty())
}

// SetNumber asks for another number of clusters.
func SetNumber(ctx context.Context, c client.Client, pl *v1alpha1.Placement, n int) {
	GinkgoHelper()
	stored := fixture.Placement(pl.Namespace, pl.Name).Obj()
	Expect(Patch(ctx, c, stored, fmt.Sprintf(`{"spec":{"numberOfClusters":%d}}`, n))).To(Succeed())
}

// Grant gives a user a cluster role in a namespace, or in all of them if namespace is empty, and
// waits until the authorizer of the API server knows it.
func Grant(ctx context.Context, c client.Client, namespace, user, role string) {
	GinkgoHelper()
	stored := &rbacv1.ClusterRole{}
	Expect(c.Get(ctx, client.ObjectKey{Name: role}, stored)).To(Succeed())
	missing := missingRight(ctx, c, namespace, user, stored.Rules)
	name := metav1.ObjectMeta{Namespace: namespace, GenerateName: role + "-"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if namespace == "" {
		Expect(c.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects})).To(Succeed())
	} else {
		Expect(c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects})).To(Succeed())
	}
	if missing != nil {
		Eventually(func() bool { return isAllowed(ctx, c, missing) }).Should(BeTrue(), "%s has %s in %q", user, role, namespace)
	}
}

// missingRight returns a right of the rules that the user does not have; nil if there is none.
func missingRight(ctx context.Context, c client.Client, namespace, user string, rules []rbacv1.PolicyRule) *authorizationv1.SubjectAccessReviewSpec {
	GinkgoHelper()
	for _, rule := range rules {
		if len(rule.Resources) == 0 {
			continue
		}
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		for _, verb := range rule.Verbs {
			right := &authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
				Name: strings.Join(rule.ResourceNames[:min(1, len(rule.ResourceNames))], ""),
			}}
			if !isAllowed(ctx, c, right) {
				return right
			}
		}
	}
	return nil
}

func isAllowed(ctx context.Context, c client.Client, right *authorizationv1.SubjectAccessReviewSpec) bool {
	GinkgoHelper()
	review := &authorizationv1.SubjectAccessReview{Spec: *right}
	Expect(c.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}

// AccountName is the user name of a service account.
func AccountName(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// Token returns a token of a service account.
func Token(ctx context.Context, c client.Client, namespace, name string) string {
	GinkgoHelper()
	token := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(c.SubResource("token").Create(ctx, account, token)).To(Succeed())
	return token.Status.Token
}

// Clock is a clock that a spec sets ahead.
type Clock struct{ ahead atomic.Int64 }

// Now is the time by this clock. It has no monotonic part, as a time that was read from the API.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())).Round(0) }

// Advance sets the clock further ahead.
func (c *Clock) Advance(by time.Duration) { c.ahead.Add(int64(by)) }
