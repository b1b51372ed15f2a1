package hostile

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

var _ = Describe("The ordinary Placement beside expensive Placements", func() {
	doubled := `["aa"]` + strings.Repeat(".map(x, x + x)", 15)
	for about, expression := range map[string]string{
		"quadratic searches for text":      doubled + `.exists(x, x.indexOf(x.substring(1) + "b") < 0 && x.lastIndexOf("b" + x.substring(1)) < 0)`,
		"patterns computed for each round": doubled + `.exists(x, x.split("").exists(c, "a".matches(c + "(a?){900}b")))`,
		"parts of long texts":              doubled + `.all(x, x.split("").map(c, c + c).map(c, c + c).size() > 0)`,
		"sums of lists in sums":            doubled + `.map(x, x.split(""))` + strings.Repeat(".map(x, x + ['b'])", 500) + `.all(x, x.exists(c, c == "c"))`,
	} {
		It("has the same history beside "+about, func(ctx SpecContext) {
			namespace := newNamespace(ctx, "costly", 2)
			Expect(hub.Create(ctx, &v1alpha1.Placement{
				ObjectMeta: metav1.ObjectMeta{Name: "costly", Namespace: namespace},
				Spec: v1alpha1.PlacementSpec{Predicates: []v1alpha1.ClusterPredicate{{RequiredClusterSelector: v1alpha1.ClusterSelector{
					CelSelector: v1alpha1.ClusterCelSelector{CelExpressions: []string{expression}},
				}}}},
			})).To(Succeed())
			expectAsAlone(ctx)
			Eventually(func(g Gomega) {
				pl := &v1alpha1.Placement{}
				g.Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "costly"}, pl)).To(Succeed())
				g.Expect(pl.Status.Conditions).NotTo(BeEmpty())
				g.Expect(pl.Status.NumberOfSelectedClusters).To(BeZero())
			}).WithContext(ctx).Should(Succeed())
		})
	}

	It("is refused where a list is too long", func(ctx SpecContext) {
		namespace := newNamespace(ctx, "costly", 1)
		pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "costly", Namespace: namespace}}
		for i := range 12_000 {
			pl.Spec.PrioritizerPolicy.Configurations = append(pl.Spec.PrioritizerPolicy.Configurations, v1alpha1.PrioritizerConfig{
				ScoreCoordinate: &v1alpha1.ScoreCoordinate{
					Type: v1alpha1.ScoreCoordinateTypeAddOn, AddOn: &v1alpha1.AddOnScore{ResourceName: "r", ScoreName: fmt.Sprint(i)},
				},
			})
		}
		Expect(hub.Create(ctx, pl)).To(MatchError(ContainSubstring("spec.prioritizerPolicy.configurations: Too many: 12000: must have at most 64 items")))
		expectAsAlone(ctx)
	})
})
