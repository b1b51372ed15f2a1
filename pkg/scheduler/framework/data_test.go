package framework

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func bitsetOf(members ...int) Bitset {
	var b Bitset
	for _, i := range members {
		b = b.Set(i)
	}
	return b
}

func TestBitset(t *testing.T) {
	both := bitsetOf(1, 130)
	tests := map[string]struct {
		set  Bitset
		want []int
	}{
		"the zero value is empty":              {set: nil},
		"members across words, in order":       {set: bitsetOf(200, 0, 63, 64), want: []int{0, 63, 64, 200}},
		"twice the same":                       {set: bitsetOf(5, 5), want: []int{5}},
		"or grows":                             {set: bitsetOf(1).Or(bitsetOf(130)), want: []int{1, 130}},
		"or with a shorter one":                {set: bitsetOf(1, 130).Or(bitsetOf(2)), want: []int{1, 2, 130}},
		"and with a shorter one drops the end": {set: and(bitsetOf(1, 2, 130), bitsetOf(2)), want: []int{2}},
		"without":                              {set: bitsetOf(1, 2, 130).Without(bitsetOf(2, 3, 300)), want: []int{1, 130}},
		"without a shorter one":                {set: bitsetOf(1, 130).Without(bitsetOf(1)), want: []int{130}},
		"without itself":                       {set: both.Without(both)},
		"unset":                                {set: unset(bitsetOf(1, 64), 64), want: []int{1}},
		"unset beyond the end is legal":        {set: unset(bitsetOf(1), 500), want: []int{1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := slices.Collect(tc.set.All)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			if tc.set.Len() != len(tc.want) {
				t.Errorf("Len is %d, want %d", tc.set.Len(), len(tc.want))
			}
			for i := range 300 {
				if tc.set.Has(i) != slices.Contains(tc.want, i) {
					t.Errorf("Has(%d) is %t", i, tc.set.Has(i))
				}
			}
		})
	}
}

func and(a, b Bitset) Bitset           { a.And(b); return a }
func unset(b Bitset, i int) Bitset     { b.Unset(i); return b }
func cloned(b Bitset) (orig, c Bitset) { return b, b.Clone() }

func TestBitsetCovers(t *testing.T) {
	for name, tc := range map[string]struct {
		b, o Bitset
		want bool
	}{
		"all of them":        {bitsetOf(1, 2, 130), bitsetOf(2, 130), true},
		"nothing":            {nil, nil, true},
		"one is missing":     {bitsetOf(1, 130), bitsetOf(1, 2), false},
		"one is beyond":      {bitsetOf(1), bitsetOf(1, 130), false},
		"longer, but empty":  {bitsetOf(1), unset(bitsetOf(1, 130), 130), true},
		"of more than there": {bitsetOf(1, 130), bitsetOf(1), true},
	} {
		if got := tc.b.Covers(tc.o); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestClusterFitsALine: a cycle over a large fleet takes as long as fetching the clusters from
// memory.
func TestClusterFitsALine(t *testing.T) {
	const line = 64
	if size := unsafe.Sizeof(Cluster{}); size > line {
		t.Errorf("a cluster has %d bytes, more than the %d of a line of the processor's cache", size, line)
	}
}

func TestBitsetCloneSharesNothing(t *testing.T) {
	original, copied := cloned(bitsetOf(1, 2))
	copied.Unset(1)
	if !original.Has(1) {
		t.Error("a change of the clone is seen in the original")
	}
	for range bitsetOf(1, 2, 3).All {
		break // A loop that is left early must not go on.
	}
}

// TestVectorFreeze compares a Vector and all its frozen copies with plain slices.
func TestVectorFreeze(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v Vector[int]
		var model []int
		type frozen struct {
			vector *Vector[int]
			want   []int
		}
		var copies []frozen
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "action") {
			case 0:
				f := v.Freeze()
				if f != v.Freeze() {
					t.Fatal("two copies with nothing set in between are not one")
				}
				copies = append(copies, frozen{f, slices.Clone(model)})
			case 1:
				if len(copies) == 0 || len(copies[len(copies)-1].want) == 0 {
					continue
				}
				last := copies[len(copies)-1]
				i := rapid.IntRange(0, len(last.want)-1).Draw(t, "with")
				want := slices.Clone(last.want)
				want[i] = -1
				copies = append(copies, frozen{last.vector.With(i, -1), want})
			default:
				i := rapid.IntRange(0, 3*chunkSize).Draw(t, "index")
				x := rapid.IntRange(1, 1000).Draw(t, "value")
				for len(model) <= i {
					model = append(model, 0)
				}
				model[i] = x
				v.Set(i, x)
			}
			copies = append(copies, frozen{&v, model})
			for n, c := range copies {
				if c.vector.Len() != len(c.want) {
					t.Fatalf("copy %d has length %d, want %d", n, c.vector.Len(), len(c.want))
				}
				for i, want := range c.want {
					if got := c.vector.Get(i); got != want {
						t.Fatalf("copy %d has %d at %d, want %d", n, got, i, want)
					}
				}
			}
			copies = copies[:len(copies)-1]
		}
	})
}

func TestVectorBeyondItsEnd(t *testing.T) {
	var none *Vector[int]
	var v Vector[int]
	v.Set(3, 7)
	for _, got := range []int{none.Get(0), v.Get(4), v.Get(-1), v.Get(10 * chunkSize), v.Get(0)} {
		if got != 0 {
			t.Errorf("got %d, want 0", got)
		}
	}
}

func TestChangeLogSince(t *testing.T) {
	log := ChangeLog{First: 10, Entries: []ClusterChange{{Index: 1}, {Index: 2, Selectable: true}}}
	tests := map[string]struct {
		from      uint64
		want      []ClusterChange
		wantKnown bool
	}{
		"all that are kept": {from: 10, want: log.Entries, wantKnown: true},
		"the last":          {from: 11, want: log.Entries[1:], wantKnown: true},
		"none is newer":     {from: 12, want: []ClusterChange{}, wantKnown: true},
		"forgotten":         {from: 9},
		"from another life": {from: 13},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, known := log.Since(tc.from)
			if diff := cmp.Diff(tc.want, got); diff != "" || known != tc.wantKnown {
				t.Errorf("known is %t, changes (-want +got):\n%s", known, diff)
			}
		})
	}
}

// TestDecisionCountsMax compares Max with a new count that leaves out the given entries.
func TestDecisionCountsMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Int32Range(0, 6), 0, 12).Draw(t, "counts")
		d := &DecisionCounts{ByIndex: &Vector[int32]{}}
		var want int32
		less := Entries{More: map[int]int32{}}
		for i, n := range counts {
			d.ByIndex.Set(i, n)
			for int(n) >= len(d.Histogram) {
				d.Histogram = append(d.Histogram, 0)
			}
			if n > 0 {
				d.Histogram[n]++
			}
			if n > 0 && rapid.Bool().Draw(t, "own") {
				less.Clusters, less.More[i] = less.Clusters.Set(i), rapid.Int32Range(1, n).Draw(t, "less")-1
			}
			want = max(want, n-less.Of(i))
		}
		if got := d.Max(&less); got != want {
			t.Fatalf("Max(%v) of %v is %d, want %d", less, counts, got, want)
		}
	})
}
