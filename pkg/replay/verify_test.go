package replay_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

// publish publishes the target of an attempt into the inventory.
func publish(t *testing.T, inv *inventory.Inventory, a *scheduler.Attempt, version int) {
	t.Helper()
	plan, err := lifecycle.Plan(a.State, a.Target)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range plan.Writes {
		write := lifecycle.PageWriteOf(a.Snapshot.Subject.Placement, w)
		write.Page.UID, write.Page.ResourceVersion = types.UID(write.Page.Name), strconv.Itoa(version+1)
		inv.AssumePage(write.Page, write.Deleted)
	}
	inv.SetPublished(a.Snapshot.Subject, &framework.Published{Names: a.Target.Clusters, Digest: a.Target.Digest})
}

// newEngine returns an engine with a configuration, and the configuration as recordings have it.
func newEngine(t *testing.T, configuration string, plugins framework.Registry) (*scheduler.Scheduler, json.RawMessage) {
	t.Helper()
	var c *config.PlacementSchedulerConfiguration
	var raw json.RawMessage
	if configuration != "" {
		var err error
		if c, err = config.Load([]byte(configuration)); err != nil {
			t.Fatal(err)
		}
		if raw, err = json.Marshal(c); err != nil {
			t.Fatal(err)
		}
	}
	registry := builtin.Registry()
	if err := registry.Merge(plugins); err != nil {
		t.Fatal(err)
	}
	profiles, err := builtin.Profiles(t.Context(), c, registry, &framework.Handle{Assume: func(*v1alpha1.PlacementDecision, bool) {}})
	if err != nil {
		t.Fatal(err)
	}
	return scheduler.New(profiles, nil), raw
}

// record records the decisions about a Placement of two of three clusters. In each round, one that
// it has does not match any more. It returns the folder.
func record(t *testing.T, configuration string, plugins framework.Registry, rounds int) string {
	t.Helper()
	engine, raw := newEngine(t, configuration, plugins)
	now := fixture.Now
	r, err := recording.New(recording.Options{Dir: filepath.Join(t.TempDir(), "recording"), Config: raw, Now: func() time.Time { return now }, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding(web.Namespace, "s"))
	inv.Update(fixture.Placement(web.Namespace, web.Name).Number(2).Predicate(fixture.MatchLabel("tier", "gold")).Obj())
	for _, name := range []string{"london", "paris", "rome"} {
		inv.Update(fixture.Cluster(name).Set("s").Label("tier", "gold").Obj())
	}
	inv.Started()
	r.Begin(inv)
	for n := range rounds {
		now = now.Add(time.Minute)
		tier := map[bool]string{true: "gold", false: "silver"}
		inv.Update(fixture.Cluster("paris").Set("s").Label("tier", tier[n%2 == 0]).Obj())
		inv.Update(fixture.Cluster("rome").Set("s").Label("tier", tier[n%2 == 1 || n == 0]).Obj())
		a := engine.Decide(t.Context(), inv.Snapshot(web, now, nil))
		r.Decided(replay.DecisionOf(a.Plan), nil)
		publish(t, inv, a, n)
		engine.Release(a.Decision)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	r.Run(ended)
	return r.Dir()
}

func verify(t *testing.T, dir string, plugins framework.Registry) (*replay.Verification, []string) {
	t.Helper()
	r, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var differences []string
	v, err := replay.Verify(t.Context(), r, plugins, func(m replay.Mismatch) error {
		differences = append(differences, m.Difference)
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Damaged {
		t.Errorf("%+v", d)
	}
	return v, differences
}

func TestVerify(t *testing.T) {
	v, _ := verify(t, record(t, "", nil, 10), nil)
	if v.Decisions != 10 || v.Same != 10 || v.Differ != 0 {
		t.Errorf("%+v; want 10 decisions that are the same", v)
	}
}

// TestVerifyAfterAGap: after a gap, replay begins with the contents of a checkpoint, in which
// clusters have other indexes. No result for the contents before it counts.
func TestVerifyAfterAGap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recording")
	synctest.Test(t, func(t *testing.T) {
		engine, _ := newEngine(t, "", nil)
		r, err := recording.New(recording.Options{Dir: dir, Now: time.Now, Log: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
		inv.Update(fixture.Set("s"))
		inv.Update(fixture.Binding(web.Namespace, "s"))
		inv.Update(fixture.Placement(web.Namespace, web.Name).Predicate(fixture.MatchLabel("tier", "gold")).Obj())
		for _, name := range []string{"london", "paris", "rome"} {
			inv.Update(fixture.Cluster(name).Set("s").Label("tier", "gold").Obj())
		}
		inv.Update(fixture.Cluster("turin").Set("s").Label("tier", "silver").Obj())
		inv.Started()
		r.Begin(inv)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx)
		}()
		decide := func() {
			a := engine.Decide(ctx, inv.Snapshot(web, time.Now(), nil))
			r.Decided(replay.DecisionOf(a.Plan), nil)
			engine.Release(a.Decision)
			time.Sleep(time.Minute)
		}
		decide()
		segments, err := filepath.Glob(filepath.Join(dir, "*.zst"))
		if err != nil || len(segments) != 1 || os.Rename(segments[0], filepath.Join(dir, "0"+filepath.Base(segments[0]))) != nil {
			t.Fatal(segments, err)
		}
		time.Sleep(2 * time.Second)
		inv.Delete(fixture.Cluster("london").Obj())
		for _, name := range []string{"venice", "verona"} {
			inv.Update(fixture.Cluster(name).Set("s").Label("tier", "silver").Obj())
		}
		time.Sleep(time.Minute)
		decide()
		end()
		<-ended
	})
	r, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v, err := replay.Verify(t.Context(), r, nil, nil, nil)
	if err != nil || v.Lost == 0 || v.Same != 2 {
		t.Errorf("%+v, %v; want a gap, and two decisions that are the same", v, err)
	}
}

// recordOne records one decision about a Placement that prefers rome by 51 and clusters with more
// cpu. It returns the folder and the selected clusters.
func recordOne(t *testing.T, configuration string, plugins framework.Registry) (dir string, selected []string) {
	t.Helper()
	engine, raw := newEngine(t, configuration, plugins)
	r, err := recording.New(recording.Options{Dir: t.TempDir(), Config: raw, Now: func() time.Time { return fixture.Now }, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding(web.Namespace, "s"))
	inv.Update(fixture.Placement(web.Namespace, web.Name).Number(2).Mode(v1alpha1.PrioritizerPolicyModeExact).
		Prioritizer(v1alpha1.PrioritizerResourceAllocatableCPU, 1).AddOn("preferred", "x", 1).Obj())
	for name, cpu := range map[string]string{"london": "0.7", "paris": "0.4", "rome": "0.3"} {
		inv.Update(fixture.Cluster(name).Set("s").Allocatable("cpu", cpu).Obj())
	}
	inv.Update(fixture.Score("rome", "preferred").Value("x", 51).Obj())
	inv.Started()
	r.Begin(inv)
	a := engine.Decide(t.Context(), inv.Snapshot(web, fixture.Now, nil))
	if a.Target != nil {
		selected = a.Target.Clusters
	}
	r.Decided(replay.DecisionOf(a.Plan), nil)
	ended, end := context.WithCancel(t.Context())
	end()
	r.Run(ended)
	return r.Dir(), selected
}

// TestVerifyAmounts: replay has the same amounts as the controller. The score of paris is -50, but
// it would be -49, as that of rome, if the amounts were written as 300m, 400m and 700m.
func TestVerifyAmounts(t *testing.T) {
	dir, selected := recordOne(t, "", nil)
	if diff := cmp.Diff([]string{"london", "rome"}, selected); diff != "" {
		t.Fatal(diff)
	}
	if v, differences := verify(t, dir, nil); v.Same != 1 {
		t.Errorf("%+v, %v; want one decision that is the same", v, differences)
	}
}

// edit replaces text in the lines of a recording that contain where, as a user would who edits a
// file.
func edit(t *testing.T, dir, where, old, text string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl.zst"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%v, %v", paths, err)
	}
	file, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	zip, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer zip.Close()
	var out bytes.Buffer
	again, err := zstd.NewWriter(&out, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	edits := 0
	lines := bufio.NewReader(zip)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, where) && strings.Contains(line, old) && edits == 0 {
			line, edits = strings.Replace(line, old, text, 1), edits+1
		}
		if _, err := io.WriteString(again, line); err != nil {
			t.Fatal(err)
		}
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if edits == 0 {
		t.Fatalf("no line with %s has %s", where, old)
	}
	if err := os.WriteFile(paths[0], out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestVerifyFindsChanges: one changed byte of an input or of a result is found.
func TestVerifyFindsChanges(t *testing.T) {
	for name, tc := range map[string]struct{ where, old, text string }{
		"a label":           {`"name":"london"`, `"tier":"gold"`, `"tier":"golf"`},
		"the Placement":     {`"kind":"Placement"`, `"numberOfClusters":2`, `"numberOfClusters":1`},
		"the bound set":     {`"kind":"ManagedClusterSetBinding"`, `"clusterSet":"s"`, `"clusterSet":"t"`},
		"the result":        {`"type":"decision"`, `"target":"`, `"target":"0`},
		"the outcome":       {`"type":"decision"`, `"outcome":"Published"`, `"outcome":"Unchanged"`},
		"what was selected": {`"type":"decision"`, `"step":"`, `"step":"0`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := record(t, "", nil, 6)
			edit(t, dir, tc.where, tc.old, tc.text)
			if v, _ := verify(t, dir, nil); v.Differ == 0 {
				t.Errorf("%+v; want a difference", v)
			}
		})
	}
}

// watch is a plugin that breaks the contract: its scores depend on how often it was asked, as with
// a clock.
type watch struct{ asked int64 }

func (*watch) Name() string { return "Watch" }

func (w *watch) Score(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, c *framework.Cluster) (int64, *framework.Status) {
	w.asked++
	if c.Name == "rome" && w.asked > 20 {
		return 100, nil
	}
	return 0, nil
}

const watching = `
apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
profiles:
- name: default
  plugins:
    score:
      enabled:
      - name: Watch
        weight: 10
`

// TestVerifyFindsPlugins: a plugin that depends on anything but its input is found.
func TestVerifyFindsPlugins(t *testing.T) {
	shared := &watch{}
	plugins := framework.Registry{"Watch": func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return shared, nil
	}}
	dir := record(t, watching, plugins, 12)
	v, differences := verify(t, dir, plugins)
	if v.Differ == 0 || differences[0] != "other clusters are selected" {
		t.Errorf("%+v, %v; want other clusters", v, differences)
	}
}

// latin is a plugin that refuses each Placement, for a reason that is no UTF-8.
type latin struct{}

func (latin) Name() string { return "Latin" }

func (latin) PreEnqueue(context.Context, *framework.CycleState, *v1alpha1.Placement) *framework.Status {
	return framework.NewStatus(framework.Unschedulable, "caf\xe9")
}

const refusing = `
apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
profiles:
- name: default
  plugins:
    preEnqueue:
      enabled:
      - name: Latin
`

// TestVerifyReason: a reason that JSON cannot express is no difference.
func TestVerifyReason(t *testing.T) {
	plugins := framework.Registry{"Latin": func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return latin{}, nil
	}}
	dir, selected := recordOne(t, refusing, plugins)
	if v, differences := verify(t, dir, plugins); v.Same != 1 || len(selected) > 0 {
		t.Errorf("%+v, %v, %v; want one refusal that is the same", v, differences, selected)
	}
}

func TestAt(t *testing.T) {
	dir := record(t, "", nil, 6)
	for name, tc := range map[string]struct {
		key   types.NamespacedName
		at    time.Time
		want  string
		made  bool
		error string
	}{
		"at a decision":      {web, fixture.Now.Add(2 * time.Minute), "london rome", true, ""},
		"between two":        {web, fixture.Now.Add(3*time.Minute + time.Second), "london paris", true, ""},
		"before the first":   {web, fixture.Now.Add(time.Second), "london paris", false, ""},
		"before all":         {web, fixture.Now.Add(-time.Hour), "", false, "the recording begins later"},
		"an unknown one":     {types.NamespacedName{Namespace: "shop", Name: "other"}, fixture.Now.Add(time.Hour), "", false, "did not exist"},
		"long after the end": {web, fixture.Now.Add(time.Hour), "london rome", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := recording.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			m, err := replay.At(t.Context(), r, nil, tc.key, tc.at, nil)
			if tc.error != "" {
				if err == nil || !strings.Contains(err.Error(), tc.error) {
					t.Errorf("%v; want an error with %q", err, tc.error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(m.Again.Target.Clusters, " "); got != tc.want || (m.Recorded != nil) != tc.made {
				t.Errorf("%s, recorded %v; want %s", got, m.Recorded, tc.want)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	r, err := recording.Open(record(t, "", nil, 4))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	err = replay.Changes(t.Context(), r, web, func(d *recording.Decision) {
		got = append(got, "+"+strings.Join(d.Added, " ")+" -"+strings.Join(d.Removed, " "))
	})
	if want := "+london paris -, +rome -paris, +paris -rome, +rome -paris"; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
}

// TestEarlierVersions replays recordings of earlier versions. If a decision differs on purpose, the
// release notes list it, and the recording is replaced.
func TestEarlierVersions(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.jsonl.zst")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v; want recordings", paths, err)
	}
	for _, path := range paths {
		if v, differences := verify(t, path, nil); v.Same < 20 || v.Differ > 0 || len(v.Skipped) > 0 {
			t.Errorf("%s: %+v, %v", path, v, differences)
		}
	}
}

// TestAtInSharedFolder: a standby that starts later in the same folder does not hide the decisions
// of the leader.
func TestAtInSharedFolder(t *testing.T) {
	dir := record(t, "", nil, 6) // decisions at minutes 1..6
	now := fixture.Now.Add(2*time.Minute + 30*time.Second)
	r, err := recording.New(recording.Options{Dir: dir, Now: func() time.Time { return now }, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding(web.Namespace, "s"))
	inv.Update(fixture.Placement(web.Namespace, web.Name).Number(2).Predicate(fixture.MatchLabel("tier", "gold")).Obj())
	inv.Started()
	r.Begin(inv)
	ended, end := context.WithCancel(t.Context())
	end()
	r.Run(ended)
	rd, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	m, err := replay.At(t.Context(), rd, nil, web, fixture.Now.Add(3*time.Minute+time.Second), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Recorded == nil {
		t.Errorf("the decision of minute 3 is not found; target again %v", m.Again.Target)
	}
}
