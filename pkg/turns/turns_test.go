package turns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// begin starts work that runs until its channel is closed, and notes in what order work begins.
func begin(t *Turns, order *[]string, key string) (end chan struct{}) {
	end = make(chan struct{})
	go func() {
		done, err := t.Wait(context.Background(), key)
		if err != nil {
			*order = append(*order, key+" "+err.Error())
			return
		}
		defer done()
		*order = append(*order, key)
		<-end
	}()
	synctest.Wait()
	return end
}

// TestKeysTakeTurns: however much work one key has, another one waits for at most one of it.
func TestKeysTakeTurns(t *testing.T) {
	for name, tc := range map[string]struct {
		atOnce, ofOne, waiting int
		work, want             string
	}{
		"one at a time":           {1, 1, 9, "a a a b b c", "a a b c a b"},
		"some of one key":         {3, 2, 9, "a a a b", "a a b a"},
		"a key that waits":        {2, 1, 9, "a a a b b", "a b a a b"},
		"more than may wait":      {1, 1, 1, "a a a b", "a a too much at once a b"},
		"each beside the others":  {9, 1, 9, "a b c", "a b c"},
		"a free place for others": {2, 1, 9, "a a b", "a b a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns, order := New(tc.atOnce, tc.ofOne, tc.waiting), []string{}
				var ends []chan struct{}
				for key := range strings.FieldsSeq(tc.work) {
					ends = append(ends, begin(turns, &order, key))
				}
				for _, end := range ends {
					close(end)
					synctest.Wait()
				}
				if got := strings.Join(order, " "); got != tc.want {
					t.Errorf("began in the order %q, want %q", got, tc.want)
				}
				if turns.total != 0 || len(turns.running)+len(turns.line) > 0 {
					t.Errorf("left over: %+v", turns)
				}
			})
		})
	}
}

// TestWaitEnds: who does not get a turn in time is told whether its own key is the reason.
func TestWaitEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		work string
		want error
	}{
		"because of others":             {"b", context.DeadlineExceeded},
		"because of its own":            {"a", ErrCrowded},
		"because of its own that waits": {"b a", ErrCrowded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns, order := New(1, 1, 9), []string{}
				var ends []chan struct{}
				for key := range strings.FieldsSeq(tc.work) {
					ends = append(ends, begin(turns, &order, key))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := turns.Wait(ctx, "a"); !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				for _, end := range ends {
					close(end)
				}
				synctest.Wait()
				done, err := turns.Wait(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				done()
				done()
				if turns.total != 0 {
					t.Errorf("%d run", turns.total)
				}
			})
		})
	}
}

// TestTurnsKeepLimits: whatever work begins, ends and gives up.
func TestTurnsKeepLimits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		atOnce, ofOne := rapid.IntRange(1, 4).Draw(rt, "at once"), rapid.IntRange(1, 3).Draw(rt, "of one")
		work := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 30).Draw(rt, "work")
		times := rapid.SliceOfN(rapid.IntRange(1, 20), len(work), len(work)).Draw(rt, "times")
		problem := ""
		synctest.Test(t, func(t *testing.T) {
			turns := New(atOnce, ofOne, len(work))
			var mu sync.Mutex
			running, total := map[int]int{}, 0
			count := func(key, n int) {
				mu.Lock()
				defer mu.Unlock()
				running[key] += n
				if total += n; total > atOnce || running[key] > ofOne {
					problem = fmt.Sprint("runs: ", running)
				}
			}
			for i, key := range work {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(times[len(times)-1-i])*time.Second)
					defer cancel()
					done, err := turns.Wait(ctx, fmt.Sprint(key))
					if err != nil {
						return
					}
					count(key, 1)
					time.Sleep(time.Duration(times[i]) * time.Second) // in the time of the test only
					count(key, -1)
					done()
				}()
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if turns.total != 0 || len(turns.running)+len(turns.line) > 0 {
				problem = fmt.Sprintf("left over: %+v", turns)
			}
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}
