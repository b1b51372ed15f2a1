package scheduler

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// inForce remembers which clusters each Placement has by Berth's own doing: those it was found with, then those published. What
// somebody else does to pages is no change of the answer: it is put right without leave, while a change waits, too.
type inForce struct {
	mu  sync.Mutex
	all map[types.UID]decision
}

type decision struct {
	key    types.NamespacedName
	digest string
	names  []string
}

// of returns the decision in force for a snapshot's Placement; false while nothing was published.
func (f *inForce) of(subject *framework.Subject) (decision, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, known := f.all[subject.Placement.UID]
	if !known && len(subject.LabelledPages()) > 0 {
		d = decision{key: subject.Key(), names: listed(subject)}
		d.digest = framework.DigestOf(d.names)
		f.all[subject.Placement.UID], known = d, true
	}
	return d, known
}

// set notes what was published.
func (f *inForce) set(subject *framework.Subject, p *framework.Proposal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[subject.Placement.UID].digest == p.Digest {
		return
	}
	names := make([]string, len(p.Selected))
	for i, s := range p.Selected {
		names[i] = s.Cluster.Name
	}
	f.all[subject.Placement.UID] = decision{subject.Key(), p.Digest, names}
}

func (f *inForce) forget(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, d := range f.all {
		if d.key == key {
			delete(f.all, uid)
		}
	}
}

// listed are the names on the pages that consumers see, each once.
func listed(subject *framework.Subject) []string {
	var names []string
	for _, page := range subject.LabelledPages() {
		for _, d := range page.Status.Decisions {
			names = append(names, d.ClusterName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// restoration is the Proposal that puts pages right while a change waits; nil when they are. Where nothing was published yet, it
// is one empty page, which marks the Placement as seen.
func (s *Scheduler) restoration(a *Attempt) *framework.Proposal {
	subject := a.Snapshot.Subject
	d, known := s.inForce.of(subject)
	switch {
	case !known && len(subject.Placement.Status.DecisionGroups) > 0:
		// There was an answer, and nobody remembers it: consumers are better off without a page than with an empty one.
		return nil
	case !known:
		d.digest = framework.DigestOf(nil)
	case framework.DigestOf(listed(subject)) == d.digest && len(subject.LabelledPages()) > 0:
		return nil
	}
	p := &framework.Proposal{Digest: d.digest, Selected: make([]framework.Selection, len(d.names))}
	byName := make(map[string]framework.Selection, len(d.names))
	for i := range a.Snapshot.Clusters.Len() {
		if c := a.Snapshot.Clusters.Get(i); c != nil {
			byName[c.Name] = framework.Selection{Cluster: c}
		}
	}
	for i, c := range a.Feasible {
		byName[c.Name] = framework.Selection{Cluster: c, Score: a.Totals[i]}
	}
	for i, name := range d.names {
		selection, ok := byName[name]
		if !ok {
			// It is gone from the hub; that the answer loses it is part of what waits.
			object := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
			selection.Cluster = framework.NewCluster(object, -1)
		}
		p.Selected[i] = selection
	}
	return p
}
