package decisions

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// profileWorld is an API server's memory of the pages of ClusterProfiles.
type profileWorld map[string]ProfilePage

func (w profileWorld) published() []ProfilePage {
	var out []ProfilePage
	for _, name := range slices.Sorted(maps.Keys(w)) {
		out = append(out, w[name])
	}
	return out
}

func (w profileWorld) apply(write ProfileWrite) error {
	if _, exists := w[write.Page.Name]; exists != (write.Op != Create) {
		return fmt.Errorf("%s of page %s, which exists: %t", write.Op, write.Page.Name, exists)
	}
	if write.Op == Delete {
		delete(w, write.Page.Name)
	} else {
		w[write.Page.Name] = write.Page
	}
	return nil
}

// visible is how many pages list each cluster, and how many have each index, to a reader who
// selects by decision-key.
func (w profileWorld) visible(t *rapid.T) (clusters, indexes map[string]int) {
	clusters, indexes = map[string]int{}, map[string]int{}
	for _, page := range w {
		if page.Labels[DecisionKeyLabel] != "p" {
			continue
		}
		if page.Decisions == nil || len(page.Decisions) > v1alpha1.MaxDecisionsPerPage {
			t.Fatalf("page %s lists %d", page.Name, len(page.Decisions))
		}
		indexes[page.Labels[DecisionIndexLabel]]++
		for _, d := range page.Decisions {
			clusters[d.ClusterProfileRef.Namespace+"/"+d.ClusterProfileRef.Name]++
		}
	}
	return clusters, indexes
}

func dense(indexes map[string]int) bool {
	for i := range len(indexes) {
		if indexes[strconv.Itoa(i)] == 0 {
			return false
		}
	}
	return true
}

// disturbProfiles does to a page what people and other programs do.
func disturbProfiles(t *rapid.T, w profileWorld) {
	if len(w) == 0 {
		return
	}
	page := w[rapid.SampledFrom(slices.Sorted(maps.Keys(w))).Draw(t, "page")]
	page.Labels = maps.Clone(page.Labels)
	switch rapid.SampledFrom([]string{"index", "same index", "key", "placement", "group", "delete", "owner", "null", "namespace", "scheduler"}).Draw(t, "disturb") {
	case "index":
		delete(page.Labels, DecisionIndexLabel)
	case "same index":
		page.Labels[DecisionIndexLabel] = "0"
	case "key":
		delete(page.Labels, DecisionKeyLabel)
	case "placement":
		delete(page.Labels, v1alpha1.PlacementLabel)
	case "group":
		page.Labels[v1alpha1.DecisionGroupNameLabel] = "x9"
	case "delete":
		delete(w, page.Name)
		return
	case "owner":
		page.OwnerReferences = nil
	case "null":
		page.Decisions = nil
	case "namespace":
		page.Decisions = slices.Clone(page.Decisions)
		for i := range page.Decisions {
			page.Decisions[i].ClusterProfileRef.Namespace = "old"
		}
	case "scheduler":
		page.SchedulerName = "other"
	}
	w[page.Name] = page
}

// settledProfiles demands that each selected cluster is on one page, and that the pages are
// numbered.
func settledProfiles(t *rapid.T, o Profiles, w profileWorld, pl *v1alpha1.Placement, plan Plan) {
	if again := o.Plan(pl, w.published(), plan); len(again) > 0 {
		t.Fatalf("not at rest: %s", showProfileWrites(again))
	}
	clusters, indexes := w.visible(t)
	want := map[string]int{}
	for _, name := range plan.Selected() {
		want[o.Namespace+"/"+name] = 1
	}
	if d := cmp.Diff(want, clusters); d != "" {
		t.Fatal(d)
	}
	for index, pages := range indexes {
		if pages != 1 || !dense(indexes) {
			t.Fatalf("index %s: %v", index, indexes)
		}
	}
	group := map[string]string{}
	for _, page := range plan.Pages {
		for _, d := range page.Decisions {
			group[d.ClusterName] = fmt.Sprint(page.GroupIndex, page.GroupName)
		}
	}
	for _, page := range w {
		if page.SchedulerName != o.SchedulerName || len(page.OwnerReferences) != 1 || page.OwnerReferences[0].UID != pl.UID {
			t.Fatalf("page %s: %s, %v", page.Name, page.SchedulerName, page.OwnerReferences)
		}
		for _, d := range page.Decisions {
			if got := page.Labels[v1alpha1.DecisionGroupIndexLabel] + page.Labels[v1alpha1.DecisionGroupNameLabel]; got != group[d.ClusterProfileRef.Name] {
				t.Fatalf("%s is in group %s, not %s", d.ClusterProfileRef.Name, got, group[d.ClusterProfileRef.Name])
			}
		}
	}
}

// Wherever a plan is interrupted, readers never miss a cluster that stays, and the end is what the
// Placement's own pages say: every cluster on one page, every page with a number of its own.
func TestProfilePlanIsSafeAndConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own, w, f := newWorld(), profileWorld{}, newFleet(t)
		o := Profiles{Namespace: rapid.SampledFrom([]string{"", "fleet"}).Draw(t, "namespace"), SchedulerName: "berth"}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				f.change(t)
			}
			plan := own.plan(f.grouping(t))
			for _, write := range plan.Writes {
				if err := own.apply(write); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "calm") == 0 {
				disturbProfiles(t, w)
			}
			crashes := rapid.IntRange(0, 5).Draw(t, "crashes")
			for round := 0; ; round++ {
				writes := o.Plan(own.placement, w.published(), plan)
				n := len(writes)
				if n > 0 && round < crashes {
					n = 1 + f.rnd.IntN(n)
				}
				runProfiles(t, o, w, plan, writes[:n])
				if n == len(writes) {
					break
				}
			}
			settledProfiles(t, o, w, own.placement, plan)
		}
	})
}

// runProfiles carries out writes, checking what readers see after each.
func runProfiles(t *rapid.T, o Profiles, w profileWorld, plan Plan, writes []ProfileWrite) {
	wanted := map[string]bool{}
	for _, name := range plan.Selected() {
		wanted[o.Namespace+"/"+name] = true
	}
	for _, page := range w {
		if page.Decisions == nil {
			page.Decisions = []ProfileDecision{}
			w[page.Name] = page
		}
	}
	before, indexes := w.visible(t)
	for k, write := range writes {
		if err := w.apply(write); err != nil {
			t.Fatal(err)
		}
		after, nowIndexes := w.visible(t)
		if dense(indexes) && !dense(nowIndexes) {
			t.Fatalf("%v, after write %d of %s", nowIndexes, k+1, showProfileWrites(writes))
		}
		for cluster := range before {
			if wanted[cluster] && after[cluster] == 0 {
				t.Fatalf("%s is missing after write %d of %s", cluster, k+1, showProfileWrites(writes))
			}
		}
		before, indexes = after, nowIndexes
	}
}

func showProfileWrites(writes []ProfileWrite) string {
	var out []string
	for _, w := range writes {
		out = append(out, fmt.Sprintf("%s %s", w.Op, showProfilePage(w.Page)))
	}
	return strings.Join(out, "\n")
}

// showProfilePage is "name key index group: clusters".
func showProfilePage(page ProfilePage) string {
	l := page.Labels
	text := fmt.Sprintf("%s %s %s %s/%s:", page.Name, l[DecisionKeyLabel], l[DecisionIndexLabel],
		l[v1alpha1.DecisionGroupIndexLabel], l[v1alpha1.DecisionGroupNameLabel])
	for _, d := range page.Decisions {
		text += " " + strings.TrimPrefix(d.ClusterProfileRef.Namespace+"/"+d.ClusterProfileRef.Name, "/")
	}
	return text
}

// Each reference has a name of its own, from which it is found again.
func TestProfileReferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]?(\.[ab])?`)
		o := Profiles{Qualified: rapid.Bool().Draw(t, "qualified")}
		if !o.Qualified {
			o.Namespace = text.Draw(t, "configured")
		}
		ref := ProfileRef{Name: text.Draw(t, "name"), Namespace: text.Draw(t, "namespace")}
		if got := o.refOf(o.clusterOf(ref)); got != ref {
			t.Errorf("%v is %q, which is %v", ref, o.clusterOf(ref), got)
		}
		if cluster := rapid.StringMatching(`[ab](\.[ab])?`).Draw(t, "cluster"); o.clusterOf(o.refOf(cluster)) != cluster {
			t.Errorf("%q is %v, which is %q", cluster, o.refOf(cluster), o.clusterOf(o.refOf(cluster)))
		}
	})
}

func TestProfilePlan(t *testing.T) {
	profilePage := func(name, index, clusters string) ProfilePage {
		page := ProfilePage{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", OwnerReferences: []metav1.OwnerReference{ownerReference(testPlacement())},
			Labels: map[string]string{DecisionKeyLabel: "p", DecisionIndexLabel: index, v1alpha1.PlacementLabel: "p",
				v1alpha1.DecisionGroupIndexLabel: "0", v1alpha1.DecisionGroupNameLabel: ""}},
			Decisions: []ProfileDecision{}, SchedulerName: "berth"}
		for c := range strings.FieldsSeq(clusters) {
			page.Decisions = append(page.Decisions, ProfileDecision{ClusterProfileRef: ProfileRef{Name: c}})
		}
		return page
	}
	changed := func(page ProfilePage, change func(*ProfilePage)) ProfilePage {
		change(&page)
		return page
	}
	tests := map[string]struct {
		profiles  Profiles
		published []ProfilePage
		clusters  string
		length    int32 // of groups
		want      string
	}{
		"nothing is chosen": {want: "Create p-decision-1 p 0 0/:"},
		"the first page":    {clusters: "b a", want: "Create p-decision-1 p 0 0/: a b"},
		"in a namespace":    {profiles: Profiles{Namespace: "fleet"}, clusters: "a", want: "Create p-decision-1 p 0 0/: fleet/a"},
		"qualified":         {profiles: Profiles{Qualified: true}, clusters: "fleet.a fleet.b.c d", want: "Create p-decision-1 p 0 0/: d fleet/a fleet/b.c"},
		"qualified, at rest": {
			profiles: Profiles{Qualified: true, SchedulerName: "berth"}, clusters: "fleet.a d",
			published: []ProfilePage{changed(profilePage("p-decision-1", "0", "d a"), func(p *ProfilePage) { p.Decisions[1].ClusterProfileRef.Namespace = "fleet" })},
		},
		"qualified, after plain": {
			profiles: Profiles{Qualified: true, SchedulerName: "berth"}, clusters: "fleet.a",
			published: []ProfilePage{profilePage("p-decision-1", "0", "fleet.a")}, want: "Update p-decision-1 p 0 0/: fleet/a",
		},
		"groups share no page":  {clusters: "a b c", length: 2, want: "Create p-decision-1 p 0 0/: a b\nCreate p-decision-2 p 1 1/: c"},
		"at rest":               {published: []ProfilePage{profilePage("p-decision-1", "0", "a b")}, clusters: "a b"},
		"at rest, with nothing": {published: []ProfilePage{profilePage("p-decision-1", "0", "")}},
		"one comes":             {published: []ProfilePage{profilePage("p-decision-1", "0", "a c")}, clusters: "a b c", want: "Update p-decision-1 p 0 0/: a b c"},
		"a page becomes too much": {
			published: []ProfilePage{profilePage("p-decision-1", "0", "a"), profilePage("p-decision-2", "1", "b"), profilePage("p-decision-3", "2", "c")},
			clusters:  "a c", want: "Update p-decision-3 p 1 0/: c\nDelete p-decision-2 p 1 0/:",
		},
		"another number is taken": {
			published: []ProfilePage{profilePage("p-decision-1", "0", "a"), profilePage("p-decision-2", "0", "b")},
			clusters:  "a b", want: "Update p-decision-2 p 1 0/: b",
		},
		"it has no key": {
			published: []ProfilePage{changed(profilePage("p-decision-1", "0", "a"), func(p *ProfilePage) { delete(p.Labels, DecisionKeyLabel) })},
			clusters:  "a", want: "Update p-decision-1 p 0 0/: a",
		},
		"another scheduler's name": {
			published: []ProfilePage{changed(profilePage("p-decision-1", "0", "a"), func(p *ProfilePage) { p.SchedulerName = "other" })},
			clusters:  "a", want: "Update p-decision-1 p 0 0/: a",
		},
		"another namespace's clusters stay until all pages are right": {
			profiles:  Profiles{Namespace: "fleet"},
			published: []ProfilePage{profilePage("p-decision-1", "0", "a"), profilePage("p-decision-2", "1", "b")},
			clusters:  "a b", length: 1,
			want: "Update p-decision-1 p 0 0/: a fleet/a\nUpdate p-decision-2 p 1 1/: fleet/b\nUpdate p-decision-1 p 0 0/: fleet/a",
		},
		"another client's page": {
			published: []ProfilePage{changed(profilePage("p-decision-1", "0", "x"), func(p *ProfilePage) { p.OwnerReferences[0].UID = "other" })},
			clusters:  "a", want: "Create p-decision-2 p 0 0/: a",
		},
		"an unlabelled page without owner": {
			published: []ProfilePage{{ObjectMeta: metav1.ObjectMeta{Name: "p-decision-1", Namespace: "ns"}}},
			clusters:  "a", want: "Create p-decision-2 p 0 0/: a",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var choices []Choice
			for c := range strings.FieldsSeq(tc.clusters) {
				choices = append(choices, Choice{Name: c})
			}
			strategy, err := Compile(v1alpha1.DecisionStrategy{GroupStrategy: v1alpha1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromInt32(tc.length)}})
			if err != nil {
				t.Fatal(err)
			}
			tc.profiles.SchedulerName = "berth"
			writes := tc.profiles.Plan(testPlacement(), tc.published, newWorld().plan(strategy.Group(choices, false)))
			if d := cmp.Diff(tc.want, showProfileWrites(writes)); d != "" {
				t.Error(d)
			}
			for _, write := range writes {
				if page := write.Page; write.Op == Create && (page.APIVersion != ProfileGroupVersion || page.Kind != ProfileKind) {
					t.Errorf("page %s is a %s of %s", page.Name, page.Kind, page.APIVersion)
				}
				if annotations := write.Page.Annotations; len(annotations) > 0 {
					t.Errorf("page %s has %v", write.Page.Name, annotations)
				}
			}
		})
	}
}
