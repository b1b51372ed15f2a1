package property

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// growing is what a tenant, or a cluster, can write much of.
type growing struct {
	// limit is the largest size that the schema, or a check, allows.
	limit int
	// objects are of one size. They belong to the Placement ns/p, which has the clusters c0 to c39.
	objects func(size int) []client.Object
}

const growthClusters = 40

var growthKey = types.NamespacedName{Namespace: "ns", Name: "p"}

func growthCases() map[string]growing {
	placement := func(limit int, set func(spec *v1alpha1.PlacementSpec, size int)) growing {
		return growing{limit, func(size int) []client.Object {
			pl := fixture.Placement("ns", "p").Obj()
			set(&pl.Spec, size)
			return []client.Object{pl}
		}}
	}
	cluster := func(limit int, set func(c fixture.ClusterBuilder, i int) fixture.ClusterBuilder) growing {
		return growing{limit, func(size int) (all []client.Object) {
			for c := range growthClusters {
				b := fixture.Cluster(fmt.Sprint("c", c)).Set("s1").Label("l", strconv.Itoa(c))
				for i := range size {
					b = set(b, i)
				}
				all = append(all, b.Obj())
			}
			return all
		}}
	}
	cases := map[string]growing{
		"clusterSets": placement(v1alpha1.MaxClusterSets, func(s *v1alpha1.PlacementSpec, size int) {
			s.ClusterSets = append(names("none", size-1), "s1")
		}),
		"predicates": placement(v1alpha1.MaxPredicates, func(s *v1alpha1.PlacementSpec, size int) {
			for i := range size {
				s.Predicates = append(s.Predicates, v1alpha1.ClusterPredicate{RequiredClusterSelector: selectorOf(fmt.Sprint("k", i), "x")})
			}
		}),
		"values of a requirement": placement(v1alpha1.MaxRequirementValues, func(s *v1alpha1.PlacementSpec, size int) {
			s.Predicates = []v1alpha1.ClusterPredicate{{RequiredClusterSelector: selectorOf("l", names("v", size)...)}}
		}),
		"tolerations": placement(v1alpha1.MaxTolerations, func(s *v1alpha1.PlacementSpec, size int) {
			for i := range size {
				s.Tolerations = append(s.Tolerations, v1alpha1.Toleration{Key: fmt.Sprint("t", i), Operator: v1alpha1.TolerationOpExists})
			}
		}),
		"spreadConstraints": placement(v1alpha1.MaxSpreadConstraints, func(s *v1alpha1.PlacementSpec, size int) {
			for i := range size {
				s.SpreadPolicy.SpreadConstraints = append(s.SpreadPolicy.SpreadConstraints, v1alpha1.SpreadConstraintsTerm{
					TopologyKey: fmt.Sprint("k", i), TopologyKeyType: v1alpha1.TopologyKeyTypeLabel, MaxSkew: 1, WhenUnsatisfiable: v1alpha1.ScheduleAnyway,
				})
			}
		}),
		"decisionGroups": placement(v1alpha1.MaxDecisionGroups, func(s *v1alpha1.PlacementSpec, size int) {
			for i := range size {
				group := v1alpha1.DecisionGroup{GroupName: fmt.Sprint("g", i)}
				group.ClusterSelector.LabelSelector.MatchLabels = map[string]string{"l": strconv.Itoa(i)}
				s.DecisionStrategy.GroupStrategy.DecisionGroups = append(s.DecisionStrategy.GroupStrategy.DecisionGroups, group)
			}
		}),
		"prioritizers": placement(v1alpha1.MaxPrioritizers, func(s *v1alpha1.PlacementSpec, size int) {
			for i := range size {
				s.PrioritizerPolicy.Configurations = append(s.PrioritizerPolicy.Configurations, v1alpha1.PrioritizerConfig{Weight: new(int32(1)), ScoreCoordinate: &v1alpha1.ScoreCoordinate{
					Type: v1alpha1.ScoreCoordinateTypeAddOn, AddOn: &v1alpha1.AddOnScore{ResourceName: fmt.Sprint("r", i), ScoreName: "v"},
				}})
			}
		}),
		"tolerations of many taints": {v1alpha1.MaxTolerations, func(size int) []client.Object {
			pl := fixture.Placement("ns", "p")
			for i := range size {
				pl = pl.Toleration(fmt.Sprint("x", i), v1alpha1.TolerationOpEqual, "x", v1alpha1.TaintEffectNoSelect)
			}
			all := []client.Object{pl.Obj()}
			for c := range growthClusters {
				b := fixture.Cluster(fmt.Sprint("c", c)).Set("s1").Label("l", strconv.Itoa(c))
				for i := range 64 {
					b = b.Taint(fmt.Sprint("t", i), "", v1alpha1.TaintEffectPreferNoSelect)
				}
				all = append(all, b.Obj())
			}
			return all
		}},
		"taints of clusters": cluster(256, func(c fixture.ClusterBuilder, i int) fixture.ClusterBuilder {
			return c.Taint(fmt.Sprint("t", i), "", v1alpha1.TaintEffectPreferNoSelect)
		}),
		"claims of clusters": cluster(1000, func(c fixture.ClusterBuilder, i int) fixture.ClusterBuilder {
			return c.Claim(fmt.Sprint("claim", i), "x")
		}),
		"scores of an AddOnPlacementScore": {1000, func(size int) (all []client.Object) {
			for c := range growthClusters {
				score := fixture.Score(fmt.Sprint("c", c), "r")
				for i := range size {
					score = score.Value(fmt.Sprint("v", i), int32(i%100))
				}
				all = append(all, score.Obj())
			}
			return append(all, fixture.Placement("ns", "p").AddOn("r", "v1", 1).Obj())
		}},
		"preferences": selectionCase(32, func(s *berthv1alpha1.SelectionPolicySpec, size int) {
			for i := range size {
				s.Preferences = append(s.Preferences, berthv1alpha1.Preference{Weight: 1, ClusterSelector: selectorOf(fmt.Sprint("k", i), "x")})
			}
		}),
		"tiers": selectionCase(berthv1alpha1.MaxSelectionTiers, func(s *berthv1alpha1.SelectionPolicySpec, size int) {
			for i := range size {
				s.Tiers = append(s.Tiers, berthv1alpha1.SelectionTier{Name: fmt.Sprint("t", i), ClusterSelector: selectorOf("l", strconv.Itoa(i))})
			}
		}),
		"groups": selectionCase(berthv1alpha1.MaxSelectionGroups, func(s *berthv1alpha1.SelectionPolicySpec, size int) {
			for i := range size {
				s.Groups = append(s.Groups, berthv1alpha1.SelectionGroup{Name: fmt.Sprint("g", i), ClusterSelector: selectorOf("l", strconv.Itoa(i)), Min: new(int32(1))})
			}
		}),
		"included names": selectionCase(10_000, func(s *berthv1alpha1.SelectionPolicySpec, size int) {
			s.ClusterNames.Include = append(names("n", size), "c1")
		}),
		"excluded names": selectionCase(10_000, func(s *berthv1alpha1.SelectionPolicySpec, size int) { s.ClusterNames.Exclude = names("n", size) }),
		"affinity": selectionCase(16, func(s *berthv1alpha1.SelectionPolicySpec, size int) {
			for i := range size {
				s.Affinity.ApartFrom = append(s.Affinity.ApartFrom, berthv1alpha1.PlacementReference{Placement: fmt.Sprint("other", i)})
			}
		}),
		"PlacementEvictions": {2000, func(size int) (all []client.Object) {
			for i := range size {
				all = append(all, fixture.Eviction("ns", fmt.Sprint("e", i), "p", fmt.Sprint("c", i)).Created(fixture.Now).Valid(metav1.ConditionTrue).Obj())
			}
			return all
		}},
		"DisruptionPolicies": {berthv1alpha1.MaxPoliciesPerPlacement, func(size int) (all []client.Object) {
			for i := range size {
				all = append(all, growthPolicy(i, berthv1alpha1.MaxPolicyWindows))
			}
			return all
		}},
		"budgets of DisruptionPolicies": {berthv1alpha1.MaxPoliciesPerPlacement, func(size int) (all []client.Object) {
			for i := range size {
				all = append(all, growthPolicy(i, 0))
			}
			return all
		}},
		"DisruptionPolicies beyond the limit": {800, func(size int) (all []client.Object) {
			for i := range size {
				all = append(all, growthPolicy(i, 1))
			}
			return all
		}},
		"SelectionPolicies": {1000, func(size int) (all []client.Object) {
			for i := range size {
				policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("s", i), UID: types.UID(fmt.Sprint("s", i))}}
				policy.Spec.Placement = "p"
				all = append(all, policy)
			}
			return all
		}},
		"windows of a DisruptionPolicy": {berthv1alpha1.MaxPolicyWindows, func(size int) []client.Object { return []client.Object{growthPolicy(0, size)} }},
		"records": {100, func(size int) []client.Object {
			return recordsOf(size, func(s *berthv1alpha1.PlacementChangeSpec) { s.Removed = names("n", 100) })
		}},
	}
	maps.Copy(cases, listCases())
	return cases
}

func growthPolicy(number, windows int) *berthv1alpha1.DisruptionPolicy {
	policy := fixture.ApprovalPolicy("ns", fmt.Sprint("d", number))
	policy.Spec.Approval = ""
	for i := range windows {
		policy.Spec.Windows = append(policy.Spec.Windows, berthv1alpha1.RecurringWindow{Schedule: fmt.Sprintf("%d %d * * *", i, number%24), Duration: "1s"})
	}
	return policy
}

func selectorOf(key string, values ...string) (s v1alpha1.ClusterSelector) {
	operator := metav1.LabelSelectorOpNotIn
	if key == "l" && len(values) == 1 {
		operator = metav1.LabelSelectorOpIn
	}
	s.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}
	return s
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// countedPackages are those whose statements count, also of libraries.
const countedPackages = "github.com/berth-dev/berth/pkg/...,github.com/berth-dev/berth/api/...,k8s.io/apimachinery/pkg/labels,github.com/robfig/cron/v3"

// mostStatements bounds two attempts with the longest list. Windows that are not computed before
// take more.
const mostStatements = 1_000_000

const (
	growthCase     = "BERTH_GROWTH_CASE"
	growthSize     = "BERTH_GROWTH_SIZE"
	growthAttempts = "BERTH_GROWTH_ATTEMPTS"
)

// TestGrowthOfOneCase is what TestWorkGrowsLinearly measures: two attempts, and the report of a
// cluster between them. Without attempts it only prepares them. The Placement has a change: a
// cluster is gone, others are new.
func TestGrowthOfOneCase(t *testing.T) {
	if os.Getenv(growthCase) == "" {
		t.Skip("TestWorkGrowsLinearly runs it")
	}
	size, _ := strconv.Atoi(os.Getenv(growthSize))
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("ns", "s1"))
	inv.Update(fixture.Placement("ns", "p").Obj())
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists(append(names("c", growthClusters/2), "gone")...).Obj())
	growthCluster := func(c int) fixture.ClusterBuilder {
		return fixture.Cluster(fmt.Sprint("c", c)).Set("s1").Label("l", strconv.Itoa(c))
	}
	for c := range growthClusters {
		inv.Update(growthCluster(c).Obj())
	}
	if of, is := growthCases()[os.Getenv(growthCase)]; is {
		for _, o := range of.objects(size) {
			inv.Update(o)
		}
		if os.Getenv(growthCase) == objectsOfSource {
			inv.ReplaceReadiness(objectsOfSource, readyObjects(size), nil)
		}
	}
	profiles, err := builtin.Profiles(t.Context(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	engine := scheduler.New(profiles, scheduler.NewMemory())
	for !engine.Prepare(inv.Placement(growthKey), inv.SelectionPolicies(growthKey)...) {
	}
	inv.PrepareWindows(growthKey, fixture.Now)
	if os.Getenv(growthAttempts) == "0" {
		return
	}
	for range 2 {
		a := engine.Decide(t.Context(), inv.Snapshot(growthKey, fixture.Now, nil))
		if strings.HasPrefix(os.Getenv(growthCase), "DisruptionPolicies") && len(a.Change.Added) > 0 {
			t.Fatalf("the windows do not hold the additions: %s, %v", a.Outcome, a.Failure)
		}
		engine.Release(a.Decision)
		inv.Update(growthCluster(0).Label("new", "x").Obj())
	}
}

// TestWorkGrowsLinearly: each kind of object that a tenant or a cluster writes is grown to its
// limit. From half of it to the whole, the statements of the attempts grow by at most 2.8 times as
// many as from a quarter to half: 2 is linear, 4 quadratic, and sorting is between. None takes more
// than mostStatements. They are counted as in a coverage profile, so the result does not depend on
// the machine.
func TestWorkGrowsLinearly(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a binary")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "growth.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-w", "-covermode=count", "-coverpkg="+countedPackages, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(name string, size, attempts int) int {
		profile := filepath.Join(dir, "profile")
		command := exec.Command(binary, "-test.run=^TestGrowthOfOneCase$", "-test.coverprofile="+profile)
		command.Env = append(os.Environ(), growthCase+"="+name, fmt.Sprintf("%s=%d", growthSize, size), fmt.Sprintf("%s=%d", growthAttempts, attempts))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s, %d: %v\n%s", name, size, err, out)
		}
		return statements(t, profile)
	}
	work := func(name string, size int) int { return run(name, size, 2) - run(name, size, 0) }
	cases, least := growthCases(), work("none", 0)/5
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		limit := cases[name].limit
		quarter, half, whole := work(name, limit/4), work(name, limit/2), work(name, limit)
		t.Logf("%s: %d statements for %d, %d for %d, %d for %d", name, quarter, limit/4, half, limit/2, whole, limit)
		if more := whole - half; more > least && more*10 > (half-quarter)*28 {
			t.Errorf("%s: %d statements for %d, %d for %d, %d for %d", name, quarter, limit/4, half, limit/2, whole, limit)
		}
		if whole > mostStatements {
			t.Errorf("%s: %d statements for %d, at most %d", name, whole, limit, mostStatements)
		}
	}
}

// statements returns how many statements were run.
func statements(t *testing.T, profile string) (sum int) {
	t.Helper()
	file, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			continue
		}
		n, _ := strconv.Atoi(fields[1])
		count, _ := strconv.Atoi(fields[2])
		sum += n * count
	}
	return sum
}
