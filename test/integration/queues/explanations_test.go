package queues

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// templateFor is a PlacementExplanation of a Placement that requests a queue and names another
// submitter.
func templateFor(name, queue string) *berthv1alpha1.PlacementExplanation {
	return &berthv1alpha1.PlacementExplanation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec: berthv1alpha1.PlacementExplanationSpec{Template: &berthv1alpha1.PlacementTemplate{
			Metadata: berthv1alpha1.TemplateMetadata{
				Labels: map[string]string{queueLabel: queue, "yunikorn.apache.org/username": "carl"}, Annotations: map[string]string{userInfo: `{"user":"carl"}`},
			},
			Spec: fixture.Placement("team", name).Obj().Spec,
		}},
	}
}

// explain creates a PlacementExplanation as a user. It returns QueueAdmitted and the clusters of
// the answer.
func explain(ctx context.Context, user string, e *berthv1alpha1.PlacementExplanation) (admitted string, clusters []string) {
	GinkgoHelper()
	Expect(hub.As(user).Create(ctx, e)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(e), e)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(e.Status.Conditions, berthv1alpha1.ExplanationExplained)).To(BeTrue())
	}).Should(Succeed())
	c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.PlacementConditionQueueAdmitted)
	Expect(c).NotTo(BeNil())
	for _, d := range e.Status.Decisions {
		clusters = append(clusters, d.Clusters...)
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), clusters
}

// decidesTemplates expects that a template is decided for the user who created the
// PlacementExplanation.
func decidesTemplates(ctx context.Context) {
	GinkgoHelper()
	admitted, clusters := explain(ctx, "ann", templateFor("mine", "root.dev"))
	Expect(admitted).To(Equal("True Placed: queue root.dev by rule provided for user ann"))
	Expect(clusters).To(Equal([]string{"dev-1", "dev-2"}))

	admitted, clusters = explain(ctx, "ann", templateFor("carls", "root.prod"))
	Expect(admitted).To(HavePrefix("False NoRuleMatched: rule 1 (provided): user ann may not submit to root.prod"))
	Expect(clusters).To(BeEmpty())

	admitted, clusters = explain(ctx, "carl", templateFor("by-carl", "root.prod"))
	Expect(admitted).To(Equal("True Placed: queue root.prod by rule provided for user carl"))
	Expect(clusters).To(Equal([]string{"prod-1", "prod-2"}))

	forged := templateFor("forged", "root.prod")
	forged.Annotations = map[string]string{userInfo: `{"user":"carl"}`}
	Expect(hub.As("ann").Create(ctx, forged)).To(MatchError(ContainSubstring("not allowed to set user annotation")))
	stored := templateFor("mine", "root.dev")
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
	stored.Annotations[userInfo] = `{"user":"carl"}`
	Expect(hub.As("ann").Update(ctx, stored)).To(MatchError(ContainSubstring("user info annotation change is not allowed")))
}
