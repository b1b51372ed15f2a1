package caches

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// memoryHub is a hub with AddOnPlacementScores.
type memoryHub struct {
	scores map[string]bool
	watch  *watch.FakeWatcher
}

func scoreOf(name string) *v1alpha1.AddOnPlacementScore {
	return &v1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: name}}
}

func nameOf(i int) string { return fmt.Sprintf("s%04d", i) }

func (h *memoryHub) list(_ context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	list := &v1alpha1.AddOnPlacementScoreList{}
	for name := range h.scores {
		list.Items = append(list.Items, *scoreOf(name))
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.AddOnPlacementScore) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// reader is a reflector: what it has after each event.
type reader struct {
	hub   *memoryHub
	limit *scoreLimit
	names map[string]bool
	watch watch.Interface
	// ignored are the calls of ignored.
	ignored []string
	due     chan time.Time
}

func newReader(t interface{ Fatal(...any) }, names ...string) *reader {
	h := &memoryHub{scores: map[string]bool{}}
	for _, name := range names {
		h.scores[name] = true
	}
	r := &reader{hub: h, due: make(chan time.Time, 1)}
	lw := &cache.ListWatch{ListWithContextFunc: h.list, WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		h.watch = watch.NewFake()
		return h.watch, nil
	}}
	r.limit = newScoreLimit(lw, func(namespace string) { r.ignored = append(r.ignored, namespace) })
	r.limit.after = func(time.Duration) <-chan time.Time { return r.due }
	r.relist(t)
	return r
}

func (r *reader) relist(t interface{ Fatal(...any) }) {
	list, err := r.limit.ListWithContext(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.names = map[string]bool{}
	for _, s := range list.(*v1alpha1.AddOnPlacementScoreList).Items {
		r.names[s.Name] = true
	}
	if r.watch != nil {
		r.watch.Stop()
	}
	if r.watch, err = r.limit.WatchWithContext(context.Background(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

// send sends an event, and a bookmark after it.
func (r *reader) send(event watch.EventType, name string) {
	r.hub.watch.Action(event, scoreOf(name))
	if r.hub.scores[name] = true; event == watch.Deleted {
		delete(r.hub.scores, name)
	}
	go r.hub.watch.Action(watch.Bookmark, &v1alpha1.AddOnPlacementScore{})
	for e := range r.watch.ResultChan() {
		s := e.Object.(*v1alpha1.AddOnPlacementScore)
		switch e.Type {
		case watch.Bookmark:
			return
		case watch.Deleted:
			delete(r.names, s.Name)
		default:
			r.names[s.Name] = true
		}
	}
}

func (r *reader) first() map[string]bool {
	names := map[string]bool{}
	sorted := make([]string, 0, len(r.hub.scores))
	for name := range r.hub.scores {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted[:min(len(sorted), MaxScores)] {
		names[name] = true
	}
	return names
}

// TestScoresAreLimited: the cache has the first MaxScores of a namespace, whatever order they
// arrive in, and never more.
func TestScoresAreLimited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var names []string
		for i := range rapid.IntRange(0, 2*MaxScores).Draw(t, "listed") {
			names = append(names, nameOf(2*i))
		}
		r := newReader(t, names...)
		for range rapid.IntRange(0, 300).Draw(t, "events") {
			name := nameOf(rapid.IntRange(0, 4*MaxScores).Draw(t, "name"))
			event := watch.Added
			if r.hub.scores[name] {
				event = rapid.SampledFrom([]watch.EventType{watch.Modified, watch.Deleted}).Draw(t, "event")
			}
			r.send(event, name)
			if len(r.names) > MaxScores {
				t.Fatalf("%d are cached", len(r.names))
			}
		}
		if _, due := r.limit.untilRelist(); due {
			r.relist(t)
		}
		if diff := cmp.Diff(r.first(), r.names); diff != "" {
			t.Fatalf("cached (-want +got):\n%s", diff)
		}
	})
}

// TestHiddenScoresAreListedAgain: if one of the first scores is deleted, the watch ends, and the
// next list has the one that follows.
func TestHiddenScoresAreListedAgain(t *testing.T) {
	var names []string
	for i := range MaxScores + 1 {
		names = append(names, nameOf(i))
	}
	r := newReader(t, names...)
	if r.names[nameOf(MaxScores)] || len(r.names) != MaxScores {
		t.Fatalf("%d are cached", len(r.names))
	}
	if r.send(watch.Deleted, nameOf(MaxScores)); r.limit.relist {
		t.Error("a list for a hidden score")
	}
	r.send(watch.Added, nameOf(MaxScores))
	r.send(watch.Deleted, nameOf(0))
	if pause, due := r.limit.untilRelist(); !due || pause <= 0 || pause > relistPause {
		t.Errorf("the next list is in %s, %t", pause, due)
	}
	r.due <- time.Time{}
	for event := range r.watch.ResultChan() {
		if status, ok := event.Object.(*metav1.Status); !ok || status.Reason != metav1.StatusReasonExpired {
			t.Errorf("event %v", event)
		}
	}
	r.relist(t)
	if !r.names[nameOf(MaxScores)] || r.names[nameOf(0)] {
		t.Error("the hidden score is missing")
	}
	if diff := cmp.Diff([]string{"c"}, r.ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

// TestStoppedWatch: an event that a stopped watch could not pass on leads to another list, and a
// watch before the last list changes nothing.
func TestStoppedWatch(t *testing.T) {
	r := newReader(t, nameOf(1))
	w := r.watch.(*limitedWatch)
	w.Stop()
	w.limit.lost(w.list)
	if _, due := r.limit.untilRelist(); !due {
		t.Error("no list after a lost event")
	}
	r.relist(t)
	if events := r.limit.show(watch.Event{Type: watch.Deleted, Object: scoreOf(nameOf(1))}, w.list); events != nil || !r.limit.kept.has("c", nameOf(1)) {
		t.Errorf("events %v of a watch before the list", events)
	}
}

// TestFirstScores: the simulator has the same scores as the cache.
func TestFirstScores(t *testing.T) {
	var all []*v1alpha1.AddOnPlacementScore
	for i := range MaxScores + 50 {
		all = append(all, scoreOf(nameOf(MaxScores+49-i)))
	}
	kept := FirstScores(all)
	if len(kept) != MaxScores || kept[0].Name != nameOf(MaxScores-1) || kept[MaxScores-1].Name != nameOf(0) {
		t.Errorf("%d are kept", len(kept))
	}
}
