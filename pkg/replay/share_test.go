package replay_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
	"github.com/berth-dev/berth/test/fixture"
)

var evil = types.NamespacedName{Namespace: "evil", Name: "web"}

// noise returns n characters that cannot be compressed below half.
func noise(seed string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		sum := sha256.Sum256(fmt.Append(nil, seed, i))
		b.WriteString(hex.EncodeToString(sum[:]))
	}
	return b.String()[:n]
}

// flood is what an attacker writes in round n.
type flood func(inv *inventory.Inventory, n int)

// recordFlood records the decisions about the Placements shop/web and evil/web while an attacker
// writes. All clusters are in the set s, except far. Each round takes a minute.
func recordFlood(t *testing.T, rounds int, maxSize int64, attack flood) (dir string) {
	dir = filepath.Join(t.TempDir(), "recording")
	synctest.Test(t, func(t *testing.T) {
		engine, _ := newEngine(t, "", nil)
		now := fixture.Now
		r, err := recording.New(recording.Options{Dir: dir, MaxSize: maxSize, Now: func() time.Time { return now }, Log: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
		inv.Update(fixture.Set("s"))
		inv.Update(fixture.Set("other"))
		for _, key := range []types.NamespacedName{web, evil} {
			inv.Update(fixture.Binding(key.Namespace, "s"))
			pl := fixture.Placement(key.Namespace, key.Name).Number(3).Predicate(fixture.MatchLabel("tier", "gold")).Obj()
			pl.UID = types.UID(key.Namespace)
			inv.Update(pl)
		}
		for _, name := range []string{"london", "paris", "rome", "madrid"} {
			inv.Update(fixture.Cluster(name).Set("s").Label("tier", "gold").Obj())
		}
		inv.Update(fixture.Cluster("far").Set("other").Obj())
		inv.Started()
		r.Begin(inv)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx)
		}()
		decide := func(key types.NamespacedName, n int) {
			now = now.Add(time.Second)
			a := engine.Decide(t.Context(), inv.Snapshot(key, now, nil))
			r.Decided(replay.DecisionOf(a.Plan), nil)
			if a.Target != nil {
				publish(t, inv, a, n)
			}
			engine.Release(a.Decision)
		}
		for n := range rounds {
			now = fixture.Now.Add(time.Duration(n+1) * time.Minute)
			tier := map[bool]string{true: "gold", false: "silver"}
			inv.Update(fixture.Cluster("paris").Set("s").Label("tier", tier[n%2 == 0]).Obj())
			inv.Update(fixture.Cluster("rome").Set("s").Label("tier", tier[n%2 == 1]).Obj())
			attack(inv, n)
			decide(evil, n)
			decide(web, n)
			synctest.Wait()
		}
		end()
		<-ended
	})
	return dir
}

// edits are large edits of the Placement evil/web. It keeps matching the same clusters.
func edits(inv *inventory.Inventory, n int) {
	values := make([]string, 9000)
	for i := range values {
		values[i] = noise(fmt.Sprint(n, " ", i), 63)
	}
	pl := fixture.Placement(evil.Namespace, evil.Name).Number(3).Predicate(fixture.MatchLabel("tier", "gold"), fixture.MatchLabelExpression("x", metav1.LabelSelectorOpNotIn, values...)).Obj()
	pl.UID = types.UID(evil.Namespace)
	inv.Update(pl)
}

// statuses are large states of a cluster, as its agent writes them.
func statuses(name, set string) flood {
	return func(inv *inventory.Inventory, n int) {
		c := fixture.Cluster(name).Set(set).Label("tier", "gold").Obj()
		c.Status.ClusterClaims = []v1alpha1.ManagedClusterClaim{{Name: "x", Value: noise(fmt.Sprint(n), 1_000_000)}}
		inv.Update(c)
	}
}

// history is what replay tells about shop/web: the list of its decisions, and the decision of every
// eighth minute made again.
func history(t *testing.T, dir string, rounds int) (list, again []string) {
	t.Helper()
	open := func() *recording.Reader {
		r, err := recording.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	err := replay.Changes(t.Context(), open(), web, func(d *recording.Decision) {
		list = append(list, fmt.Sprint(d.Now.Format(time.TimeOnly), d.Added, d.Removed, d.Cause))
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < rounds; n += 8 {
		m, err := replay.At(t.Context(), open(), nil, web, fixture.Now.Add(time.Duration(n+1)*time.Minute+30*time.Second), nil)
		if err != nil {
			again = append(again, err.Error())
			continue
		}
		again = append(again, fmt.Sprint(m.Recorded.Now.Format(time.TimeOnly), m.Again.Target.Clusters))
	}
	return list, again
}

// TestFloodOfANamespace: 53 edits of a Placement of 0.6 MB fill the recording, and change nothing
// of what replay tells about another namespace.
func TestFloodOfANamespace(t *testing.T) {
	const rounds = 53
	all, flooded := recordFlood(t, rounds, recording.DefaultMaxSize, edits), recordFlood(t, rounds, recording.MinSize, edits)
	wantList, wantAgain := history(t, all, rounds)
	list, again := history(t, flooded, rounds)
	if diff := cmp.Diff(wantList, list) + cmp.Diff(wantAgain, again); diff != "" || len(list) < rounds/2 {
		t.Errorf("the history of shop/web, %d changes (-all +shares):\n%s", len(list), diff)
	}
	v, differences := verify(t, flooded, nil)
	if v.Differ > 0 || v.Decisions != 2*rounds || v.Same < rounds+5 || v.Skipped["the Placement's spec at that time is not recorded"] != v.Decisions-v.Same {
		t.Errorf("%+v %v", v, differences)
	}

	// The decisions about evil/web are listed; the oldest ones cannot be made again.
	r, err := recording.Open(flooded)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	size, _ := r.Size()
	changes := 0
	if err := replay.Changes(t.Context(), r, evil, func(*recording.Decision) { changes++ }); err != nil || changes < rounds/2 || size > recording.MinSize {
		t.Errorf("%d changes of evil/web in %d bytes, %v", changes, size, err)
	}
	r, err = recording.Open(flooded)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := replay.At(t.Context(), r, nil, evil, fixture.Now.Add(5*time.Minute), nil); err == nil || !strings.Contains(err.Error(), "spec at that time is not recorded") {
		t.Errorf("evil/web at an old time: %v", err)
	}
	r, err = recording.Open(flooded)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := replay.StateAt(t.Context(), r, nil, fixture.Now.Add(5*time.Minute))
	if err != nil || s.NotRecorded(evil) == "" || s.NotRecorded(web) != "" {
		t.Errorf("the state at an old time: %v", err)
	}
}

// TestFloodOfACluster: the agent of one cluster fills the recording. The list of decisions stays.
// If the cluster is in no set of a Placement, its decisions can be made again, too; otherwise
// replay says which cannot.
func TestFloodOfACluster(t *testing.T) {
	const rounds = 53
	for set, name := range map[string]string{"other": "far", "s": "vienna"} {
		t.Run(set, func(t *testing.T) {
			all, flooded := recordFlood(t, rounds, recording.DefaultMaxSize, statuses(name, set)), recordFlood(t, rounds, recording.MinSize, statuses(name, set))
			wantList, wantAgain := history(t, all, rounds)
			list, again := history(t, flooded, rounds)
			if set == "s" {
				for n := range again {
					if strings.Contains(again[n], "a cluster in the Placement's cluster sets, as it was at that time, is not recorded") && n < len(again)-1 {
						again[n] = wantAgain[n]
					}
				}
			}
			if len(list) != len(wantList) || cmp.Diff(wantAgain, again) != "" {
				t.Errorf("%d changes, want %d; made again (-all +shares):\n%s", len(list), len(wantList), cmp.Diff(wantAgain, again))
			}
			if v, differences := verify(t, flooded, nil); v.Differ > 0 || v.Decisions != 2*rounds || v.Same < 10 {
				t.Errorf("%+v %v", v, differences)
			}
		})
	}
}

// TestContinuedSegments: a flood that continues over several checkpoints does not interrupt what is
// known of others, and what was reduced is known again after a checkpoint.
func TestContinuedSegments(t *testing.T) {
	const rounds = 150 // more than two hours
	attack := func(inv *inventory.Inventory, n int) {
		if n < 50 || n == 140 {
			edits(inv, n)
		}
	}
	dir := recordFlood(t, rounds, recording.MinSize, attack)
	v, differences := verify(t, dir, nil)
	skipped := v.Skipped["the Placement's spec at that time is not recorded"]
	if v.Differ > 0 || v.Decisions != 2*rounds || v.Same+skipped != v.Decisions || skipped == 0 || skipped > 60 {
		t.Errorf("%+v %v", v, differences)
	}
	_, again := history(t, dir, rounds)
	for n, text := range again {
		if strings.Contains(text, "cannot") {
			t.Errorf("minute %d: %s", 8*n+1, text)
		}
	}
}

// TestSmallFileOfLargeObjects: a small file with many large objects does not fill the memory, and
// replay says why it cannot make a decision again.
func TestSmallFileOfLargeObjects(t *testing.T) {
	defer replay.SetMaxSize(8 << 20)()
	var text strings.Builder
	text.WriteString(`{"type":"header","header":{"format":1,"run":"r","segment":1}}` + "\n" + `{"type":"checkpoint","number":1,"checkpoint":{"inputs":1}}` + "\n")
	for n := range 30 {
		fmt.Fprintf(&text, `{"type":"object","number":%d,"kind":"Placement","object":{"metadata":{"namespace":"shop","name":"p%d","labels":{"a":"%s"}}}}`+"\n", n%2+1, n, strings.Repeat("a", 1<<20))
	}
	text.WriteString(`{"type":"decision","decision":{"namespace":"shop","name":"p1","input":2,"now":"2026-06-01T00:00:00Z","outcome":"Published"}}` + "\n" + `{"type":"end"}` + "\n")
	zip, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "20260601T000000.000000000Z-r-000001.jsonl.zst")
	if err := os.WriteFile(path, zip.EncodeAll([]byte(text.String()), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	v, _ := verify(t, path, nil)
	if want := "the recorded objects have more than 8 MiB of text"; v.Decisions != 1 || v.Skipped[want] != 1 {
		t.Errorf("%+v; want a decision skipped because %s", v, want)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := replay.StateAt(t.Context(), r, nil, fixture.Now.Add(1000*time.Hour)); err == nil || !strings.Contains(err.Error(), "8 MiB") {
		t.Errorf("the state: %v", err)
	}
}
