package recording

import (
	"bytes"
	"context"
	"encoding/json"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// trial is a recorder with its inventory.
type trial struct {
	*Recorder
	inv *inventory.Inventory
	dir string
	end context.CancelFunc
	// ended is closed when Run has returned.
	ended chan struct{}
}

// start starts a recorder in a bubble.
func start(t *testing.T, o Options) *trial {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "recording")
	}
	o.Now, o.Log = time.Now, logr.Discard()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	tr := &trial{Recorder: r, inv: inventory.New(inventory.Options{OnInput: r.OnInput()}), dir: o.Dir, end: end, ended: make(chan struct{})}
	tr.inv.Update(fixture.Cluster("paris").Set("s").Obj())
	r.Begin(tr.inv)
	go func() {
		defer close(tr.ended)
		r.Run(ctx)
	}()
	return tr
}

// paris is the n-th state of a cluster.
func paris(n int) *v1alpha1.ManagedCluster {
	c := fixture.Cluster("paris").Set("s").Label("n", fmt.Sprint(n)).Obj()
	c.ResourceVersion = fmt.Sprint(n + 1)
	return c
}

func (tr *trial) stop() {
	tr.end()
	<-tr.ended
}

// change records one input.
func (tr *trial) change(n int) {
	tr.inv.Update(paris(n))
}

// countTypes reads a recording and counts its entries by type.
func countTypes(t *testing.T, dir string) (counts map[string]int, r *Reader) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	counts = map[string]int{}
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		counts[e.Type]++
	}
	return counts, r
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := start(t, Options{})
		tr.change(1)
		tr.Decided(&Decision{Namespace: "ns", Name: "p", Outcome: "Published"}, map[string]any{"Counter": 1})
		tr.Decided(&Decision{Namespace: "ns", Name: "p", Outcome: "Unchanged"}, map[string]any{"Counter": 1})
		tr.Decided(&Decision{Namespace: "ns", Name: "p", Outcome: "Unchanged"}, nil)
		tr.stop()
		counts, r := countTypes(t, tr.dir)
		want := map[string]int{TypeHeader: 1, TypeCheckpoint: 1, "object": 2, TypeDecision: 3, TypeCounts: 2, TypeEnd: 1}
		if diff := cmp.Diff(want, counts); diff != "" || len(r.Damaged) > 0 {
			t.Errorf("(-want +got):\n%s%v", diff, r.Damaged)
		}
		info, err := os.Stat(tr.dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder has mode %s, %v", info.Mode(), err)
		}
		files, err := segments(tr.dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		if info, err = os.Stat(files[0].path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the segment has mode %s, %v", info.Mode(), err)
		}
	})
}

// TestHeartbeats: what changes nothing that a decision could read is no entry.
func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := start(t, Options{})
		for n := range 100 {
			heartbeat := fixture.Cluster("paris").Set("s").Obj()
			heartbeat.ResourceVersion = fmt.Sprint(n + 10)
			tr.inv.Update(heartbeat)
		}
		tr.stop()
		if counts, _ := countTypes(t, tr.dir); counts["object"] != 1 {
			t.Errorf("%d objects were recorded, want that of the checkpoint", counts["object"])
		}
	})
}

// TestSegments: a segment ends after an hour, unless nothing happened, and old ones are removed.
func TestSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := start(t, Options{MaxAge: 3 * time.Hour})
		for n := range 5 {
			time.Sleep(time.Hour) // of the bubble's clock
			tr.change(n)
			time.Sleep(2 * time.Second)
		}
		time.Sleep(24 * time.Hour)
		tr.stop()
		files, err := segments(tr.dir)
		if err != nil || len(files) < 4 || len(files) > 6 {
			t.Errorf("%d segments, %v; want about one for each hour with a change", len(files), err)
		}
		counts, r := countTypes(t, tr.dir)
		if len(r.Damaged) > 0 || counts[TypeGap] > 0 || counts[TypeEnd] != len(files) {
			t.Errorf("%v, %v", counts, r.Damaged)
		}
	})
}

func TestPrune(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		maxSize int64
		oldest  time.Duration
		want    []string
	}{
		"all fit":                   {1000, 10 * time.Hour, []string{"1", "2", "3", "4"}},
		"too large":                 {280, 10 * time.Hour, []string{"3", "4"}},
		"too old":                   {1000, 150 * time.Minute, []string{"3", "4"}},
		"the current one is kept":   {10, time.Minute, []string{"4"}},
		"exactly the size and time": {458, 4 * time.Hour, []string{"1", "2", "3", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for n := 1; n <= 4; n++ {
				path := filepath.Join(dir, fmt.Sprintf("%d-run-%d%s", n, n, suffix))
				if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
					t.Fatal(err)
				}
				at := now.Add(time.Duration(n-5) * time.Hour)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "other.txt"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := prune(dir, filepath.Join(dir, "4-run-4"+suffix), nil, tc.maxSize, now.Add(-tc.oldest)); err != nil {
				t.Fatal(err)
			}
			files, err := segments(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range files {
				got = append(got, filepath.Base(f.path)[:1])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSlowDisk: entries beyond the buffer are lost, without blocking, and a new segment continues
// with a gap and all objects.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Options{Dir: t.TempDir(), Now: time.Now, Log: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
		inv.Update(fixture.Cluster("paris").Set("s").Obj())
		r.Begin(inv)
		// Nothing writes yet.
		const others = bufferSize - 1<<20
		r.buffer.size += others
		n := 0
		for ; r.Stats().Lost < 11; n++ {
			inv.Update(paris(n))
		}
		if r.buffer.size > bufferSize || r.buffer.size < bufferSize-10_000 || n < 500 {
			t.Errorf("%d bytes of %d entries wait, want at most %d", r.buffer.size, n, bufferSize)
		}
		r.buffer.size -= others
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx)
		}()
		time.Sleep(3 * time.Second)
		end()
		<-ended
		counts, _ := countTypes(t, r.Dir())
		if counts[TypeGap] != 1 || counts[TypeHeader] != 2 || counts[TypeEnd] != 2 {
			t.Errorf("%v; want two complete segments and a gap", counts)
		}
		last := lastOf(t, r.Dir(), "object")
		if !strings.Contains(string(last.Object), fmt.Sprintf(`"n":"%d"`, n-1)) {
			t.Errorf("the last object is %s, not the current one", last.Object)
		}
		if gap := lastOf(t, r.Dir(), TypeGap).Gap; gap.Lost != 11 || gap.Until.Before(gap.Since) {
			t.Errorf("%+v", gap)
		}
	})
}

// lastOf returns the last entry of a type.
func lastOf(t *testing.T, dir, kind string) *Entry {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var last *Entry
	for e, err := range r.Entries() {
		if err == nil && e.Type == kind {
			last = e
		}
	}
	return last
}

// TestDiskError: after an error of the disk the recorder tries again, and continues with a gap.
func TestDiskError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := start(t, Options{})
		time.Sleep(2 * time.Second)
		tr.segment.file.Close() // as a disk that fails
		tr.change(1)
		time.Sleep(2 * time.Second)
		tr.change(2)
		time.Sleep(time.Minute)
		tr.change(3)
		tr.stop()
		if s := tr.Stats(); s.Failures != 1 || s.Lost < 2 {
			t.Errorf("%+v", s)
		}
		counts, _ := countTypes(t, tr.dir)
		if counts[TypeGap] != 1 || counts[TypeEnd] != 1 {
			t.Errorf("%v", counts)
		}
		if gap := lastOf(t, tr.dir, TypeGap).Gap; gap.Why == "" || gap.Lost != tr.Stats().Lost {
			t.Errorf("%+v of %+v; want the error, and all that was lost", gap, tr.Stats())
		}
		if last := lastOf(t, tr.dir, "object"); !strings.Contains(string(last.Object), `"n":"3"`) {
			t.Errorf("the last object is %s", last.Object)
		}
	})
}

func TestFolderErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v; want an error that names the file", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no recording") {
		t.Errorf("%v; want an error that there is no recording", err)
	}
	r, err := Open("/dev/zero")
	if err == nil {
		_, err = r.next()
	}
	if err == nil || err.Error() != "/dev/zero is a device, not a file" {
		t.Errorf("%v; want an error that it is a device", err)
	}
}

// TestCutAndDamaged: a segment is read up to where a crash cut it off, and one with a changed byte
// is reported.
func TestCutAndDamaged(t *testing.T) {
	text := &bytes.Buffer{}
	for n := range 1000 {
		fmt.Fprintf(text, `{"type":"decision","decision":{"namespace":"ns","name":"p%d","outcome":"Published"}}`+"\n", n*n)
	}
	text.WriteString(`{"type":"end"}` + "\n")
	whole := compressed(t, text.Bytes())
	changed := bytes.Clone(whole)
	changed[len(changed)/2] ^= 0x40
	for name, tc := range map[string]struct {
		segment []byte
		entries int
		cut     bool
		damaged int
	}{
		"whole":                  {whole, 1001, false, 0},
		"cut off":                {whole[:len(whole)/2], -1, true, 1},
		"empty":                  {nil, 0, true, 1},
		"a changed byte":         {changed, -1, false, 1},
		"no end":                 {compressed(t, []byte(`{"type":"started"}`+"\n")), 1, true, 1},
		"half a line":            {compressed(t, []byte(`{"type":"started"}`+"\n"+`{"ty`)), 1, true, 1},
		"not JSON":               {compressed(t, []byte("hello\n")), 0, false, 1},
		"not compressed":         {[]byte(`{"type":"end"}`), 0, false, 1},
		"an endless line":        {compressed(t, bytes.Repeat([]byte("x"), maxLine+100_000)), 0, false, 1},
		"unknown type and field": {compressed(t, []byte(`{"type":"new","x":{"y":[1]}}`+"\n"+`{"type":"end"}`+"\n")), 2, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x"+suffix)
			if err := os.WriteFile(path, tc.segment, 0o600); err != nil {
				t.Fatal(err)
			}
			counts, r := countTypes(t, path)
			entries := 0
			for _, n := range counts {
				entries += n
			}
			if tc.entries >= 0 && entries != tc.entries || len(r.Damaged) != tc.damaged {
				t.Errorf("%d entries, %+v", entries, r.Damaged)
			}
			if tc.damaged > 0 && r.Damaged[0].Cut != tc.cut {
				t.Errorf("%+v; want cut %t", r.Damaged[0], tc.cut)
			}
		})
	}
}

func compressed(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zip, err := zstd.NewWriter(&out, zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zip.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSince(t *testing.T) {
	dir := t.TempDir()
	at := func(hour int) time.Time { return time.Date(2026, 6, 1, hour, 0, 0, 0, time.UTC) }
	for hour := 1; hour <= 4; hour++ {
		if err := os.WriteFile(filepath.Join(dir, segmentName(at(hour), "run", hour, 0)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		since time.Time
		want  int
	}{
		"no time":    {time.Time{}, 0},
		"before":     {at(0), 0},
		"first":      {at(1).Add(time.Minute), 0},
		"on the dot": {at(3), 2},
		"between":    {at(3).Add(time.Minute), 2},
		"after":      {at(9), 3},
	} {
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if r.Since(tc.since); 4-len(r.files) != tc.want {
			t.Errorf("%s: begins with segment %d, want %d", name, 4-len(r.files), tc.want)
		}
	}
}

// TestAppendEntry: entries are read back as they were written.
func TestAppendEntry(t *testing.T) {
	at := time.Date(2026, 6, 1, 3, 12, 0, 123456789, time.UTC)
	page := fixture.Page("ns", "p-decision-1").Of("p").Lists("paris").Obj()
	status := *page
	for name, e := range map[string]Written{
		"empty":     {Entry: &Entry{Type: "x"}},
		"strings":   {Entry: &Entry{Type: "x", Name: "a\"b\\c\n\u2028<>&é\x7f", Clusters: []string{"", "日本"}}},
		"object":    {Entry: &Entry{Type: "object", Number: 7, Time: at, Kind: "PlacementDecision", Hash: 1 << 63}, Object: page},
		"status":    {Entry: &Entry{Type: TypeStatus, Version: "8", Generation: 3, Annotations: map[string]string{"a": "b"}}, Status: &status.Status},
		"published": {Entry: &Entry{Type: "published", Published: &Published{Changes: true, Added: []string{"a"}, Pages: map[string]uint64{"p": 1}, Scores: map[string]int64{"a": -1}, NoScores: []string{"b"}, ScoresAt: at, Revision: 2, Restored: true, Generation: 1, Profile: "x"}}},
		"pages":     {Entry: &Entry{Type: "published", Published: &Published{Pages: map[string]uint64{"p": 1, "q": 2}}}},
		"deleted":   {Entry: &Entry{Type: "deleted", UID: "u", KeepsLanded: true, TaintTimes: []time.Time{at, {}}}},
		"readiness": {Entry: &Entry{Type: "readiness", Readiness: &inventory.ReadinessInput{Source: "s", Replaces: true}}},
		"others":    {Entry: &Entry{Header: &Header{Format: 1, Config: json.RawMessage(`{"a":1}`)}, Gap: &Gap{Since: at}, Checkpoint: &Checkpoint{}, Counts: map[string]json.RawMessage{"c": json.RawMessage("1")}}},
		"decision": {Entry: &Entry{Decision: &Decision{
			Namespace: "ns", Name: "p", UID: "u", Input: -1, Now: at, Queue: &framework.QueueAdmission{Limit: -1, Sets: []string{}},
			Timers: framework.Timers{
				Change: framework.Stability{Digest: "d", Since: at}, Forced: framework.Stability{RemovingSince: at}, Revoked: framework.Stability{Since: at},
				TiersOf: "t", NextAttempt: at, NextAttemptCause: "timer", ReadySince: map[string]time.Time{"a": at, "b": {}},
			},
			Answers: &framework.Answers{Revision: 1, Plugins: map[string]time.Time{}}, Cause: "c", Profile: "p", Outcome: "o", Failure: "f", EndedEarly: true,
			Target: "t", Step: "s", Selected: 2, Revision: 3, Added: []string{"a", "b"}, Removed: []string{"c"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := appendEntry(nil, &e)
			if err != nil {
				t.Fatal(err)
			}
			var got Entry
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			object, status := &v1alpha1.PlacementDecision{}, &v1alpha1.PlacementDecisionStatus{}
			if e.Object != nil {
				err = json.Unmarshal(got.Object, object)
				got.Object = nil
			} else if e.Status != nil {
				err = json.Unmarshal(got.Status, status)
				got.Status = nil
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*e.Entry, got); diff != "" {
				t.Errorf("(-written +read):\n%s", diff)
			}
			if e.Object != nil && !cmp.Equal(e.Object, client.Object(object)) || e.Status != nil && !cmp.Equal(e.Status, any(status)) {
				t.Errorf("%s is not read as it was", line)
			}
		})
	}
}

// FuzzReader reads segments of any content: compressed lines, and bytes that claim to be so.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"type":"header","header":{"format":1}}`+"\n"), true)
	f.Add([]byte(`{"type":"object","number":3,"kind":"ManagedCluster","object":{"metadata":{"name":"c"}}}`+"\n"+`{"type":"end"}`+"\n"), true)
	f.Add([]byte(`{"type":"status","kind":"Placement","name":"p","status":{}}`+"\n"), true)
	f.Add(compressed(f, bytes.Repeat([]byte("{}\n"), 1000)), false)
	f.Add([]byte("\x28\xb5\x2f\xfd"), false)
	path := filepath.Join(f.TempDir(), "x"+suffix)
	f.Fuzz(func(t *testing.T, content []byte, lines bool) {
		if lines {
			content = compressed(t, content)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		d, inv := NewDecoder(), inventory.New(inventory.Options{})
		for range 100_000 {
			e, err := r.next()
			if err != nil {
				return
			}
			if in, ok, err := d.Input(e); ok && err == nil {
				inv.Apply(in)
			}
		}
	})
}

// TestLargeCheckpoint: a checkpoint that is larger than the limit of a segment is not written again
// until there are as many new entries.
func TestLargeCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Options{Dir: t.TempDir(), MaxSize: MinSize, Now: time.Now, Log: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
		for n := range 5000 {
			inv.Update(fixture.Cluster(fmt.Sprintf("cluster%d", n)).Set("s").Annotation("text", strings.Repeat("x", 1000)).Obj())
		}
		r.Begin(inv)
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx)
		}()
		for n := range 10 {
			inv.Update(paris(n))
			time.Sleep(2 * time.Second)
		}
		end()
		<-ended
		if counts, _ := countTypes(t, r.Dir()); counts[TypeCheckpoint] != 1 {
			t.Errorf("%d checkpoints, want 1", counts[TypeCheckpoint])
		}
	})
}

// TestAnnotations: annotations that no decision reads cannot fill the recording.
func TestAnnotations(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for name, tc := range map[string]struct{ annotations, want map[string]string }{
		"few":       {map[string]string{"a/b": "c", v1alpha1.ProfileAnnotation: "p"}, map[string]string{"a/b": "c", v1alpha1.ProfileAnnotation: "p"}},
		"long":      {map[string]string{"a/b": long, v1alpha1.ProfileAnnotation: "p"}, map[string]string{v1alpha1.ProfileAnnotation: "p"}},
		"long, own": {map[string]string{"berth.dev/x": long, v1alpha1.ProfileAnnotation: "p"}, map[string]string{v1alpha1.ProfileAnnotation: "p"}},
	} {
		pl := fixture.Placement("ns", "p").Obj()
		pl.Annotations = tc.annotations
		e, err := NewEncoder().Encode(inventory.Input{Kind: inventory.InputObject, Object: pl})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, e.Object.GetAnnotations()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRemovedFolder: a folder that is removed while the recorder runs is created again.
func TestRemovedFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := start(t, Options{})
		time.Sleep(2 * time.Second)
		if err := os.RemoveAll(tr.dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		tr.change(1)
		tr.stop()
		if last := lastOf(t, tr.dir, "object"); !strings.Contains(string(last.Object), `"n":"1"`) {
			t.Errorf("the last object is %s", last.Object)
		}
	})
}
