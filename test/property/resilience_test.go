package property

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// TestResilience compares each loss in a report with a decision on an inventory from which the
// clusters of the domain were deleted.
func TestResilience(t *testing.T) {
	stats := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		objects := drawHub(t)
		by := oneOf(t, "by", "label:a", "label:zone", "claim:k", "cluster")
		key, err := resilience.ParseKey(by)
		if err != nil {
			t.Fatal(err)
		}
		s, err := simulator.New(context.Background(), objects, fixture.Now, simulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Resilience(context.Background(), key, s.Placements(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := (&survey{t: t, objects: objects, by: by, stats: stats}).report()
		for i := range got.Placements {
			p := &got.Placements[i]
			p.Why, p.Message, p.Misconfigured = "", "", false
			for j := range p.Losses {
				p.Losses[j].Why = ""
			}
		}
		for _, report := range []*resilience.Report{got, want} {
			slices.SortFunc(report.Placements, func(a, b resilience.Placement) int {
				return strings.Compare(a.Placement, b.Placement)
			})
			for i := range report.Placements {
				slices.SortFunc(report.Placements[i].Losses, func(a, b resilience.Loss) int { return strings.Compare(a.Domain, b.Domain) })
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-clusters deleted +report:\n%s", diff)
		}
	})
	t.Logf("%v", stats)
	if flag.Lookup("rapid.checks").Value.String() != flag.Lookup("rapid.checks").DefValue {
		return
	}
	for _, what := range []string{"survived", "missing", "replaced", "without domain", "not satisfied"} {
		if stats[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
}

// TestResilientCondition compares the condition of the plugin Resilience, which selects again, with
// the report, which decides again. They may differ for prioritizers whose scores depend on other
// clusters.
func TestResilientCondition(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		objects := drawHub(t)
		by := oneOf(t, "by", "label:a", "label:zone", "claim:k")
		key, err := resilience.ParseKey(by)
		if err != nil {
			t.Fatal(err)
		}
		configuration, err := config.Load([]byte(`{"apiVersion": "config.berth.dev/v1alpha1", "kind": "PlacementSchedulerConfiguration",
			"profiles": [{"pluginConfig": [{"name": "Resilience", "args": {"key": "` + by + `"}}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		of := func() *simulator.Simulator {
			s, err := simulator.New(context.Background(), objects, fixture.Now, simulator.Options{Config: configuration})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := of()
		report, err := s.Resilience(context.Background(), key, s.Placements(), nil)
		if err != nil {
			t.Fatal(err)
		}
		messages := map[string]string{}
		for _, p := range report.Placements {
			messages[p.Placement] = p.Message
		}
		s = of()
		for _, name := range s.Placements() {
			outline, err := s.Outline(context.Background(), name)
			if err != nil {
				t.Fatal(err)
			}
			if outline.Answer == nil || outline.PrioritizerScores[v1alpha1.PrioritizerResourceAllocatableCPU].Weight != 0 ||
				outline.PrioritizerScores[v1alpha1.PrioritizerResourceAllocatableMemory].Weight != 0 {
				continue
			}
			if c := outline.Conditions.Get(v1alpha1.PlacementConditionResilient); c != nil {
				compared++
				if c.Message != messages[name.String()] {
					t.Fatalf("%s:\ncondition %s\nreport    %s", name, c.Message, messages[name.String()])
				}
			}
		}
	})
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// drawHub returns the objects of a hub, with SelectionPolicies or without. A controller sets the
// condition Valid of evictions; here there is none.
func drawHub(t *rapid.T) simulator.Objects {
	var all []client.Object
	if rapid.Bool().Draw(t, "policies") {
		w := newSelectionWorld(t, map[string]int{})
		for range rapid.IntRange(0, 8).Draw(t, "changes") {
			w.change()
		}
		w.decideAffected()
		all = w.all()
	} else {
		all = drawWorld(t).all()
	}
	return slices.DeleteFunc(all, func(o client.Object) bool {
		_, eviction := o.(*berthv1alpha1.PlacementEviction)
		return eviction
	})
}

// survey computes a report by deleting clusters.
type survey struct {
	t       *rapid.T
	objects simulator.Objects
	by      string
	stats   map[string]int
}

// earlier is a Placement that was decided before.
type earlier struct {
	key      inventory.Key
	clusters []string
}

// decide decides a Placement without a domain, after the earlier ones.
func (s *survey) decide(key inventory.Key, domain string, before []earlier) *scheduler.Attempt {
	inv := inventory.New(inventory.Options{})
	for _, o := range s.objects {
		inv.Update(o)
	}
	for _, e := range before {
		if inv.CountsClusters(e.key.Namespace) {
			inv.Claim(e.key, e.clusters)
		}
	}
	for _, c := range simulator.List[*v1alpha1.ManagedCluster](s.objects) {
		if domain != "" && s.domainOf(c) == domain {
			inv.Delete(c)
		}
	}
	return newScheduler(s.t, true).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
}

func (s *survey) domainOf(c *v1alpha1.ManagedCluster) string {
	switch s.by {
	case "label:a":
		return c.Labels["a"]
	case "label:zone":
		return c.Labels["zone"]
	case "cluster":
		return c.Name
	}
	domain := ""
	for _, claim := range c.Status.ClusterClaims {
		if claim.Name == "k" {
			domain = claim.Value
		}
	}
	return domain
}

func (s *survey) report() *resilience.Report {
	report := &resilience.Report{By: s.by, Placements: []resilience.Placement{}}
	inv := inventory.New(inventory.Options{})
	for _, o := range s.objects {
		inv.Update(o)
	}
	var before []earlier
	for _, key := range inv.Placements() {
		p := resilience.Placement{Placement: key.String(), Skipped: framework.WhyNotDecided(inv.Placement(key)), Losses: []resilience.Loss{}}
		if p.Skipped == "" {
			a := s.decide(key, "", before)
			s.lose(key, &p, a, before)
			if a.Target != nil {
				before = append(before, earlier{key, a.Target.Clusters})
			}
		}
		report.Placements = append(report.Placements, p)
	}
	return report
}

func (s *survey) lose(key inventory.Key, p *resilience.Placement, a *scheduler.Attempt, before []earlier) {
	had := sortedSelection(a.Decision)
	if n := a.Snapshot.Subject.Placement.Spec.NumberOfClusters; n != nil {
		p.Wanted = new(int(*n))
	}
	p.Satisfied, p.Selected = satisfiedBy(a.Decision), len(had)
	if !p.Satisfied {
		s.stats["not satisfied"]++
		return
	}
	domains := map[string][]string{}
	for _, name := range a.CandidateNames() {
		domain := s.domainOf(a.Snapshot.Cluster(name).ManagedCluster)
		if domain == "" {
			p.WithoutDomain++
			s.stats["without domain"]++
			continue
		}
		domains[domain] = append(domains[domain], name)
	}
	for domain, names := range domains {
		after := s.decide(key, domain, before)
		has, kept := sortedSelection(after.Decision), changes.Minus(had, names)
		l := resilience.Loss{Domain: domain, Clusters: len(names), Lost: len(had) - len(kept), Satisfied: satisfiedBy(after.Decision)}
		switch {
		case after.Failure != nil:
			l.Missing = l.Lost
		default:
			if !l.Satisfied {
				l.Missing = after.Shortfall.Missing
			}
			l.Added, l.Removed = len(changes.Minus(has, had)), len(changes.Minus(kept, has))
		}
		p.Add(l)
		for what, n := range map[string]int{"missing": l.Missing, "replaced": l.Added, "removed": l.Removed} {
			s.stats[what] += n
		}
	}
	s.stats["survived"] += p.Survived
}

func satisfiedBy(r *decide.Decision) bool {
	return meta.IsStatusConditionPresentAndEqual(r.Conditions(), v1alpha1.PlacementConditionSatisfied, metav1.ConditionTrue)
}

func sortedSelection(r *decide.Decision) []string {
	var names []string
	for _, s := range r.Selected {
		names = append(names, s.Cluster.Name)
	}
	slices.Sort(names)
	return names
}
