package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

var (
	noonTime = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	webKey   = types.NamespacedName{Namespace: "shop", Name: "web"}
)

// web is a Placement of generation 3.
func web() *v1alpha1.Placement {
	pl := fixture.Placement("shop", "web").Generation(3).Obj()
	pl.UID = "web-uid"
	return pl
}

// record is one of web's, from one set of clusters to another, in a phase; edit may be nil.
func record(t *testing.T, first, revision int64, from, to string, phase berthv1alpha1.ChangePhase, edit func(*berthv1alpha1.PlacementChange)) *berthv1alpha1.PlacementChange {
	t.Helper()
	change := changes.NewChange(strings.Fields(from), strings.Fields(to))
	change.Cause, change.Generation = "Placement: spec", 3
	r := changes.NewRecord(web(), first, revision, change)
	r.Status.Phase = phase
	r.Status.StartTime = &metav1.Time{Time: noonTime.Add(-time.Duration(100-revision) * time.Minute)}
	if edit != nil {
		edit(r)
	}
	return r
}

func answered(decision berthv1alpha1.ApprovalDecision, comment string) func(*berthv1alpha1.PlacementChange) {
	return func(r *berthv1alpha1.PlacementChange) {
		r.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: decision, By: "ann", Comment: comment}
	}
}

func TestHistoryTable(t *testing.T) {
	history := changes.History{
		record(t, 0, 1, "", "a b", berthv1alpha1.PhasePublished, func(r *berthv1alpha1.PlacementChange) {
			answered(berthv1alpha1.Approved, "go")(r)
			r.Spec.By, r.Spec.Comment, r.Spec.Before = "bob", "a sale", `{"numberOfClusters":null}`
		}),
		record(t, 3, 7, "a", "a b c", berthv1alpha1.PhasePublished, func(r *berthv1alpha1.PlacementChange) { r.Spec.Comment = "no sale" }),
		record(t, 0, 8, "a b c", "a", berthv1alpha1.PhaseRejected, answered(berthv1alpha1.Rejected, "")),
		record(t, 0, 9, "a b c", "b", "", nil),
	}
	for output, want := range map[string]string{
		"table": `
REVISION   AGE   PHASE       CAUSE                        BY       ADDED   REMOVED   APPROVER
1          99m   Published   Placement: spec              bob      2       0         ann
…                            records are missing
3-7        93m   Published   Placement: spec and 4 more   <none>   2       0         <none>
8          92m   Rejected    Placement: spec              <none>   0       2         ann (rejected)
9          91m   <none>      Placement: spec              <none>   0       2         <none>
`, "wide": `
REVISION   TIME                   PHASE       CAUSE                        BY       ADDED   REMOVED   APPROVER         SELECTED   PROFILE   COMMENT
1          2026-01-01T10:21:00Z   Published   Placement: spec              bob      2       0         ann              2          <none>    a sale; go
…                                             records are missing
3-7        2026-01-01T10:27:00Z   Published   Placement: spec and 4 more   <none>   2       0         <none>           3          <none>    no sale
8          2026-01-01T10:28:00Z   Rejected    Placement: spec              <none>   0       2         ann (rejected)   1          <none>    <none>
9          2026-01-01T10:29:00Z   <none>      Placement: spec              <none>   0       2         <none>           1          <none>    <none>
`, "yaml": `
changes:
- addedCount: 2
  approval:
    by: ann
    comment: go
    decision: Approved
  before:
    numberOfClusters: null
  by: bob
  cause: 'Placement: spec'
  clusters: 2
  comment: a sale
`} {
		t.Run(output, func(t *testing.T) {
			var out bytes.Buffer
			if err := (&historyOptions{output: output}).print(&out, newPlacementHistory(webKey, history), noonTime); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if output == "yaml" {
				got = got[:min(len(got), len(want)-1)]
			}
			if diff := cmp.Diff(want[1:], got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("no records", func(t *testing.T) {
		for output, want := range map[string]string{
			"table": "Placement shop/web has no recorded changes.\n",
			"json":  "{\n  \"placement\": \"shop/web\",\n  \"changes\": []\n}\n",
		} {
			var out bytes.Buffer
			if err := (&historyOptions{output: output}).print(&out, newPlacementHistory(webKey, nil), noonTime); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// TestHistoryOfAll: the changes of several Placements are listed in order of time, and --since
// leaves out the older ones.
func TestHistoryOfAll(t *testing.T) {
	other := record(t, 0, 5, "", "a", berthv1alpha1.PhasePublished, nil)
	other.Namespace, other.Spec.Placement, other.Spec.By = "ads", "x", "bob"
	web := changes.History{record(t, 0, 4, "", "a", berthv1alpha1.PhasePublished, nil), record(t, 0, 6, "a", "b", berthv1alpha1.PhasePublished, nil)}
	all := func(since time.Duration) []placementHistory {
		return []placementHistory{
			newPlacementHistory(types.NamespacedName{Namespace: "ads", Name: "x"}, changes.History{other}).since(noonTime, since),
			newPlacementHistory(webKey, web).since(noonTime, since),
		}
	}
	for name, tc := range map[string]struct {
		options historyOptions
		want    string
	}{
		"all": {historyOptions{}, `
NAMESPACE   PLACEMENT   REVISION   AGE   PHASE       CAUSE                 BY       ADDED   REMOVED   APPROVER
shop        web         4          96m   Published   Placement: spec       <none>   1       0         <none>
ads         x           5          95m   Published   Placement: spec       bob      1       0         <none>
shop        web         …                            records are missing
shop        web         6          94m   Published   Placement: spec       <none>   1       1         <none>
`},
		"since": {historyOptions{since: 95 * time.Minute}, `
NAMESPACE   PLACEMENT   REVISION   AGE   PHASE       CAUSE                 BY       ADDED   REMOVED   APPROVER
ads         x           5          95m   Published   Placement: spec       bob      1       0         <none>
shop        web         …                            records are missing
shop        web         6          94m   Published   Placement: spec       <none>   1       1         <none>
`},
		"none": {historyOptions{since: time.Minute}, "\nThe Placements have no recorded changes of the last 1m0s.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := tc.options.printAll(&out, all(tc.options.since), noonTime); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want[1:], out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
	var out bytes.Buffer
	if err := (&historyOptions{output: "json"}).printAll(&out, all(95*time.Minute), noonTime); err != nil {
		t.Fatal(err)
	}
	var got struct{ Changes []changes.View }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Changes) != 2 || got.Changes[0].By != "bob" || got.Changes[0].Placement != "ads/x" {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestPrintChange(t *testing.T) {
	held := record(t, 0, 4, "a b", "b c d e f g h i j k l m n o", berthv1alpha1.PhaseHeld, func(r *berthv1alpha1.PlacementChange) {
		r.Status.Holds = []berthv1alpha1.ChangeHold{
			{Plugin: "Approval", Reason: "DisruptionPolicy web requires approval", Until: &metav1.Time{Time: noonTime}}, {Plugin: "BlastRadius", Reason: "too many"},
		}
		r.Status.Message = "waits"
	})
	truncated := record(t, 0, 5, "a", "b", berthv1alpha1.PhaseRejected, func(r *berthv1alpha1.PlacementChange) {
		r.Spec.Truncated, r.Spec.AddedCount, r.Status.Message = true, 5_000, "too many"
		answered(berthv1alpha1.Rejected, "not today")(r)
	})
	for name, tc := range map[string]struct {
		record *berthv1alpha1.PlacementChange
		wide   bool
		want   string
	}{
		"held": {held, false, `
Placement shop/web, change 4: Held
  Time:     2026-01-01T10:24:00Z
  Cause:    Placement: spec
  Held by:  Approval: DisruptionPolicy web requires approval (expires 2026-01-01T12:00:00Z if not approved)
  Held by:  BlastRadius: too many
  Selected: 14
  Added:    13: c d e f g h i j k l …
  Removed:  1: a
`},
		"not all are listed": {truncated, true, `
Placement shop/web, change 5: Rejected
  Time:     2026-01-01T10:25:00Z
  Cause:    Placement: spec
  Message:  too many
  Approval: Rejected by ann
  Comment:  not today
  Selected: 1
  Added:    5000
  Removed:  1
            Not all clusters are listed: PlacementChange shop/web-5: the record does not list all its clusters
CHANGE    CLUSTER
added     b
removed   a
`},
		"in progress": {record(t, 0, 7, "a", "b c", berthv1alpha1.PhaseProgressing, func(r *berthv1alpha1.PlacementChange) {
			r.Status.Remaining = &berthv1alpha1.RemainingClusters{Added: 1, Removed: 1}
		}), false, `
Placement shop/web, change 7: Progressing
  Time:     2026-01-01T10:27:00Z
  Cause:    Placement: spec
  To do:    1 to add, 1 to remove
  Selected: 2
  Added:    2: b c
  Removed:  1: a
`},
		"without a phase": {record(t, 0, 6, "a", "a b", "", nil), true, `
Placement shop/web, change 6: no phase yet
  Time:     2026-01-01T10:26:00Z
  Cause:    Placement: spec
  Selected: 2
  Added:    1
  Removed:  0
CHANGE   CLUSTER
added    b
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printChange(&out, changes.ViewOf(tc.record).WithClusters(tc.record), tc.wide); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want[1:], out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPrintEdit: one change has the whole edit, although its cause is cut.
func TestPrintEdit(t *testing.T) {
	before, pl := &v1alpha1.PlacementSpec{NumberOfClusters: new(int32(8))}, web()
	pl.Spec.NumberOfClusters = new(int32(2))
	pl.Spec.Predicates = fixture.Placement("shop", "web").Predicate(
		fixture.MatchLabel("example.com/a-long-label-of-clusters-that-the-table-cuts", "yes")).Obj().Spec.Predicates
	edit, err := changes.EditOf(before, &pl.Spec)
	if err != nil {
		t.Fatal(err)
	}
	edited := record(t, 0, 4, "a", "b", berthv1alpha1.PhasePublished, func(r *berthv1alpha1.PlacementChange) {
		r.Spec.Cause, r.Spec.Before = "Placement: "+edit.String(), edit.Before
	})
	var out bytes.Buffer
	if err := (&historyOptions{}).printOne(&out, pl, changes.History{edited}, 4); err != nil {
		t.Fatal(err)
	}
	want := `
Placement shop/web, change 4: Published
  Time:     2026-01-01T10:24:00Z
  Cause:    Placement: spec
  Edit:     numberOfClusters: 8 → 2
            predicates:
              before: none
              after:
                - requiredClusterSelector:
                    labelSelector:
                      matchLabels:
                        example.com/a-long-label-of-clusters-that-the-table-cuts: "yes"
  Selected: 1
  Added:    1
  Removed:  1
CHANGE    CLUSTER
added     b
removed   a
`
	if diff := cmp.Diff(want[1:], out.String()); diff != "" {
		t.Error(diff)
	}
	// An edit that no record has changed the field since.
	pl.Spec.NumberOfClusters = new(int32(3))
	out.Reset()
	if err := (&historyOptions{}).printOne(&out, pl, changes.History{edited}, 4); err != nil || !strings.Contains(out.String(), "Cause:    Placement: numberOfClusters: 8 → 2, predicates: none → [") {
		t.Errorf("%v: %s", err, &out)
	}
}

// TestHubWithoutRecords: the commands say that the CRDs of Berth's own kinds are missing.
func TestHubWithoutRecords(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, found := map[string]string{
			"/api":  `{"kind": "APIVersions", "versions": ["v1"]}`,
			"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "cluster.open-cluster-management.io", "versions": [{"groupVersion": "cluster.open-cluster-management.io/v1beta1", "version": "v1beta1"}]}]}`,
			"/apis/cluster.open-cluster-management.io/v1beta1":                                `{"kind": "APIResourceList", "groupVersion": "cluster.open-cluster-management.io/v1beta1", "resources": [{"name": "placements", "kind": "Placement", "namespaced": true, "verbs": ["get"]}]}`,
			"/apis/cluster.open-cluster-management.io/v1beta1/namespaces/shop/placements/web": `{"kind": "Placement", "apiVersion": "cluster.open-cluster-management.io/v1beta1", "metadata": {"name": "web", "namespace": "shop"}}`,
		}[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !found {
			w.WriteHeader(http.StatusNotFound)
			body = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		}
		_, _ = w.Write([]byte(body)) // a client that went away
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}],
 clusters: [{name: c, cluster: {server: "` + server.URL + `"}}], users: [{name: u}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"history", "approve", "reject"} {
		root := NewKubectlCommand()
		var out, stderr bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&stderr)
		code := Run(root, []string{verb, "web", "--kubeconfig", path})
		want := "kubectl placement: the hub does not serve PlacementChanges (berth.dev/v1alpha1): the CRDs of Berth's own kinds are not installed\n"
		if code != exitFailure || out.String()+stderr.String() != want {
			t.Errorf("%s: exit code %d, printed %q and %q", verb, code, out.String(), stderr.String())
		}
	}
}
