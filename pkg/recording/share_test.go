package recording

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
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// noise returns n characters that cannot be compressed below half.
func noise(seed string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		sum := sha256.Sum256(fmt.Append(nil, seed, i))
		b.WriteString(hex.EncodeToString(sum[:]))
	}
	return b.String()[:n]
}

// edit is a state of a Placement with a spec of about size bytes.
func edit(namespace string, version, size int) *v1alpha1.Placement {
	pl := fixture.Placement(namespace, "web").Predicate(fixture.MatchLabel("l", noise(fmt.Sprint(namespace, version), size))).Obj()
	pl.UID, pl.ResourceVersion = "u", fmt.Sprint(version+1)
	return pl
}

// segmentBytes returns the size of all segments in a folder.
func segmentBytes(t *rapid.T, dir string) (size int64) {
	all, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		size += s.size
	}
	return size
}

// TestShares: random writers write to files, after each of which prune runs. A share that uses no
// more than its part of the limit, beside the current file, loses nothing, and the folder does not
// get larger.
func TestShares(t *testing.T) {
	const limit, framingSize = 400_000, 2_000
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "shares")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		writers := rapid.IntRange(1, 5).Draw(t, "writers")
		files := rapid.IntRange(1, 8).Draw(t, "files")
		written, bytes, version := map[string]map[string]int{}, map[string]int64{}, 0
		// spared are the objects in files since others lost entries first: prune does not change
		// the current file, and later ones may not need it.
		spared, largest, pruned := map[string]int{}, int64(0), false
		for file := range files {
			current := map[string]int{}
			w, err := newSegment(dir, segmentName(fixture.Now.Add(time.Duration(file)*time.Minute), "run", 1, file))
			if err != nil {
				t.Fatal(err)
			}
			encoder := NewEncoder()
			if err := w.write(&Entry{Type: TypeHeader, Header: &Header{Run: "run", Segment: 1, Part: file}}); err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 6).Draw(t, "entries") {
				version++
				namespace := fmt.Sprint("ns", rapid.IntRange(0, writers-1).Draw(t, "writer"))
				if written[namespace] == nil {
					written[namespace] = map[string]int{}
				}
				if rapid.Bool().Draw(t, "decision") {
					d := &Decision{Namespace: namespace, Name: "web", Failure: noise(fmt.Sprint(version), rapid.IntRange(0, 20_000).Draw(t, "size"))}
					if err := w.write(&Entry{Type: TypeDecision, Decision: d}); err != nil {
						t.Fatal(err)
					}
					written[namespace][TypeDecision]++
				} else {
					e, err := encoder.Encode(inventory.Input{Kind: inventory.InputObject, Object: edit(namespace, version, rapid.IntRange(0, 100_000).Draw(t, "size"))})
					if err != nil {
						t.Fatal(err)
					}
					if err := w.writeObject(&e); err != nil {
						t.Fatal(err)
					}
					written[namespace][string(inventory.InputObject)]++
					current[namespace]++
				}
				// Exact shares need a block for each entry.
				if err := w.flush(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.end(fixture.Now); err != nil {
				t.Fatal(err)
			}
			for namespace, n := range w.used {
				for _, n := range n {
					bytes[namespace] += n
				}
			}
			before := segmentBytes(t, dir)
			size, err := prune(dir, w.path, w.used, limit, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if last, err := os.Stat(w.path); err != nil || size > max(limit, last.Size()+int64(files)*framingSize) {
				t.Fatalf("%d bytes, %v; want at most %d", size, err, limit)
			}
			if last, err := os.Stat(w.path); err == nil {
				largest = max(largest, last.Size())
			}
			if pruned = pruned || size < before; pruned {
				for namespace, n := range current {
					spared[namespace] += n
				}
			}
		}
		kept := map[string]map[string]int{}
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for e, err := range r.Entries() {
			if err != nil {
				t.Fatal(err)
			}
			if share, class := e.share(); class != framing && !e.Reduced {
				if kept[share] == nil {
					kept[share] = map[string]int{}
				}
				if e.Type == TypeStatus {
					e.Type = string(inventory.InputObject)
				}
				kept[share][e.Type]++
			}
		}
		for namespace, want := range written {
			got := kept[namespace]
			if bytes[namespace] <= (limit-limit/4-largest-int64(files)*framingSize)/int64(len(written)) && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s used %d bytes of %d: kept %v of %v", namespace, bytes[namespace], limit, got, want)
			}
			if got["object"] > spared[namespace] && got[TypeDecision] < want[TypeDecision] {
				t.Fatalf("%s has objects, but not all decisions: %v of %v", namespace, got, want)
			}
		}
		if len(r.Damaged) > 0 {
			t.Fatal(r.Damaged)
		}
	})
}

// TestShareOfTheBuffer: while the disk is slow, large edits of one namespace are reduced, and those
// of others are kept.
func TestShareOfTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Options{Dir: t.TempDir(), Now: time.Now, Log: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
		r.Begin(inv)
		// Nothing writes yet.
		for n := range 100 {
			inv.Update(edit("evil", n, 1_000_000))
			inv.Update(edit("shop", n, 1_000))
		}
		if r.Stats().Lost > 0 || r.buffer.size > bufferSize/2 {
			t.Errorf("%d entries are lost, %d bytes wait", r.Stats().Lost, r.buffer.size)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		r.Run(ended)
		reduced, whole := 0, 0
		entriesOf(t, r.Dir(), func(e *Entry) {
			switch {
			case e.Reduced && e.Namespace == "evil":
				reduced++
			case e.Reduced:
				t.Errorf("an object of %s is reduced", e.Namespace)
			case e.Namespace == "shop":
				whole++
			}
		})
		if whole != 100 || reduced < 80 {
			t.Errorf("%d objects of shop are whole, %d of evil are reduced", whole, reduced)
		}
	})
}

func entriesOf(t *testing.T, dir string, visit func(*Entry)) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		visit(e)
	}
}

// TestIdleReplica: a replica that writes nothing for longer than the maximum age keeps its segment
// while another one removes old segments.
func TestIdleReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Dir: filepath.Join(t.TempDir(), "recording"), MaxAge: 3 * time.Hour}
		idle := start(t, o)
		synctest.Wait()
		files, err := segments(o.Dir)
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		// The time of the file system is not that of the bubble.
		if err := os.Chtimes(files[0].path, time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour + time.Second)
		busy := start(t, o)
		synctest.Wait()
		if _, err := os.Stat(files[0].path); err != nil {
			t.Error(err)
		}
		busy.stop()
		idle.stop()
	})
}

// TestUsage: the bytes of shares are read from the end of a segment, or, where a crash cut that
// off, from its entries.
func TestUsage(t *testing.T) {
	w, err := newSegment(t.TempDir(), segmentName(fixture.Now, "run", 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	for n, namespace := range []string{"a", "b", "b", "b"} {
		e, err := NewEncoder().Encode(inventory.Input{Kind: inventory.InputObject, Object: edit(namespace, n, 100_000)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.writeObject(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(fixture.Now); err != nil {
		t.Fatal(err)
	}
	want, _ := usageOf(w.path)
	info, err := os.Stat(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(w.path, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	got, err := usageOf(w.path)
	for share, u := range map[string]usage{"from the end": want, "from the entries": got} {
		if len(u) != 2 || u["a"][objects]*2 > u["b"][objects] || u["a"][objects]*8 < u["b"][objects] || u["a"][objects]+u["b"][objects] > info.Size() || u["b"][decisions] != 0 {
			t.Errorf("%s: %v of a, %v of b; %v", share, u["a"], u["b"], err)
		}
	}
}
