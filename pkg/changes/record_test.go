package changes

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

func placement(uid types.UID) *v1alpha1.Placement {
	return &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Generation: 1, UID: uid}}
}

// gzipped compresses any text.
func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDigest(t *testing.T) {
	tests := map[string]struct {
		names []string
		want  string
	}{
		"nothing": {want: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"one":     {names: []string{"a"}, want: "ffe9aaeaa2a2d5048174df0b80599ef0197ec024c4b051bc9860cff58ef7f9f3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := berthv1alpha1.Digest(tc.names); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
	if berthv1alpha1.Digest([]string{"b", "a", "a"}) != berthv1alpha1.Digest([]string{"a", "b"}) {
		t.Error("order or duplicates matter")
	}
	if berthv1alpha1.Digest([]string{"ab"}) == berthv1alpha1.Digest([]string{"a", "b"}) {
		t.Error("names run together")
	}
}

func someNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return names
}

func TestNewRecord(t *testing.T) {
	tests := map[string]struct {
		from, to       []string
		wantListed     [2]int
		wantDelta      bool
		wantIncomplete bool
	}{
		"first publication": {to: []string{"a", "b"}, wantListed: [2]int{2, 0}},
		"swap":              {from: []string{"a", "b"}, to: []string{"b", "c"}, wantListed: [2]int{1, 1}},
		"at the limit":      {to: someNames("c", 1000), wantListed: [2]int{1000, 0}},
		"above the limit":   {from: someNames("b", 3), to: someNames("c", 1001), wantListed: [2]int{1000, 3}, wantDelta: true},
		"too long for delta": {
			to: randomNames(60000), wantListed: [2]int{1000, 0}, wantIncomplete: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			record := NewRecord(placement("uid"), 0, 7, NewChange(tc.from, tc.to))
			if got := [2]int{len(record.Spec.Added), len(record.Spec.Removed)}; got != tc.wantListed {
				t.Errorf("want %v listed, got %v", tc.wantListed, got)
			}
			if got := len(record.Spec.Delta) > 0; got != tc.wantDelta {
				t.Errorf("want delta %t, got %t", tc.wantDelta, got)
			}
			target, err := Target(record, tc.from)
			if tc.wantIncomplete {
				if !errors.Is(err, ErrIncomplete) {
					t.Fatalf("want ErrIncomplete, got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Sorted(tc.to), target); diff != "" {
				t.Errorf("target (-want +got):\n%s", diff)
			}
			before, err := Before(record, tc.to)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Sorted(tc.from), before); diff != "" {
				t.Errorf("before (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForced: a record lists all forced removals, also if spec.forced cannot, and as it is kept in
// memory.
func TestForced(t *testing.T) {
	many, others := someNames("c", 1200), someNames("d", 1500)
	for name, tc := range map[string]struct {
		before, forced []string
		only           bool
	}{
		"all of few":         {before: many[:3], forced: many[:3], only: true},
		"some of few":        {before: many[:3], forced: many[:2]},
		"as many as fit":     {before: many[:1000], forced: many[:1000], only: true},
		"all of many":        {before: many, forced: many, only: true},
		"many of more":       {before: slices.Concat(many, others), forced: many},
		"few of many":        {before: others, forced: others[:2]},
		"a thousand of more": {before: others, forced: others[:1000]},
	} {
		t.Run(name, func(t *testing.T) {
			change := NewChange(tc.before, nil)
			change.Forced = tc.forced
			record := NewRecord(placement("uid"), 0, 1, change)
			for range 2 {
				if diff := cmp.Diff(tc.forced, ForcedOf(record)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if got := OnlyForced(record); got != tc.only {
					t.Errorf("only forced: %t", got)
				}
				packLists(record)
			}
		})
	}
}

// TestForcedDoNotCutLists: forced removals that do not fit beside the others leave those complete.
func TestForcedDoNotCutLists(t *testing.T) {
	change := NewChange(randomNames(30000), nil)
	change.Forced = change.Removed
	record := NewRecord(placement("uid"), 0, 1, change)
	if _, removed, err := Lists(record); err != nil || len(removed) != 30000 {
		t.Errorf("%d removed, %v", len(removed), err)
	}
	if diff := cmp.Diff(change.Forced[:1000], ForcedOf(record)); diff != "" {
		t.Errorf("forced (-want +got):\n%s", diff)
	}
}

// randomNames do not compress well.
func randomNames(n int) []string {
	names := make([]string, n)
	state := uint64(1)
	for i := range names {
		state = state*6364136223846793005 + 1442695040888963407
		names[i] = fmt.Sprintf("%016x%016x", state, state*0x9e3779b97f4a7c15)
	}
	return names
}

func TestRecordIsRefused(t *testing.T) {
	valid := func() *berthv1alpha1.PlacementChange {
		record := NewRecord(placement("uid"), 0, 1, NewChange([]string{"a"}, []string{"b"}))
		return record
	}
	tests := map[string]struct {
		change func(*berthv1alpha1.PlacementChangeSpec)
		want   string
	}{
		"count":              {func(s *berthv1alpha1.PlacementChangeSpec) { s.AddedCount = 2 }, "spec.addedCount is 2"},
		"digest":             {func(s *berthv1alpha1.PlacementChangeSpec) { s.To = s.From }, "digest in spec.to"},
		"another name":       {func(s *berthv1alpha1.PlacementChangeSpec) { s.Added = []string{"c"} }, "digest in spec.to"},
		"delta is not gzip":  {func(s *berthv1alpha1.PlacementChangeSpec) { s.Delta = []byte("x") }, "spec.delta"},
		"truncated":          {func(s *berthv1alpha1.PlacementChangeSpec) { s.Truncated = true }, "does not list all"},
		"delta is no JSON":   {func(s *berthv1alpha1.PlacementChangeSpec) { s.Delta = gzipped(t, "[") }, "spec.delta"},
		"delta is unsorted":  {func(s *berthv1alpha1.PlacementChangeSpec) { s.Delta = gzipped(t, `{"added":["b","a"]}`) }, "not sorted"},
		"delta names twice":  {func(s *berthv1alpha1.PlacementChangeSpec) { s.Delta = gzipped(t, `{"added":["a","a"]}`) }, "twice"},
		"delta is too large": {func(s *berthv1alpha1.PlacementChangeSpec) { s.Delta = gzipped(t, strings.Repeat(" ", maxDelta+1)) }, "bytes uncompressed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			record := valid()
			tc.change(&record.Spec)
			if _, err := Target(record, []string{"a"}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
}

func TestCauseIsOneBoundedLine(t *testing.T) {
	c := NewChange(nil, []string{"a"})
	c.Cause = strings.Repeat("é", 2000) + "\n\x1b[31m"
	record := NewRecord(placement("uid"), 0, 1, c)
	if got := record.Spec.Cause; len(got) > maxCause || !strings.HasSuffix(got, "é…") || strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-8:])
	}
}

func TestCauseHasNoControlCharacters(t *testing.T) {
	c := NewChange(nil, []string{"a"})
	c.Cause = "a\nb\x7fc d"
	record := NewRecord(placement("uid"), 0, 1, c)
	if diff := cmp.Diff("a b c d", record.Spec.Cause); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLargestDelta(t *testing.T) {
	text := `{"added":["a"]}`
	if _, err := decompress(gzipped(t, text+strings.Repeat(" ", maxDelta-len(text)))); err != nil {
		t.Error(err)
	}
}

// A set, random changes of it, and what records and merged records say of them.
func TestRecordsLeadFromSetToSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfNDistinct(rapid.SampledFrom(someNames("c", 12)), 0, 12, rapid.ID[string])
		a, b, c := set.Draw(t, "a"), set.Draw(t, "b"), set.Draw(t, "c")
		first, second := NewChange(a, b), NewChange(b, c)
		merged, direct := Merge(first, second), NewChange(a, c)
		away := Minus(Sorted(a), Sorted(b))
		direct.Returned = Both(away, Sorted(c))
		if diff := cmp.Diff(direct, merged); diff != "" {
			t.Fatalf("merged (-direct +merged):\n%s", diff)
		}
		record := NewRecord(placement("uid"), 0, 1, first)
		// A step has some of the additions and still some of the removals.
		step := Minus(Sorted(a), first.Removed)
		step = append(step, first.Added[:rapid.IntRange(0, len(first.Added)).Draw(t, "added so far")]...)
		step = append(step, first.Removed[:rapid.IntRange(0, len(first.Removed)).Draw(t, "removals left")]...)
		target, err := Target(record, step)
		if err != nil {
			t.Fatal(err)
		}
		before, err := Before(record, step)
		if err != nil {
			t.Fatal(err)
		}
		if berthv1alpha1.Digest(target) != berthv1alpha1.Digest(b) || berthv1alpha1.Digest(before) != berthv1alpha1.Digest(a) {
			t.Fatalf("from %v to %v by %v: before %v, target %v", a, b, step, before, target)
		}
		record.Status.Phase = berthv1alpha1.PhaseProgressing
		if !Continues(record, &Change{From: berthv1alpha1.Digest(step), To: first.To, Generation: first.Generation}, step, 0) {
			t.Fatalf("a step of the change does not continue it")
		}
	})
}

func FuzzDelta(f *testing.F) {
	f.Add(compress(delta{Added: someNames("c", 3)}))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := decompress(data)
		if err == nil && (!strictlySorted(d.Added) || !strictlySorted(d.Removed) || !strictlySorted(d.Returned) || !strictlySorted(d.Forced)) {
			t.Errorf("unsorted names: %v", d)
		}
	})
}
