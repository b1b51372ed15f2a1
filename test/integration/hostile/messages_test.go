package hostile

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

var _ = Describe("Messages that grow with the input", func() {
	It("are cut so that the status can be written, and delay no other Placement", func(ctx SpecContext) {
		namespace := newNamespace(ctx, "long", 1)
		sets := func(n int) (names []string) {
			for i := range n {
				names = append(names, fmt.Sprintf("%s-%d", strings.Repeat("s", 200), i))
			}
			return names
		}
		long := strings.Repeat("ß", 100_000)
		hostile := map[string]*v1alpha1.Placement{
			v1alpha1.PlacementConditionSatisfied:     fixture.Placement(namespace, "sets").Sets(sets(1000)...).Obj(),
			v1alpha1.PlacementConditionMisconfigured: fixture.Placement(namespace, "profile").Annotation(v1alpha1.ProfileAnnotation, long).Obj(),
		}
		for _, pl := range hostile {
			Expect(hub.Create(ctx, pl)).To(Succeed())
		}
		for kind, pl := range hostile {
			Eventually(func(g Gomega) {
				g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), pl)).To(Succeed())
				c := conditionOf(pl, kind)
				g.Expect(c).NotTo(BeNil())
				g.Expect(c.ObservedGeneration).To(Equal(pl.Generation))
				g.Expect(len(c.Message)).To(BeNumerically("<=", v1alpha1.MaxMessageLength))
				g.Expect(c.Message).To(HaveSuffix(" bytes in all)"))
			}).Should(Succeed())
		}

		By("a hundred pages that something else controls, which an event names")
		other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
		Expect(hub.Create(ctx, other)).To(Succeed())
		owner := metav1.NewControllerRef(other, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		crowd := fixture.Placement(namespace, "crowd").Obj()
		for i := range 100 {
			page := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("foreign-%s-%03d", strings.Repeat("x", 100), i), Labels: map[string]string{v1alpha1.PlacementLabel: crowd.Name},
				OwnerReferences: []metav1.OwnerReference{*owner},
			}}
			Expect(hub.Create(ctx, page)).To(Succeed())
		}
		Expect(hub.Create(ctx, crowd)).To(Succeed())
		Eventually(func(g Gomega) {
			list := &eventsv1.EventList{}
			g.Expect(hub.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			var notes []string
			for _, e := range list.Items {
				if e.Reason == "ForeignDecision" {
					notes = append(notes, e.Note)
				}
			}
			g.Expect(notes).To(ContainElement(And(HavePrefix("PlacementDecisions foreign-"), HaveSuffix("......"))))
		}).Should(Succeed())
		expectAsAlone(ctx)
	})
})

func conditionOf(pl *v1alpha1.Placement, kind string) *metav1.Condition {
	for i := range pl.Status.Conditions {
		if pl.Status.Conditions[i].Type == kind {
			return &pl.Status.Conditions[i]
		}
	}
	return nil
}
