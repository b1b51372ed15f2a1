package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

// stated is a Placement of namespace shop with conditions, as "PlacementSatisfied=False Reason".
func stated(name string, selected int32, conditions ...string) *v1alpha1.Placement {
	pl := fixture.Placement("shop", name).Generation(1).Obj()
	pl.UID, pl.Status.NumberOfSelectedClusters = types.UID(name+"-uid"), selected
	for _, text := range conditions {
		kind, rest, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(rest, " ")
		pl.Status.Conditions = append(pl.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "says " + reason, ObservedGeneration: 1,
		})
	}
	return pl
}

// unwell are Placements in many states.
func unwell() []client.Object {
	const satisfied = "PlacementSatisfied=True AllDecisionsScheduled"
	pinned := stated("pinned", 3, satisfied)
	pinned.Annotations = map[string]string{berthv1alpha1.PinnedRevisionAnnotation: "4"}
	surplus := stated("surplus", 18, "PlacementSatisfied=False DecisionPending", "DecisionPending=True Held")
	surplus.Spec.NumberOfClusters = new(int32(16))
	stop := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stop"}}
	stop.Spec.Placements, stop.Spec.Suspend = []string{"stopped"}, true
	return []client.Object{
		stated("fine", 3, satisfied), pinned, surplus, stop, stated("stopped", 3, satisfied),
		stated("rejected", 3, satisfied, "DecisionPending=False Rejected"),
		stated("short", 1, "PlacementSatisfied=False NotAllDecisionsScheduled"),
		stated("wrong", 0, "PlacementSatisfied=False Misconfigured"),
	}
}

func TestStatusTable(t *testing.T) {
	hub := serveHub(t, unwell())
	out, stderr, code := hub.run("status", "-A", "-o", "json")
	var got struct {
		Placements []struct {
			Placement, Why string
			States         []string
			Done           bool
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err, stderr)
	}
	var lines []string
	for _, p := range got.Placements {
		lines = append(lines, fmt.Sprintf("%s %v %t %s", p.Placement, p.States, p.Done, p.Why))
	}
	want := []string{
		"shop/wrong [misconfigured] true says Misconfigured", "shop/short [short] true says NotAllDecisionsScheduled", "shop/surplus [held] false says Held",
		"shop/rejected [rejected satisfied] true says Rejected", "shop/stopped [suspended satisfied] true Suspended by DisruptionPolicy stop.",
		"shop/pinned [pinned satisfied] true Pinned to revision 4. To unpin: kubectl placement unpin pinned -n shop", "shop/fine [satisfied] true says AllDecisionsScheduled",
	}
	if diff := cmp.Diff(want, lines); diff != "" || code != 4 {
		t.Errorf("exit code %d; (-want +got):\n%s", code, diff)
	}
	for name, wantCode := range map[string]int{"fine": 0, "pinned": 0, "rejected": 0, "stopped": 0, "surplus": 3, "wrong": 4, "short": 5} {
		out, _, code := hub.run("status", name)
		if code != wantCode {
			t.Errorf("status %s: exit code %d, want %d:\n%s", name, code, wantCode, out)
		}
	}
	if out, _, _ := hub.run("status", "pinned"); !strings.Contains(out, "\n  Pinned to revision 4. To unpin: kubectl placement unpin pinned -n shop\n") {
		t.Errorf("the pin is not shown:\n%s", out)
	}
	if out, _, _ := hub.run("status", "shop/stopped"); !strings.Contains(out, "\n  Suspended by DisruptionPolicy stop.\n") {
		t.Errorf("the policy is not shown:\n%s", out)
	}
	out, _, _ = hub.run("status")
	for _, row := range []string{"wrong misconfigured", "rejected rejected", "stopped suspended", "pinned pinned", "surplus held", "fine satisfied"} {
		if !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
			return strings.HasPrefix(strings.Join(strings.Fields(line), " "), "shop "+row+" ")
		}) {
			t.Errorf("no row %q:\n%s", row, out)
		}
	}
}

// TestRequestsForAll: one list a kind, however many Placements there are.
func TestRequestsForAll(t *testing.T) {
	var objects []client.Object
	for i := range 1_000 {
		pl := stated(fmt.Sprintf("p%d", i), 1, "PlacementSatisfied=True AllDecisionsScheduled")
		record := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: pl.Name + "-1", Labels: map[string]string{v1alpha1.PlacementLabel: pl.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersionV1Beta1.String(), Kind: "Placement", Name: pl.Name, UID: pl.UID, Controller: new(true)}},
		}}
		record.Spec.Placement, record.Spec.Revision, record.Status.Phase = pl.Name, 1, berthv1alpha1.PhasePublished
		objects = append(objects, pl, record)
	}
	for _, verb := range []string{"status", "history"} {
		hub := serveHub(t, objects)
		out, stderr, code := hub.run(verb, "-A")
		if n := strings.Count(out, "\n"); code != 0 || n != 1_001 {
			t.Errorf("%s: exit code %d, %d lines; %s", verb, code, n, stderr)
		}
		kinds := map[string]int{"status": 5, "history": 4}[verb] // status names unavailable clusters, too
		if len(hub.requests) != kinds {
			t.Errorf("%s -A makes %d requests, want one for each of %d kinds: %q", verb, len(hub.requests), kinds, hub.requests[:min(len(hub.requests), 10)])
		}
	}
}

// TestWithoutRights: a user who may not list Placements does not read that there are none.
func TestWithoutRights(t *testing.T) {
	hub := serveHub(t, unwell(), "placements")
	for _, args := range [][]string{{"status", "-A"}, {"history", "-A"}, {"explain", "-A"}, {"status"}, {"approve", "-A"}} {
		out, stderr, code := hub.run(args...)
		if code != exitFailure || !strings.Contains(stderr, "cannot list resource") || strings.Contains(out+stderr, "no Placements") {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, stderr)
		}
		if hint := strings.Contains(stderr, "-n NAMESPACE shows one namespace"); hint != slices.Contains(args, "-A") {
			t.Errorf("%q: the hint is shown: %t: %s", args, hint, stderr)
		}
	}
	// Policies only add words to the states.
	hub = serveHub(t, unwell(), "disruptionpolicies", "selectionpolicies")
	if _, stderr, code := hub.run("status", "stopped"); code != 0 {
		t.Errorf("without the policies: exit code %d: %s", code, stderr)
	}
}

// TestUnavailableAboveStatus: the table of all namespaces begins with the unavailable clusters.
func TestUnavailableAboveStatus(t *testing.T) {
	cluster := func(name, taint string) client.Object {
		return fixture.Cluster(name).Taint(taint, "", v1alpha1.TaintEffectNoSelect).Obj()
	}
	one := []client.Object{stated("fine", 3, "PlacementSatisfied=True AllDecisionsScheduled"), cluster("paris1", v1alpha1.ManagedClusterTaintUnreachable), cluster("rome1", "spot")}
	many := slices.Clone(one)
	for i := range 7 {
		many = append(many, cluster(fmt.Sprintf("berlin%d", i), v1alpha1.ManagedClusterTaintUnavailable))
	}
	for name, tc := range map[string]struct {
		objects   []client.Object
		forbidden []string
		args      []string
		want      string
	}{
		"one":       {objects: one, args: []string{"-A"}, want: "1 cluster is unavailable: paris1\n\nNAMESPACE"},
		"many":      {objects: many, args: []string{"-A"}, want: "8 clusters are unavailable: berlin0, berlin1, berlin2, berlin3, berlin4 … 3 more\n\nNAMESPACE"},
		"none":      {objects: one[:1], args: []string{"-A"}, want: "NAMESPACE"},
		"forbidden": {objects: one, forbidden: []string{"managedclusters"}, args: []string{"-A"}, want: "NAMESPACE"},
		"namespace": {objects: one, want: "NAMESPACE"},
		"wide":      {objects: one, args: []string{"-A", "-o", "wide"}, want: "NAMESPACE"},
		"name":      {objects: one, args: []string{"-A", "-o", "name"}, want: "placement."},
	} {
		out, stderr, code := serveHub(t, tc.objects, tc.forbidden...).run(append([]string{"status"}, tc.args...)...)
		if code != 0 || !strings.HasPrefix(out, tc.want) {
			t.Errorf("%s: exit code %d, want %q:\n%s%s", name, code, tc.want, out, stderr)
		}
	}
}

// TestUnavailableFirst: a Placement whose clusters are unavailable comes first, whatever it says of
// itself.
func TestUnavailableFirst(t *testing.T) {
	objects := []client.Object{
		stated("dark", 2, "PlacementSatisfied=True AllDecisionsScheduled"), stated("fine", 2, "PlacementSatisfied=True AllDecisionsScheduled"),
		stated("short", 1, "PlacementSatisfied=False NotAllDecisionsScheduled"), fixture.Cluster("rome1").Obj(),
		fixture.Page("shop", "fine-decision-1").Of("fine").OwnedBy("fine").Lists("rome1", "rome1").Obj(),
		fixture.Page("shop", "dark-decision-1").Of("dark").OwnedBy("dark").Lists("paris1", "paris2").Obj(),
		// A cluster is on two pages while it changes its page.
		fixture.Page("shop", "dark-decision-2").Of("dark").OwnedBy("dark").Lists("paris1").Obj(),
		fixture.Page("shop", "forged").Of("fine").ControlledBy("Other", "o").Lists("paris1").Obj(),
	}
	for _, object := range objects[:3] {
		object.SetUID(types.UID("shop/" + object.GetName()))
	}
	for _, name := range []string{"paris1", "paris2"} {
		objects = append(objects, fixture.Cluster(name).Taint(v1alpha1.ManagedClusterTaintUnreachable, "", v1alpha1.TaintEffectNoSelect).Obj())
	}
	out, stderr, _ := serveHub(t, objects).run("status", "-A")
	rows := strings.Split(out, "\n")[3:]
	if fields := strings.Fields(rows[0]); fields[1] != "dark" || !strings.Contains(rows[0], "2 (2 unavailable)") || strings.Contains(rows[2], "unavailable") {
		t.Errorf("%s%s", out, stderr)
	}
}

// TestStatusOfSuspended: the head of a suspended change says that it is suspended.
func TestStatusOfSuspended(t *testing.T) {
	change := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-15"}}
	change.Spec.Placement, change.Spec.Revision, change.Status.Phase = "web", 15, berthv1alpha1.PhaseProgressing
	stop := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "web-suspend"}, Spec: berthv1alpha1.DisruptionPolicySpec{Suspend: true}}
	in := changes.StateInput{
		Placement: stated("web", 3, "PlacementSatisfied=True AllDecisionsScheduled"), History: changes.History{change}, DisruptionPolicies: []*berthv1alpha1.DisruptionPolicy{stop},
	}
	var out strings.Builder
	if err := statusOf(in).print(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n  Suspended by DisruptionPolicy web-suspend. To resume: kubectl placement resume web -n shop\n", "change 15: Progressing, suspended\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q:\n%s", want, &out)
		}
	}
}

// TestStatusRows: a row counts what of a change in steps is done, and its wide form has all that a
// user may have to act on.
func TestStatusRows(t *testing.T) {
	progressing := record(t, 0, 7, "a b c", "c d e", berthv1alpha1.PhaseProgressing, func(r *berthv1alpha1.PlacementChange) {
		r.Status.Remaining = &berthv1alpha1.RemainingClusters{Added: 1, Removed: 2}
	})
	grows := record(t, 0, 7, "", "a b", berthv1alpha1.PhaseProgressing, func(r *berthv1alpha1.PlacementChange) {
		r.Status.Remaining = &berthv1alpha1.RemainingClusters{Added: 2}
	})
	held := record(t, 0, 7, "a b c", "c d e", berthv1alpha1.PhaseHeld, nil)
	const satisfied = "PlacementSatisfied=True AllDecisionsScheduled"
	for name, tc := range map[string]struct {
		record         *berthv1alpha1.PlacementChange
		conditions     []string
		added, removed string
		message        string
	}{
		"in steps":       {progressing, []string{satisfied, "DecisionProgressing=True RollingUpdate"}, "1/2", "0/2", "says RollingUpdate"},
		"only additions": {grows, []string{satisfied, "DecisionProgressing=True RollingUpdate"}, "0/2", "0", "says RollingUpdate"},
		"held":           {held, []string{satisfied, "DecisionPending=True Held"}, "2", "2", "says Held"},
		"short and held": {held, []string{"PlacementSatisfied=False NotAllDecisionsScheduled", "DecisionPending=True Held"}, "2", "2",
			"says NotAllDecisionsScheduled; says Held"},
	} {
		t.Run(name, func(t *testing.T) {
			s := statusOf(changes.StateInput{Placement: stated("web", 3, tc.conditions...), History: changes.History{tc.record}})
			row := statusTable([]*placementStatus{s}, true, noonTime).rows[0]
			if got, want := []string{row[7].text, row[8].text, row[10].text}, []string{tc.added, tc.removed, tc.message}; !slices.Equal(got, want) {
				t.Errorf("ADDED, REMOVED and MESSAGE are %q, want %q", got, want)
			}
		})
	}
}
