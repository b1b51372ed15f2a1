package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/testhub"
)

// acts are what an intruder does to a page.
var acts = []struct {
	name string
	do   func(ctx context.Context, page *v1alpha1.PlacementDecision) error
}{
	{"page deleted", func(ctx context.Context, page *v1alpha1.PlacementDecision) error { return hub.Delete(ctx, page) }},
	{"page emptied", func(ctx context.Context, page *v1alpha1.PlacementDecision) error {
		page.Status.Decisions = []v1alpha1.ClusterDecision{}
		return hub.Status().Update(ctx, page)
	}},
	{"cluster removed", func(ctx context.Context, page *v1alpha1.PlacementDecision) error {
		page.Status.Decisions = page.Status.Decisions[1:]
		return hub.Status().Update(ctx, page)
	}},
	{"cluster invented", func(ctx context.Context, page *v1alpha1.PlacementDecision) error {
		page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: "invented"})
		return hub.Status().Update(ctx, page)
	}},
	{"group relabelled", func(ctx context.Context, page *v1alpha1.PlacementDecision) error {
		page.Labels[v1alpha1.DecisionGroupIndexLabel] = "7"
		delete(page.Labels, v1alpha1.DecisionGroupNameLabel)
		return hub.Update(ctx, page)
	}},
	{"label removed", func(ctx context.Context, page *v1alpha1.PlacementDecision) error {
		page.Labels = nil
		return hub.Update(ctx, page)
	}},
	{"owner removed", func(ctx context.Context, page *v1alpha1.PlacementDecision) error {
		page.OwnerReferences = nil
		return hub.Update(ctx, page)
	}},
}

var _ = Describe("A page", func() {
	It("is restored after another user deletes, edits or relabels it, and not changed if another controller adopts it", func(ctx SpecContext) {
		t := begin(ctx, "pages", true)
		berth, proxy := t.controller()
		t.waitForSimulated(ctx)
		// acted are the versions that the intruder left: a page that lost its label is gone for who
		// reads by label, and may be deleted by the controller later.
		acted := map[string]bool{}
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 6))
		for i := range times(1, 8) * len(acts) {
			act := acts[i%len(acts)]
			acted[t.intrude(ctx, random, act.name, act.do).ResourceVersion] = true
			Eventually(func() (string, error) { return t.wrong(ctx) }).Should(BeEmpty(), "after: %s", act.name)
			if i%5 == 4 {
				// Meanwhile the fleet changes, too.
				Expect(t.Step(ctx)).To(Succeed())
			}
		}
		t.waitForSimulated(ctx)

		By("relabelling one for a Placement that is not there")
		page := t.intrude(ctx, random, "page relabelled for another", func(ctx context.Context, page *v1alpha1.PlacementDecision) error {
			page.Labels[v1alpha1.PlacementLabel] = "nobody"
			return hub.Update(ctx, page)
		})
		Eventually(func() (string, error) { return t.wrong(ctx) }).Should(BeEmpty())
		t.expectUntouched(ctx, page)

		By("adopting one")
		keeper := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: t.Name, Name: "keeper"}}
		Expect(hub.Create(ctx, keeper)).To(Succeed())
		page = t.intrude(ctx, random, "page adopted", func(ctx context.Context, page *v1alpha1.PlacementDecision) error {
			page.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(keeper, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			return hub.Update(ctx, page)
		})
		Eventually(func() (bool, error) { return t.warned(ctx, page.Name) }).Should(BeTrue())
		Eventually(func() (string, error) { return t.lateStatus(ctx) }).Should(BeEmpty())
		t.expectUntouched(ctx, page)

		Expect(berth.Alive()).To(BeTrue())
		gaps, own, deleted := len(t.observer.SoFar().Gaps), 0, map[string][]string{}
		for _, gap := range t.observer.SoFar().Gaps {
			byIntruder := gap.Deleted && acted[strconv.FormatUint(gap.Version, 10)]
			// The controller moves a cluster with two writes: it adds it to a page, and then
			// removes it from another one. The intruder may delete the first page in between.
			inBetween := sets.New(deleted[gap.Placement]...).HasAll(gap.Missing...)
			if gap.MadeBy(proxy.Made()) && !byIntruder && !inBetween {
				own++
			}
			if delete(deleted, gap.Placement); gap.Deleted && !gap.MadeBy(proxy.Made()) {
				deleted[gap.Placement] = gap.Listed
			}
		}
		t.end("pages are deleted, edited, relabelled, adopted",
			fmt.Sprintf("%d writes took clusters away, %d of them the controller's", gaps, own))
		Expect(gaps).To(BeNumerically(">", 0))
		Expect(own).To(BeZero(), "%+v of %+v", proxy.Made(), t.observer.SoFar().Gaps)
	}, NodeTimeout(6*time.Minute))
})

// anyPage is one of the fleet's with at least two clusters.
func (t *trial) anyPage(ctx context.Context, random *rand.Rand) *v1alpha1.PlacementDecision {
	GinkgoHelper()
	list := &v1alpha1.PlacementDecisionList{}
	Expect(hub.List(ctx, list, client.InNamespace(t.Name), client.HasLabels{v1alpha1.PlacementLabel})).To(Succeed())
	pages := slices.DeleteFunc(list.Items, func(p v1alpha1.PlacementDecision) bool {
		return len(p.Status.Decisions) < 2 || p.Labels[v1alpha1.PlacementLabel] == "nobody"
	})
	Expect(pages).NotTo(BeEmpty())
	return &pages[random.IntN(len(pages))]
}

// intrude does something to any page, and returns it as it was left. The controller may be faster,
// and is while the fleet changes.
func (t *trial) intrude(
	ctx context.Context, random *rand.Rand, fault string, do func(context.Context, *v1alpha1.PlacementDecision) error,
) (page *v1alpha1.PlacementDecision) {
	GinkgoHelper()
	Eventually(func() error {
		page = t.anyPage(ctx, random)
		return do(ctx, page)
	}).Should(Succeed(), fault)
	t.injected[fault]++
	return page
}

// wrong says in what the published answers differ from what was asked for: which clusters, on pages
// of which groups.
func (t *trial) wrong(ctx context.Context) (string, error) {
	if difference, err := t.Difference(ctx); err != nil || difference != "" {
		return difference, err
	}
	list := &v1alpha1.PlacementDecisionList{}
	if err := hub.List(ctx, list, client.InNamespace(t.Name)); err != nil {
		return "", err
	}
	for i := range list.Items {
		p := &list.Items[i]
		owner := metav1.GetControllerOf(p)
		if p.Labels[v1alpha1.PlacementLabel] == "nobody" {
			continue
		}
		if owner == nil || owner.Name != p.Labels[v1alpha1.PlacementLabel] {
			return p.Name + " is not its Placement's", nil
		}
	}
	return "", nil
}

// expectUntouched wants a page to be as the intruder left it, though the fleet changes.
func (t *trial) expectUntouched(ctx context.Context, page *v1alpha1.PlacementDecision) {
	GinkgoHelper()
	for _, cluster := range []string{t.Core[0], t.Core[1]} {
		Expect(faults.SetLabel(ctx, hub, cluster, faults.RingLabel, "blue")).To(Succeed())
	}
	Eventually(func() (string, error) { return t.lateStatus(ctx) }).Should(BeEmpty())
	now := page.DeepCopy()
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(page), now)).To(Succeed())
	Expect(now.ResourceVersion).To(Equal(page.ResourceVersion))
}

// warned is true if an event reports the page as controlled by another owner.
func (t *trial) warned(ctx context.Context, page string) (bool, error) {
	all, err := testhub.Events(ctx, hub, t.Name)
	return slices.ContainsFunc(all, func(e eventsv1.Event) bool {
		return e.Reason == "ForeignDecision" && e.Type == corev1.EventTypeWarning && slices.Contains(words(e.Note), page)
	}), err
}
