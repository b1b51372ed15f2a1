package world

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// scoreName is the AddOnPlacementScore of each cluster, with the score free.
const scoreName = "capacity"

func scoreDeed(a *actor) {
	name, value := a.cluster(), int32(a.random.IntN(201)-100)
	score := fixture.Score(name, scoreName).Value("free", value).Obj()
	err := a.hub.Create(a.ctx, score.DeepCopy())
	if err != nil && a.hub.Get(a.ctx, client.ObjectKeyFromObject(score), score) == nil {
		score.Status = fixture.Score(name, scoreName).Value("free", value).Obj().Status
		if a.random.IntN(4) == 0 {
			score.Status.ValidUntil = &metav1.Time{Time: time.Now().Add(time.Duration(a.random.IntN(300)) * time.Second)}
		}
		err = a.hub.Update(a.ctx, score)
	}
	a.say("score of cluster %s becomes %d: %v", name, value, err)
}

func prioritizersDeed(a *actor) {
	a.editPlacement("prioritizers", func(pl *v1alpha1.Placement) string {
		b := fixture.Placement("", "")
		how := pick(a, "default", "score", "score only", "balance")
		switch how {
		case "score":
			b = b.AddOn(scoreName, "free", int32(1+a.random.IntN(3)))
		case "balance":
			b = b.Prioritizer(v1alpha1.PrioritizerBalance, 3)
		case "score only":
			b = b.Mode(v1alpha1.PrioritizerPolicyModeExact).AddOn(scoreName, "free", 1).Prioritizer(v1alpha1.PrioritizerSteady, int32(a.random.IntN(3)))
		}
		pl.Spec.PrioritizerPolicy = b.Obj().Spec.PrioritizerPolicy
		return how
	})
}

func tierSelector(tier string) v1alpha1.ClusterSelector {
	return v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}}
}

func selectionPolicy(placement string) *berthv1alpha1.SelectionPolicy {
	return &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: placement}}
}

// selectionDeed creates, edits or deletes the SelectionPolicy of a Placement.
func selectionDeed(a *actor) {
	placement := a.placement()
	p := selectionPolicy(placement)
	exists := a.hub.Get(a.ctx, client.ObjectKeyFromObject(p), p) == nil
	if exists && a.random.IntN(3) == 0 {
		a.say("the SelectionPolicy of %s is deleted: %v", placement, a.hub.Delete(a.ctx, p))
		return
	}
	p.Spec = berthv1alpha1.SelectionPolicySpec{Placement: placement}
	s := &p.Spec
	what := pick(a, "tiers", "groups", "names", "preferences", "apart", "requests")
	switch what {
	case "tiers":
		s.Tiers = []berthv1alpha1.SelectionTier{{Name: "gold", ClusterSelector: tierSelector("gold")}, {Name: "silver", ClusterSelector: tierSelector("silver")}}
		s.TierMode = pick(a, berthv1alpha1.TierFallback, berthv1alpha1.TierOverflow)
		s.FailbackAfterSeconds = new(int64(a.random.IntN(120)))
	case "groups":
		s.Groups = []berthv1alpha1.SelectionGroup{{Name: "gold", ClusterSelector: tierSelector("gold"), Max: new(int32(1 + a.random.IntN(3)))}}
	case "names":
		s.ClusterNames.Exclude = []string{a.cluster()}
	case "preferences":
		s.Preferences = []berthv1alpha1.Preference{{Weight: 50, ClusterSelector: tierSelector(pick(a, "gold", "silver"))}}
	case "requests":
		s.Requests = map[v1alpha1.ResourceName]resource.Quantity{"cpu": resource.MustParse(pick(a, "1", "2", "4"))}
	case "apart":
		s.Affinity.ApartFrom = []berthv1alpha1.PlacementReference{{Placement: a.placement()}}
	}
	var err error
	if exists {
		err = a.hub.Update(a.ctx, p)
	} else {
		err = a.hub.Create(a.ctx, p)
	}
	a.say("SelectionPolicy of %s: %s: %v", placement, what, err)
}

// disableDeed switches the scheduling of a Placement off or on.
func disableDeed(a *actor) {
	a.editPlacement("scheduling disabled", func(pl *v1alpha1.Placement) string {
		if pl.IsDisabled() {
			delete(pl.Annotations, v1alpha1.PlacementDisableAnnotation)
			return "no"
		}
		metav1.SetMetaDataAnnotation(&pl.ObjectMeta, v1alpha1.PlacementDisableAnnotation, "true")
		return "yes"
	})
}

// failoverDeed is what another writer does with the pages while scheduling is disabled: it moves
// one cluster, and enables scheduling in half of the cases.
func failoverDeed(a *actor) {
	pl := fixture.Placement("team", a.placement()).Obj()
	key := client.ObjectKeyFromObject(pl)
	if a.hub.Get(a.ctx, key, pl) == nil && !pl.IsDisabled() {
		metav1.SetMetaDataAnnotation(&pl.ObjectMeta, v1alpha1.PlacementDisableAnnotation, "true")
		a.say("another writer disables scheduling of %s: %v", pl.Name, a.hub.Update(a.ctx, pl))
		time.Sleep(time.Duration(a.random.Int64N(int64(10 * time.Second))))
	}
	if a.hub.Get(a.ctx, key, pl) != nil || !pl.IsDisabled() || !pl.SaysDisabled() {
		return
	}
	page := a.pageOf(pl.Name)
	if page == nil || len(page.Status.Decisions) == 0 {
		return
	}
	to := a.cluster()
	from := page.Status.Decisions[0].ClusterName
	page.Status.Decisions[0].ClusterName = to
	a.say("another writer moves %s from %s to %s: %v", pl.Name, from, to, a.hub.Status().Update(a.ctx, page))
	if a.random.IntN(2) == 0 {
		time.Sleep(time.Second) // Berth publishes others that are apart first, and knows this then.
		delete(pl.Annotations, v1alpha1.PlacementDisableAnnotation)
		a.say("scheduling of %s is enabled: %v", pl.Name, a.hub.Update(a.ctx, pl))
	}
}

// pageOf returns a page of a Placement; nil if there is none.
func (a *actor) pageOf(placement string) *v1alpha1.PlacementDecision {
	list := &v1alpha1.PlacementDecisionList{}
	if a.hub.List(a.ctx, list, client.InNamespace("team"), client.MatchingLabels{v1alpha1.PlacementLabel: placement}) != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[a.random.IntN(len(list.Items))]
}

// withoutBalance is the total of a cluster without the score of Balance, and the most that Balance
// can change.
func withoutBalance(report *simulator.Report, cluster string) (total, most int64) {
	balance := report.PrioritizerScores[v1alpha1.PrioritizerBalance]
	return report.Scores[cluster] - balance.Weight*balance.Scores[cluster], 200 * balance.Weight
}
