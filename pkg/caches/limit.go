package caches

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// relistPause is the shortest time between two lists that a scoreLimit asks for.
const relistPause = 10 * time.Minute

// NewInformer returns a constructor of informers for cache.Options, with at most MaxScores
// AddOnPlacementScores in a namespace. ignored is called for each namespace with more.
func NewInformer(ignored func(namespace string)) func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer {
	return func(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		if _, ok := example.(*v1alpha1.AddOnPlacementScore); ok {
			lw = newScoreLimit(lw, ignored)
		}
		return cache.NewSharedIndexInformer(lw, example, resync, indexers)
	}
}

// FirstScores returns the AddOnPlacementScores without those beyond MaxScores of their namespace,
// as caches have them.
func FirstScores[O metav1.Object](all []O) []O {
	kept := newNameLimit()
	for _, s := range all {
		kept.add(s.GetNamespace(), s.GetName())
	}
	return slices.DeleteFunc(slices.Clone(all), func(s O) bool { return !kept.has(s.GetNamespace(), s.GetName()) })
}

// nameLimit keeps the first MaxScores names of each namespace.
type nameLimit struct {
	names map[string][]string
	// more has the namespaces with names that are not kept.
	more map[string]bool
}

func newNameLimit() nameLimit {
	return nameLimit{names: map[string][]string{}, more: map[string]bool{}}
}

func (l nameLimit) has(namespace, name string) bool {
	_, found := slices.BinarySearch(l.names[namespace], name)
	return found
}

// add adds a name. It returns the name that is no longer kept, which may be the new one; "" if all
// are.
func (l nameLimit) add(namespace, name string) (dropped string) {
	names := l.names[namespace]
	i, found := slices.BinarySearch(names, name)
	if found {
		return ""
	}
	if len(names) == MaxScores {
		l.more[namespace] = true
		if i == MaxScores {
			return name
		}
		dropped, names = names[MaxScores-1], names[:MaxScores-1]
	}
	l.names[namespace] = slices.Insert(names, i, name)
	return dropped
}

func (l nameLimit) remove(namespace, name string) {
	if i, found := slices.BinarySearch(l.names[namespace], name); found {
		if l.names[namespace] = slices.Delete(l.names[namespace], i, i+1); len(l.names[namespace]) == 0 {
			delete(l.names, namespace)
		}
	}
}

// scoreLimit hides from a reflector the AddOnPlacementScores beyond MaxScores of a namespace, so
// that they take no memory. If one that was shown is deleted, those that were hidden must be read
// again: then it ends the watch, but not within relistPause after the last list.
type scoreLimit struct {
	cache.ListerWatcher
	ignored func(namespace string)
	now     func() time.Time
	after   func(time.Duration) <-chan time.Time

	mu   sync.Mutex
	kept nameLimit
	// listed is when the last list began, and lists counts them. relist is true if there must be
	// another one.
	listed time.Time
	lists  int
	relist bool
	// told has the namespaces that ignored was called for.
	told map[string]bool
}

func newScoreLimit(lw cache.ListerWatcher, ignored func(string)) *scoreLimit {
	return &scoreLimit{ListerWatcher: lw, ignored: ignored, now: time.Now, after: time.After, kept: newNameLimit(), told: map[string]bool{}}
}

// reset begins a new list.
func (l *scoreLimit) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for namespace := range l.told {
		if !l.kept.more[namespace] {
			delete(l.told, namespace)
		}
	}
	l.kept, l.listed, l.relist = newNameLimit(), l.now(), false
	l.lists++
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (l *scoreLimit) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue == "" {
		l.reset()
	}
	list, err := cache.ToListerWatcherWithContext(l.ListerWatcher).ListWithContext(ctx, o)
	scores, ok := list.(*v1alpha1.AddOnPlacementScoreList)
	if err != nil || !ok {
		return list, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// The pages of a list are in the order of the names.
	for i := range scores.Items {
		l.add(&scores.Items[i])
	}
	scores.Items = slices.DeleteFunc(scores.Items, func(s v1alpha1.AddOnPlacementScore) bool { return !l.kept.has(s.Namespace, s.Name) })
	return scores, nil
}

// add returns the name that is not kept any longer. The lock must be held.
func (l *scoreLimit) add(s *v1alpha1.AddOnPlacementScore) (dropped string) {
	if dropped = l.kept.add(s.Namespace, s.Name); dropped != "" && !l.told[s.Namespace] {
		l.told[s.Namespace] = true
		l.ignored(s.Namespace)
	}
	return dropped
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (l *scoreLimit) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		l.reset()
	}
	w, err := cache.ToListerWatcherWithContext(l.ListerWatcher).WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limited := &limitedWatch{limit: l, list: l.lists, from: w, result: make(chan watch.Event), done: make(chan struct{})}
	go limited.run()
	return limited, nil
}

// limitedWatch is a watch without the hidden objects.
type limitedWatch struct {
	limit *scoreLimit
	// list is the number of the list that the watch follows.
	list   int
	from   watch.Interface
	result chan watch.Event
	once   sync.Once
	done   chan struct{}
}

// Stop implements watch.Interface.
func (w *limitedWatch) Stop() {
	w.once.Do(func() {
		close(w.done)
		w.from.Stop()
	})
}

// ResultChan implements watch.Interface.
func (w *limitedWatch) ResultChan() <-chan watch.Event { return w.result }

// send is false if the watch was stopped.
func (w *limitedWatch) send(event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	case <-w.done:
		return false
	}
}

func (w *limitedWatch) run() {
	defer close(w.result)
	defer w.Stop()
	var relist <-chan time.Time
	for {
		if pause, due := w.limit.untilRelist(); due && relist == nil {
			relist = w.limit.after(pause)
		}
		select {
		case <-w.done:
			return
		case <-relist:
			w.send(watch.Event{Type: watch.Error, Object: &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "hidden AddOnPlacementScores must be listed",
			}})
			return
		case event, open := <-w.from.ResultChan():
			if !open {
				return
			}
			for _, e := range w.limit.show(event, w.list) {
				if !w.send(e) {
					w.limit.lost(w.list)
					return
				}
			}
		}
	}
}

// untilRelist returns how long to wait for the next list, if there must be one.
func (l *scoreLimit) untilRelist() (pause time.Duration, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listed.Add(relistPause).Sub(l.now()), l.relist
}

// lost notes that the reflector did not get an event, which the next watch may not repeat.
func (l *scoreLimit) lost(list int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.relist = l.relist || list == l.lists
}

// show returns what the reflector gets for an event; nothing from a watch before the last list.
func (l *scoreLimit) show(event watch.Event, list int) []watch.Event {
	s, ok := event.Object.(*v1alpha1.AddOnPlacementScore)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case list != l.lists:
		return nil
	case !ok || event.Type == watch.Bookmark || event.Type == watch.Error:
		return []watch.Event{event}
	case event.Type == watch.Deleted:
		l.relist = l.relist || l.kept.more[s.Namespace] && l.kept.has(s.Namespace, s.Name)
		l.kept.remove(s.Namespace, s.Name)
		return []watch.Event{event}
	}
	switch dropped := l.add(s); dropped {
	case "":
		return []watch.Event{event}
	case s.Name:
		return nil
	default:
		gone := &v1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: dropped, ResourceVersion: s.ResourceVersion}}
		return []watch.Event{{Type: watch.Deleted, Object: gone}, event}
	}
}
