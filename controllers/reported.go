package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/queue"
)

// reported remembers the last text that was reported of each Placement about each topic, so that
// events are sent once, also while writes of the status fail.
type reported struct {
	mu         sync.Mutex
	placements map[types.NamespacedName]*reportedTexts
}

type reportedTexts struct {
	uid   types.UID
	texts map[string]string
	// failures counts failed reports in a row.
	failures int
}

// Topics of events that do not depend on the status. The others are reasons of events: they are
// forgotten when the status is stored, because then it shows what was reported.
const (
	topicWarnings = "warnings"
	// topicUnannounced is an outcome whose event waits for its record.
	topicUnannounced = "unannounced"
)

// of returns what was reported of a Placement. The caller has locked.
func (r *reported) of(pl *v1alpha1.Placement) *reportedTexts {
	key := client.ObjectKeyFromObject(pl)
	p := r.placements[key]
	if p == nil || p.uid != pl.UID {
		if r.placements == nil {
			r.placements = map[types.NamespacedName]*reportedTexts{}
		}
		p = &reportedTexts{uid: pl.UID, texts: map[string]string{}}
		r.placements[key] = p
	}
	return p
}

// changed stores the text about a topic and reports whether it differs from the last one. An empty
// text removes it.
func (r *reported) changed(pl *v1alpha1.Placement, topic, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.of(pl)
	if p.texts[topic] == text {
		return false
	}
	if p.texts[topic] = text; text == "" {
		delete(p.texts, topic)
	}
	return true
}

// statusStored forgets what the stored status shows now.
func (r *reported) statusStored(pl *v1alpha1.Placement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.of(pl)
	for topic := range p.texts {
		if topic != topicWarnings && topic != topicUnannounced {
			delete(p.texts, topic)
		}
	}
}

// backoff counts a failed report and returns the time until the next one.
func (r *reported) backoff(pl *v1alpha1.Placement) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.of(pl)
	p.failures++
	return min(queue.MaxBackoff, queue.MinBackoff<<min(p.failures-1, 20))
}

// succeeded ends the backoff.
func (r *reported) succeeded(pl *v1alpha1.Placement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(pl).failures = 0
}

// forget drops what was reported of a Placement.
func (r *reported) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.placements, key)
}
