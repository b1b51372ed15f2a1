package app

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

// acting returns the commands of the group act.
func acting(t *testing.T) []string {
	t.Helper()
	for _, group := range groups {
		if group.id == "act" {
			return group.commands
		}
	}
	t.Fatal("there is no group act")
	return nil
}

// TestDryRun: every command that acts has --dry-run and --comment, and a dry run shows the effect
// and sends only requests that write nothing.
func TestDryRun(t *testing.T) {
	held := fixture.Placement("shop", "held").Obj()
	held.UID = "held-uid"
	change := changes.NewChange(nil, []string{"c1"})
	change.Generation = held.Generation
	record := changes.NewRecord(held, 0, 1, change)
	record.Status.Phase = berthv1alpha1.PhaseHeld
	objects := []client.Object{
		held, record, fixture.Placement("shop", "quiet").Obj(),
		&berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "quiet-suspend"}},
		fixture.Cluster("c9").Set("s").TaintAt(v1alpha1.DrainTaint, "", v1alpha1.TaintEffectNoSelect, metav1.Time{}).Obj(),
	}
	lines := map[string]string{
		"approve": "held", "reject": "held", "evict": "web --cluster c1", "drain": "c1", "undrain": "c9", "suspend": "held",
		"resume": "quiet", "undo": "web", "pin": "web", "unpin": "web",
	}
	effects := map[string]string{
		"approve": "Added:    1: c1", "reject": "Added:    1: c1", "suspend": "Added:    1: c1", "resume": "No change of Placement shop/quiet is open.",
		"undo": "Spec: numberOfClusters: 1 → 3", "pin": "The decision of Placement shop/web does not change.", "undrain": "1: c9",
	}
	for _, verb := range acting(t) {
		t.Run(verb, func(t *testing.T) {
			hub := serveHub(t, slices.Concat(objects, edited(t, []string{"c1", "c2", "c3"}, verb == "unpin")))
			out, stderr, code := hub.run(append(append([]string{verb}, strings.Fields(lines[verb])...), "--dry-run", "--comment", "as agreed")...)
			if code != exitOK || !strings.HasSuffix(out, " (dry run)\n") || !strings.Contains(out, effects[verb]) {
				t.Errorf("exit code %d, %s\n%s\nwant %s", code, stderr, out, effects[verb])
			}
			for _, write := range hub.writes {
				if !strings.Contains(write, "dryRun=All") && !strings.Contains(write, `"dryRun":["All"]`) {
					t.Errorf("it writes: %s", write)
				}
			}
			if len(hub.writes) == 0 {
				t.Error("the hub does not check what would be written")
			}
		})
	}
}

// TestDrainSelector: -l drains the clusters with the labels, and refuses to match none.
func TestDrainSelector(t *testing.T) {
	objects := edited(t, []string{"c1", "c2", "c3"}, false)
	for i, o := range objects {
		if cluster, is := o.(*v1alpha1.ManagedCluster); is && cluster.Name != "c3" {
			cluster.Labels["rack"] = "r7"
			objects[i] = cluster
		}
	}
	for line, want := range map[string]string{
		"-l rack=r7 --yes": `NAMESPACE   PLACEMENT
shop        web

NAMESPACE   PLACEMENT   CHANGE    BEFORE   AFTER   ADDED   REMOVED   PAGES   CONDITIONS
shop        web         Updated   1        1       1: c3   1: c1     1       <none>
managedcluster.cluster.open-cluster-management.io/c1 is being drained
managedcluster.cluster.open-cluster-management.io/c2 is being drained
`,
		"-l rack=none":     "kubectl placement: no ManagedCluster has labels that match \"rack=none\"\n",
		"-l rack=r7":       "kubectl placement: there is no terminal to ask on: give --yes to answer \"Drain 2 ManagedClusters: c1, c2?\"",
		"-l rack=(":        `kubectl placement: --selector: "rack=(" is no selector of labels such as rack=r7: `,
		"--selector=":      `kubectl placement: --selector: "" is no selector of labels such as rack=r7: it is empty`,
		"c1 -l rack=r7":    "kubectl placement: kubectl placement drain needs the name of one cluster, or -l",
		"--comment reason": "kubectl placement: kubectl placement drain needs the name of one cluster, or -l",
	} {
		t.Run(line, func(t *testing.T) {
			hub := serveHub(t, objects)
			out, stderr, code := hub.run(append([]string{"drain"}, strings.Fields(line)...)...)
			if code == exitOK && out != want || code != exitOK && !strings.HasPrefix(stderr, want) {
				t.Errorf("exit code %d, got\n%s%s\nwant\n%s", code, stderr, out, want)
			}
			if written := len(hub.writes); code == exitOK && written != 2 || code != exitOK && written > 0 {
				t.Errorf("it writes %v", hub.writes)
			}
		})
	}
}
