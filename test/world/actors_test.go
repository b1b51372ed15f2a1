package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// step is something that a person, or an accident, does. Its seed decides the details, so a step
// does the same when others are left out.
type step struct {
	after time.Duration
	what  string
	seed  uint64
}

func (s step) String() string { return fmt.Sprintf("%s %s %d", s.after, s.what, s.seed) }

func (s step) run(ctx context.Context, w *world) {
	a := &actor{world: w, ctx: ctx, random: rand.New(rand.NewPCG(s.seed, 7))}
	if deed := deeds[s.what]; deed != nil {
		deed(a)
		return
	}
	situations[s.what](a)
}

// actor does one step.
type actor struct {
	*world
	ctx    context.Context
	random *rand.Rand
}

func pick[T any](a *actor, of ...T) T { return of[a.random.IntN(len(of))] }

func (a *actor) cluster() string   { return fmt.Sprint("c", a.random.IntN(8)) }
func (a *actor) placement() string { return fmt.Sprint("p", a.random.IntN(3)) }

// script draws the steps of a world.
func script(seed uint64, length time.Duration) (steps []step) {
	random := rand.New(rand.NewPCG(seed, 2))
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range deeds {
			if !yield(name) {
				return
			}
		}
	})
	var at time.Duration
	for at < length {
		after := time.Duration(random.Int64N(int64([]time.Duration{200 * time.Millisecond, 5 * time.Second, time.Minute, 5 * time.Minute}[random.IntN(4)])))
		name := names[random.IntN(len(names))]
		for range weights[name] {
			if random.IntN(4) == 0 {
				name = names[random.IntN(len(names))]
			}
		}
		steps = append(steps, step{after, name, random.Uint64()})
		at += after
	}
	if hasSituations(seed) {
		return withSituations(seed, steps)
	}
	return steps
}

// weights make a step rarer.
var weights = map[string]int{"crash": 2, "stop": 2, "losses": 2, "forget": 1, "slow": 2, "delete placement": 3, "unbind": 3, "namespace": 4, "full disk": 2, "freeze": 2, "clock": 2}

// deeds are the steps by name.
var deeds = map[string]func(a *actor){
	"label": func(a *actor) {
		a.editCluster("label tier", func(c *v1alpha1.ManagedCluster) string {
			c.Labels["tier"] = pick(a, "gold", "silver")
			return c.Labels["tier"]
		})
	},
	"taint": func(a *actor) {
		a.editCluster("taints", func(c *v1alpha1.ManagedCluster) string {
			c.Spec.Taints = nil
			effect := pick(a, "", v1alpha1.TaintEffectNoSelect, v1alpha1.TaintEffectNoSelectIfNew, v1alpha1.TaintEffectPreferNoSelect)
			if effect != "" {
				c.Spec.Taints = []v1alpha1.Taint{{Key: pick(a, "broken", v1alpha1.DrainTaint), Effect: effect, TimeAdded: metav1.NewTime(time.Now())}}
			}
			return string(effect)
		})
	},
	"move": func(a *actor) {
		a.editCluster("set", func(c *v1alpha1.ManagedCluster) string {
			c.Labels[v1alpha1.ClusterSetLabel] = pick(a, "s1", "s1", "s2")
			return c.Labels[v1alpha1.ClusterSetLabel]
		})
	},
	"add cluster": func(a *actor) {
		name := a.cluster()
		err := a.hub.Create(a.ctx, fixture.Cluster(name).Set("s1").Label("tier", pick(a, "gold", "silver")).Obj())
		a.say("cluster %s is created: %v", name, err)
	},
	"delete cluster": func(a *actor) {
		name := a.cluster()
		err := a.hub.Delete(a.ctx, fixture.Cluster(name).Obj())
		a.say("cluster %s is deleted: %v", name, err)
	},
	"replace cluster": func(a *actor) {
		name := a.cluster()
		if a.hub.Delete(a.ctx, fixture.Cluster(name).Obj()) != nil {
			return
		}
		err := a.hub.Create(a.ctx, fixture.Cluster(name).Set("s1").Label("tier", pick(a, "gold", "silver")).Obj())
		a.say("cluster %s is deleted, and another one with its name created: %v", name, err)
	},
	"capacity": capacityDeed, "quota": quotaDeed, "queue": queueDeed, "namespace": namespaceDeed,
	"full disk": diskDeed, "freeze": freezeDeed, "clock": clockDeed,
	"number": func(a *actor) {
		a.editPlacement("numberOfClusters", func(pl *v1alpha1.Placement) string {
			n := int32(a.random.IntN(6))
			if pl.Spec.NumberOfClusters = &n; n == 0 {
				pl.Spec.NumberOfClusters = nil
			}
			return fmt.Sprint(n)
		})
	},
	"predicate": func(a *actor) {
		a.editPlacement("predicates", func(pl *v1alpha1.Placement) string {
			pl.Spec.Predicates = nil
			tier := pick(a, "", "gold", "silver")
			if tier != "" {
				pl.Spec.Predicates = fixture.Placement("", "").Predicate(fixture.MatchLabel("tier", tier)).Obj().Spec.Predicates
			}
			return tier
		})
	},
	"tolerations": func(a *actor) {
		a.editPlacement("tolerations", func(pl *v1alpha1.Placement) string {
			pl.Spec.Tolerations = nil
			if key := pick(a, "", "broken", "other"); key != "" {
				pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: key, Operator: v1alpha1.TolerationOpExists}}
			}
			return fmt.Sprint(pl.Spec.Tolerations)
		})
	},
	"groups": func(a *actor) {
		a.editPlacement("decision groups", func(pl *v1alpha1.Placement) string {
			g := &pl.Spec.DecisionStrategy.GroupStrategy
			g.ClustersPerDecisionGroup = pick(a, intstr.FromInt32(100), intstr.FromInt32(2), intstr.FromString("50%"))
			g.DecisionGroups = nil
			if a.random.IntN(2) == 0 {
				g.DecisionGroups = []v1alpha1.DecisionGroup{{GroupName: pick(a, "canary", "first"), ClusterSelector: v1alpha1.GroupClusterSelector{
					LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": pick(a, "gold", "silver")}},
				}}}
			}
			return fmt.Sprintf("%v %d", g.ClustersPerDecisionGroup.String(), len(g.DecisionGroups))
		})
	},
	"delete placement": func(a *actor) {
		name := a.placement()
		err := a.hub.Delete(a.ctx, fixture.Placement("team", name).Obj())
		a.say("Placement %s is deleted: %v", name, err)
	},
	"add placement": func(a *actor) {
		name := a.placement()
		err := a.hub.Create(a.ctx, fixture.Placement("team", name).Number(int32(1+a.random.IntN(4))).Obj())
		a.say("Placement %s is created: %v", name, err)
	},
	"pin": func(a *actor) {
		a.editPlacement("pinned revision", func(pl *v1alpha1.Placement) string {
			revision := pick(a, "", strconv.Itoa(1+a.random.IntN(5)))
			if pl.Annotations == nil {
				pl.Annotations = map[string]string{}
			}
			if pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation] = revision; revision == "" {
				delete(pl.Annotations, berthv1alpha1.PinnedRevisionAnnotation)
			}
			return revision
		})
	},
	"policy":    policyDeed,
	"no policy": func(a *actor) { _ = a.hub.Delete(a.ctx, disruptionPolicy()); a.say("the DisruptionPolicy is deleted") },
	"answer":    answerDeed,
	"score":     scoreDeed, "prioritizers": prioritizersDeed, "selection": selectionDeed, "disable": disableDeed, "failover": failoverDeed,
	"evict":       evictDeed,
	"edit page":   editPageDeed,
	"rival":       rivalDeed,
	"delete page": deletePageDeed,
	"unbind": func(a *actor) {
		if a.hub.Delete(a.ctx, fixture.Binding("team", "s1")) == nil {
			a.say("set s1 is unbound")
			return
		}
		a.create(a.ctx, fixture.Binding("team", "s1"))
		a.say("set s1 is bound")
	},
	"crash": func(a *actor) {
		name := pick(a, "one", "two")
		a.say("replica %s crashes", name)
		a.faults["crash"]++
		a.restart(a.ctx, name, true)
	},
	"stop": func(a *actor) {
		name := pick(a, "one", "two")
		a.say("replica %s stops, and is started again", name)
		a.faults["restart"]++
		a.restart(a.ctx, name, false)
	},
	"cut watches": func(a *actor) { a.say("all watches end"); a.faults["watches end"]++; a.server.CloseWatches() },
	"forget": func(a *actor) {
		a.say("all watches end, and the server forgets what they have missed")
		a.faults["410 Expired"]++
		a.server.CloseWatches()
		a.server.Forget()
	},
	"losses": func(a *actor) {
		a.losses, a.lossesEnd = pick(a, 5, 30, 80), time.Now().Add(time.Duration(a.random.Int64N(int64(2*time.Minute))))
		a.say("%d %% of the requests fail until %s", a.losses, a.lossesEnd.UTC().Format("15:04:05"))
	},
	"slow": func(a *actor) {
		slow := pick(a, 0, 100*time.Millisecond, time.Second)
		a.say("each request takes %s longer", slow)
		a.faults["slow server"]++
		a.schedule.SetSlow(slow)
	},
}

func (a *actor) editCluster(what string, edit func(*v1alpha1.ManagedCluster) string) {
	c := fixture.Cluster(a.cluster()).Obj()
	if a.hub.Get(a.ctx, client.ObjectKeyFromObject(c), c) != nil {
		return
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	to := edit(c)
	a.say("cluster %s: %s becomes %q: %v", c.Name, what, to, a.hub.Update(a.ctx, c))
}

func (a *actor) editPlacement(what string, edit func(*v1alpha1.Placement) string) {
	pl := fixture.Placement("team", a.placement()).Obj()
	if a.hub.Get(a.ctx, client.ObjectKeyFromObject(pl), pl) != nil {
		return
	}
	to := edit(pl)
	a.say("Placement %s: %s becomes %q: %v", pl.Name, what, to, a.hub.Update(a.ctx, pl))
}

func disruptionPolicy() *berthv1alpha1.DisruptionPolicy {
	return &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "careful"}}
}

func policyDeed(a *actor) {
	p := disruptionPolicy()
	exists := a.hub.Get(a.ctx, client.ObjectKeyFromObject(p), p) == nil
	p.Spec = berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}}
	s := &p.Spec
	if a.random.IntN(3) == 0 {
		s.Approval = berthv1alpha1.ApprovalRequired
	}
	s.ApprovalTimeoutSeconds = pick(a, int64(0), 0, 120)
	s.StabilizationWindowSeconds = pick(a, int64(0), 0, 30)
	s.Suspend = a.random.IntN(8) == 0
	if a.random.IntN(2) == 0 {
		s.MaxUnavailable = new(intstr.FromInt32(int32(a.random.IntN(3))))
	}
	if a.random.IntN(2) == 0 {
		s.MaxSurge = new(intstr.FromInt32(int32(1 + a.random.IntN(2))))
	}
	if a.random.IntN(3) == 0 {
		s.MinAvailable = new(intstr.FromString("50%"))
	}
	if a.random.IntN(3) == 0 {
		s.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "*/10 * * * *", Duration: "3m"}}
	}
	s.UnavailableClusters = pick(a, "", berthv1alpha1.UnavailableReplaceFirst)
	var err error
	if exists {
		err = a.hub.Update(a.ctx, p)
	} else {
		err = a.hub.Create(a.ctx, p)
	}
	a.say("DisruptionPolicy: approval %q, stabilization %d s, suspend %v, %d windows, minAvailable %v: %v", s.Approval, s.StabilizationWindowSeconds, s.Suspend, len(s.Windows), s.MinAvailable, err)
}

func answerDeed(a *actor) {
	list := &berthv1alpha1.PlacementChangeList{}
	if a.hub.List(a.ctx, list, client.InNamespace("team")) != nil {
		return
	}
	for i := range list.Items {
		r := &list.Items[i]
		if r.Status.Phase != berthv1alpha1.PhaseHeld && !r.NeedsApproval() && a.random.IntN(4) > 0 {
			continue
		}
		decision := pick(a, berthv1alpha1.Approved, berthv1alpha1.Approved, berthv1alpha1.Rejected)
		r.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: decision, By: "ann"}
		if err := a.hub.Update(a.ctx, r); err == nil {
			a.say("change %s is %s", r.Name, decision)
		}
	}
}

func evictDeed(a *actor) {
	e := &berthv1alpha1.PlacementEviction{ObjectMeta: metav1.ObjectMeta{Namespace: "team", GenerateName: "e-"}}
	e.Spec.Placement, e.Spec.Cluster = a.placement(), a.cluster()
	err := a.hub.Create(a.ctx, e)
	a.say("cluster %s is evicted from Placement %s: %v", e.Spec.Cluster, e.Spec.Placement, err)
}

// aPage returns a page of a Placement; nil if there is none.
func (a *actor) aPage() *v1alpha1.PlacementDecision {
	list := &v1alpha1.PlacementDecisionList{}
	if a.hub.List(a.ctx, list, client.InNamespace("team")) != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[a.random.IntN(len(list.Items))]
}

func editPageDeed(a *actor) {
	page := a.aPage()
	if page == nil || len(page.Status.Decisions) == 0 {
		return
	}
	a.laws.damage(page)
	page.Status.Decisions = page.Status.Decisions[1:]
	a.say("page %s is edited by hand: %v", page.Name, a.hub.Status().Update(a.ctx, page))
}

// deletePageDeed keeps the pages of another writer: without one, a start does not know the place of
// the Placement in a queue.
func deletePageDeed(a *actor) {
	page, pl := a.aPage(), &v1alpha1.Placement{}
	if page == nil || a.hub.Get(a.ctx, client.ObjectKey{Namespace: page.Namespace, Name: page.Labels[v1alpha1.PlacementLabel]}, pl) == nil && pl.IsDisabled() {
		return
	}
	a.laws.damage(page)
	a.say("page %s is deleted by hand: %v", page.Name, a.hub.Delete(a.ctx, page))
}

// namespaceDeed deletes the namespace with all Placements, and creates it again.
func namespaceDeed(a *actor) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	a.say("the namespace is deleted: %v", a.hub.Delete(a.ctx, namespace))
	for a.hub.Get(a.ctx, client.ObjectKeyFromObject(namespace), namespace) == nil {
		time.Sleep(time.Duration(a.random.Int64N(int64(3 * time.Second))))
	}
	a.createTeam(a.ctx)
	a.say("the namespace is created again")
}

// createTeam creates the namespace and its Placements.
func (w *world) createTeam(ctx context.Context) {
	w.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, fixture.Binding("team", "s1"),
		fixture.Placement("team", "p0").Obj(), fixture.Placement("team", "p1").Number(2).Obj(),
		fixture.Placement("team", "p2").Number(3).Predicate(fixture.MatchLabel("tier", "gold")).Obj())
}

// createFleet creates the fleet.
func (w *world) createFleet(ctx context.Context) {
	for _, name := range []string{"berth", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"} {
		w.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if w.queues {
		w.create(ctx, queueConfig(6, 6, 3))
	}
	w.create(ctx, fixture.Set("s1"), fixture.Set("s2"))
	for i := range 6 {
		tier := "gold"
		if i%3 == 2 {
			tier = "silver"
		}
		w.create(ctx, fixture.Cluster(fmt.Sprint("c", i)).Set("s1").Label("tier", tier).Obj())
	}
	w.createTeam(ctx)
}
