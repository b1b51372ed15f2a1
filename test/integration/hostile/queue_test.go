package hostile

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
)

const queues = `
partitions:
- name: default
  queues: [{name: web}]
  limits: [{users: ["*"], maxresources: {clusters: 900}}]
  placementrules:
  - {name: provided, create: true}
  - {name: provided, create: true, parent: {name: user, create: true}}
  - {name: tag, value: team, create: true}
  - {name: fixed, value: root.web, filter: {type: deny, users: [eve]}}
`

// Queues are switched on for these specs only, which also compare with the ordinary Placement
// beside nothing.
var _ = Describe("Placements that request queues with long names", Ordered, func() {
	var quiet history

	BeforeAll(func(ctx SpecContext) {
		manifests := "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: queues}, " +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, " +
			"subjects: [{kind: ServiceAccount, name: berth, namespace: berth-system}]}"
		hub.ApplyYAML(ctx, manifests)
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "yunikorn-configs"}, Data: map[string]string{"queues.yaml": queues}}
		Expect(hub.Create(ctx, config)).To(Succeed())
		restart(controllers.Options{Housekeeping: []string{"*"}, QueueConfig: types.NamespacedName{Namespace: config.Namespace, Name: config.Name}})
		DeferCleanup(func(ctx SpecContext) {
			Expect(hub.Delete(ctx, config)).To(Succeed())
			restart(controllers.Options{Housekeeping: []string{"*"}})
		})
		quiet = ordinary(ctx)
	})

	for name, queue := range map[string]string{
		"of 125,000 levels":         "root" + strings.Repeat(".a", 125000),
		"of dots, which get longer": strings.Repeat(".", 250000),
		"of characters to escape":   "root." + strings.Repeat("\"", 250000),
	} {
		It(name+" are refused with a short message and delay no other Placement", func(ctx SpecContext) {
			namespace := newNamespace(ctx, "hostile", 1)
			const count = 20
			for i := range count {
				pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p%d", i), Annotations: map[string]string{
					"yunikorn.apache.org/queue": queue, "yunikorn.apache.org/user.info": `{"user":"eve","groups":[]}`,
				}}}
				Expect(hub.Create(ctx, pl)).To(Succeed())
			}
			Expect(ordinary(ctx)).To(Equal(quiet))
			Eventually(func(g Gomega) {
				list := &v1alpha1.PlacementList{}
				g.Expect(hub.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
				refused := 0
				for _, pl := range list.Items {
					for _, c := range pl.Status.Conditions {
						g.Expect(len(c.Message)).To(BeNumerically("<", 2048), c.Type)
						if c.Type == v1alpha1.PlacementConditionQueueAdmitted && c.Reason == "NoRuleMatched" {
							refused++
						}
					}
				}
				g.Expect(refused).To(Equal(count))
			}).WithContext(ctx).Should(Succeed())

			By("starting with them")
			restart(controllers.Options{Housekeeping: []string{"*"}, QueueConfig: types.NamespacedName{Namespace: "berth-system", Name: "yunikorn-configs"}})
			Expect(ordinary(ctx)).To(Equal(quiet))
		})
	}
})

// restart stops the controller and starts another.
func restart(o controllers.Options) {
	GinkgoHelper()
	berth.Stop()
	berth = hub.StartController(o)
}
