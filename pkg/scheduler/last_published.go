package scheduler

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// lastPublished remembers the decision that Berth published last for each Placement; of one that
// was published by an earlier process, what its pages list when it is decided first. A Proposal is
// compared with this, so that an edit of pages by somebody else is no change: it is reverted
// without asking Permit.
type lastPublished struct {
	mu  sync.Mutex
	all map[types.NamespacedName]decision
}

// decision is what was published for one Placement.
type decision struct {
	// names of the clusters are sorted; scores are by name, nil where the pages have none.
	names  []string
	scores map[string]int64
	// pages holds a hash of each page's content by the page's name.
	pages map[string]uint64
	// generation and profile are those that were decided on; 0 while that is not known.
	generation int64
	profile    string
	// scoresAt is when scores were written last; zero while that is not known.
	scoresAt time.Time
}

// of returns the last published decision of a snapshot's Placement; false while nothing was
// published.
func (l *lastPublished) of(subject *framework.Subject) (decision, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, known := l.all[subject.Key()]
	if known {
		return d, true
	}
	if pages := subject.OwnPages(); len(pages) > 0 {
		d, known = decision{pages: map[string]uint64{}}, true
		d.names, d.scores = listed(pages)
		for _, page := range pages {
			d.pages[page.Name] = contentHash(page)
		}
		l.all[subject.Key()] = d
	}
	return d, known
}

// set notes that all writes of a Proposal were done.
func (l *lastPublished) set(a *Attempt, p *framework.Proposal) {
	subject := a.Snapshot.Subject
	pages := map[string]*v1alpha1.PlacementDecision{}
	for _, page := range subject.OwnPages() {
		pages[page.Name] = page
	}
	for _, w := range p.Writes {
		if pages[w.Page.Name] = w.Page; w.Deleted {
			delete(pages, w.Page.Name)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.all[subject.Key()]
	d := decision{
		names: p.Clusters, scores: before.scores, pages: make(map[string]uint64, len(pages)),
		generation: before.generation, profile: before.profile, scoresAt: before.scoresAt,
	}
	if a.ScoresWritten(p) {
		d.scoresAt = a.Snapshot.Now
	}
	if !p.Restores && !p.Forced {
		d.generation, d.profile = subject.Placement.Generation, profileName(subject.Placement)
	}
	if slices.Equal(before.names, p.Clusters) {
		d.names = before.names
	}
	if len(p.Writes) > 0 {
		_, d.scores = listed(slices.Collect(maps.Values(pages)))
	}
	written := map[string]bool{}
	for _, w := range p.Writes {
		written[w.Page.Name] = true
	}
	for name, page := range pages {
		if hash, known := before.pages[name]; known && !written[name] && !p.Restores {
			d.pages[name] = hash
		} else {
			d.pages[name] = contentHash(page)
		}
	}
	l.all[subject.Key()] = d
}

// scored notes that scores were written at a time, also where a later write failed.
func (l *lastPublished) scored(subject *framework.Subject, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, known := l.all[subject.Key()]; known {
		d.scoresAt = at
		l.all[subject.Key()] = d
	}
}

func (l *lastPublished) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, key)
}

// listed are the names on pages, sorted, each once, and the scores, if there are any.
func listed(pages []*v1alpha1.PlacementDecision) (names []string, scores map[string]int64) {
	for _, page := range pages {
		for _, d := range page.Status.Decisions {
			names = append(names, d.ClusterName)
			if d.Score != nil {
				if scores == nil {
					scores = map[string]int64{}
				}
				scores[d.ClusterName] = *d.Score
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), scores
}

var contentSeed = maphash.MakeSeed()

// contentHash is equal for pages that consumers and the garbage collector read alike. The seed is
// secret, so that nobody can construct another page of the same hash.
func contentHash(page *v1alpha1.PlacementDecision) uint64 {
	var h maphash.Hash
	h.SetSeed(contentSeed)
	// Each field says how long it is, so that no two contents are written alike. Errors are
	// documented never to occur.
	field := func(text string) {
		_, _ = h.WriteString(strconv.Itoa(len(text)) + ":")
		_, _ = h.WriteString(text)
	}
	for _, label := range []string{v1alpha1.PlacementLabel, v1alpha1.DecisionGroupNameLabel, v1alpha1.DecisionGroupIndexLabel} {
		value, there := page.Labels[label]
		field(value)
		field(strconv.FormatBool(there))
	}
	owner := metav1.GetControllerOfNoCopy(page)
	field(strconv.FormatBool(owner != nil))
	if owner != nil {
		field(owner.APIVersion + " " + owner.Kind + " " + owner.Name)
		field(string(owner.UID))
		field(strconv.FormatBool(owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion))
	}
	for _, d := range page.Status.Decisions {
		field(d.ClusterName)
		field(d.Reason)
		field(strconv.FormatBool(d.Score != nil))
		if d.Score != nil {
			field(strconv.FormatInt(*d.Score, 10))
		}
	}
	return h.Sum64()
}

// damaged says whether the pages that consumers see are not what was published last.
func (d *decision) damaged(subject *framework.Subject) bool {
	pages := subject.OwnPages()
	return len(pages) != len(d.pages) || slices.ContainsFunc(pages, func(page *v1alpha1.PlacementDecision) bool {
		hash, known := d.pages[page.Name]
		return !known || hash != contentHash(page)
	})
}

// forcedOut are the published clusters that are on the hub and in no set bound to the namespace any
// more, sorted. A cluster that is gone, or going, is not among them: an accident that deletes
// clusters must not pass by an approval.
func (d *decision) forcedOut(snapshot *framework.Snapshot) []string {
	var names []string
	check := func(i int) {
		c := snapshot.Clusters.Get(i)
		if c == nil || !c.DeletionTimestamp.IsZero() || snapshot.IsUsable(c) {
			return
		}
		if _, published := slices.BinarySearch(d.names, c.Name); published {
			names = append(names, c.Name)
		}
	}
	if onPages := snapshot.Subject.Published; onPages.Len() == len(d.names) {
		for i := range onPages.All {
			check(i)
		}
	} else {
		for i := range snapshot.Clusters.Len() {
			check(i)
		}
	}
	slices.Sort(names)
	return names
}

// proposal publishes the last decision again, without some of its clusters. Scores are those
// published last.
func (d *decision) proposal(a *Attempt, without []string) *framework.Proposal {
	names := missing(d.names, without)
	p := &framework.Proposal{
		Clusters: names, Digest: framework.DigestOf(names), Removed: without, Forced: len(without) > 0, Restores: len(without) == 0,
		LastScores: d.scoresAt, Selected: make([]framework.Selection, 0, len(names)),
	}
	byName := make(map[string]framework.Selection, len(names))
	for i := range a.Snapshot.Clusters.Len() {
		if c := a.Snapshot.Clusters.Get(i); c != nil {
			byName[c.Name] = framework.Selection{Cluster: c}
		}
	}
	for i, total := range a.Totals {
		c := a.Feasible[i]
		byName[c.Name] = framework.Selection{Cluster: c, Score: total}
	}
	for _, name := range names {
		selection, ok := byName[name]
		if !ok {
			// It is gone from the hub; its removal is part of the change that is pending.
			object := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
			selection.Cluster = framework.NewCluster(object, -1)
		}
		if score, ok := d.scores[name]; ok {
			selection.Score = score
		}
		p.Selected = append(p.Selected, selection)
	}
	slices.SortStableFunc(p.Selected, func(a, b framework.Selection) int { return cmp.Compare(b.Score, a.Score) })
	return p
}

// missing are the names that are not among others; both are sorted.
func missing(names, others []string) []string {
	var left []string
	for _, name := range names {
		for len(others) > 0 && others[0] < name {
			others = others[1:]
		}
		if len(others) == 0 || others[0] != name {
			left = append(left, name)
		}
	}
	return left
}

// profileName is the profile that a Placement asks for.
func profileName(pl *v1alpha1.Placement) string {
	return cmp.Or(pl.Annotations[v1alpha1.ProfileAnnotation], v1alpha1.DefaultProfile)
}
