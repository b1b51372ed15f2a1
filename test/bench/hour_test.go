package bench

import (
	"slices"
	"testing"
	"time"
)

// TestLive checks the figures of a small fleet: cycles that cannot change the answer are skipped,
// and no page is written more often than an answer changes.
func TestLive(t *testing.T) {
	f, err := NewFleet(600, 2, 40)
	if err != nil {
		t.Fatal(err)
	}
	all := f.Inventory.Placements()
	for range 2 {
		if err := f.Decide(all); err != nil {
			t.Fatal(err)
		}
	}
	h, err := f.Live(30*time.Minute, Rates{Heartbeats: 6, Resources: 2, Labels: 0.2, Outages: 0.5, Edits: 1}, func(time.Duration) {})
	if err != nil {
		t.Fatal(err)
	}
	if want := 600 + 60 + 300 + 20; h.Events > want || h.Events < want/2 || h.Heartbeats < 1700 || h.Heartbeats > 1800 {
		t.Errorf("%d changes and %d heartbeats in half an hour", h.Events, h.Heartbeats)
	}
	if h.Skipped <= h.Attempts || h.Moved == 0 || h.Pages != h.Moved {
		t.Errorf("%d attempts, %d skipped, %d moved clusters in %d pages", h.Attempts, h.Skipped, h.Moved, h.Pages)
	}
	if len(h.Latencies) != h.Events || len(h.Moves) == 0 || !slices.IsSorted(h.Latencies) || At(h.Latencies, 1) < At(h.Latencies, 0.5) || At(nil, 0.5) != 0 {
		t.Errorf("%d latencies of %d changes", len(h.Latencies), h.Events)
	}
}
