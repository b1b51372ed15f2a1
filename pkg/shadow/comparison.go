package shadow

import (
	"container/list"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Result says how the newest decisions of a profile and its shadow compare.
type Result string

// The results.
const (
	// Agrees: both select the same clusters. Differs: they do not.
	Agrees  Result = "Agrees"
	Differs Result = "Differs"
	// Pending: the shadow has not decided what the profile decided last.
	Pending Result = "Pending"
	// Failed: the shadow could not decide; it keeps its clusters.
	Failed Result = "Failed"
)

// Results are all results.
var Results = []Result{Agrees, Differs, Pending, Failed}

// Counts are the numbers of decisions and moves since the comparison began. A move is a cluster
// that a decision adds or removes; one that replaces another counts once. The first decision of a
// Placement that had none is no move.
type Counts struct {
	// Compared are decisions of the shadow. Skipped are those of the profile for which there was no
	// time, Failed those for which the shadow failed.
	Compared, Skipped, Failed int64
	// ShadowMoves are those that the shadow would have made, ProfileMoves those of the profile,
	// both in the decisions that were compared.
	ShadowMoves, ProfileMoves int64
}

// Decision is the result of one decision of a shadow.
type Decision struct {
	Placement  types.NamespacedName
	UID        types.UID
	Generation int64
	Profile    string
	Shadow     string
	// Time is that of the Snapshot of both decisions.
	Time time.Time
	// ProfileClusters and ShadowClusters are the selected clusters, sorted. If Failure is not
	// empty, the shadow decided nothing, and ShadowClusters are those that it selected last.
	ProfileClusters, ShadowClusters []string
	ProfileMoves, ShadowMoves       int
	Failure                         string
}

// Comparison is what is known of a Placement and one shadow of its profile.
type Comparison struct {
	Placement       types.NamespacedName
	Profile, Shadow string
	Result          Result
	// Failure is why the shadow failed last; empty if Result is not Failed.
	Failure string
	// Since is when the comparison began, Time that of the decisions that were compared last; zero
	// if there are none.
	Since, Time time.Time
	// ProfileClusters and ShadowClusters are the clusters at Time, sorted.
	ProfileClusters, ShadowClusters []string
	Counts
}

// totals are the counts of a shadow for all Placements, also deleted ones.
type totals struct {
	profile, shadow string
	Counts
	results map[Result]int
}

func sortTotals(all []*totals) {
	slices.SortFunc(all, func(a, b *totals) int { return strings.Compare(a.shadow, b.shadow) })
}

// Totals are the counts of one shadow.
type Totals struct {
	Profile, Shadow string
	Counts
	// Placements are the numbers of Placements by result.
	Placements map[Result]int
}

// placement is what is known of one Placement whose profile has shadows.
type placement struct {
	uid         types.UID
	profile     string
	comparisons []*comparison
}

// comparison is the state of one Placement and one shadow. Shadows.mu protects it.
type comparison struct {
	key    types.NamespacedName
	totals *totals
	counts Counts
	since  time.Time
	time   time.Time
	result Result
	// failure is that of the last decision of the shadow.
	failure string
	// clusters are what the shadow selected last, profileClusters what the profile selected in the
	// decision that was compared last. Both begin with the published decision; isNew is true until
	// the first decision if there is none.
	clusters, profileClusters []string
	isNew                     bool
	// timers have the tiers of the shadow.
	timers framework.Timers
	// waiting is the newest decision of the profile, until the shadow begins to decide it; queued
	// is its place in the queue.
	waiting *decided
	queued  *list.Element
	// behind is true if the newest decision of the profile was skipped.
	behind bool
	// begun is true once the engine of the shadow may know the Placement, dropped once the
	// Placement is gone.
	begun, dropped bool
}

// newPlacement begins the comparisons of a Placement with its first decision.
func newPlacement(snapshot *framework.Snapshot, profile string, shadows []*totals) *placement {
	subject := snapshot.Subject
	p := &placement{uid: subject.Placement.UID, profile: profile}
	for _, t := range shadows {
		p.comparisons = append(p.comparisons, &comparison{
			key: subject.Key(), totals: t, since: snapshot.Now, isNew: subject.Last == nil,
			clusters: subject.LastNames(), profileClusters: subject.LastNames(),
			timers: framework.Timers{Tiers: snapshot.Timers.Tiers, TiersOf: snapshot.Timers.TiersOf},
		})
	}
	return p
}

func (c *comparison) setResult(r Result) {
	if c.totals.results == nil {
		c.totals.results = map[Result]int{}
	}
	if c.result != "" {
		c.totals.results[c.result]--
	}
	if c.result = r; r != "" {
		c.totals.results[r]++
	}
}

// skip counts a decision that the shadow does not decide.
func (c *comparison) skip() {
	c.counts.Skipped++
	c.totals.Skipped++
}

// store compares the decision of a shadow with that of its profile.
func (s *Shadows) store(c *comparison, d *decided, t target, err error) {
	if err != nil {
		s.logFailure(c, err)
	}
	// Sets are compared without the lock, because decisions of the controller wait for it.
	made, result := c.compare(d, t, err)
	s.mu.Lock()
	if c.dropped {
		s.mu.Unlock()
		return
	}
	c.set(&made, result, t)
	s.mu.Unlock()
	if s.OnShadow != nil {
		s.OnShadow(made)
	}
}

// compare returns the decision and the result. Only the worker that calls it changes what it reads.
func (c *comparison) compare(d *decided, t target, err error) (Decision, Result) {
	pl := d.snapshot.Subject.Placement
	made := Decision{
		Placement: c.key, UID: pl.UID, Generation: pl.Generation, Profile: c.totals.profile, Shadow: c.totals.shadow,
		Time: d.snapshot.Now, ProfileClusters: d.target, ShadowClusters: c.clusters,
	}
	if err != nil {
		made.Failure = v1alpha1.CutMessage(err.Error())
		return made, Failed
	}
	if !c.isNew {
		made.ShadowMoves, made.ProfileMoves = moves(c.clusters, t.clusters), moves(c.profileClusters, d.target)
	}
	made.ShadowClusters = t.clusters
	if !slices.Equal(t.clusters, d.target) {
		return made, Differs
	}
	// One copy of the names is enough.
	made.ShadowClusters = d.target
	return made, Agrees
}

// set stores a decision. Shadows.mu is locked.
func (c *comparison) set(made *Decision, result Result, t target) {
	c.failure = made.Failure
	if result == Failed {
		c.add(Counts{Failed: 1})
	} else {
		c.isNew, c.time, c.timers = false, made.Time, t.timers
		c.clusters, c.profileClusters = made.ShadowClusters, made.ProfileClusters
		c.add(Counts{Compared: 1, ShadowMoves: int64(made.ShadowMoves), ProfileMoves: int64(made.ProfileMoves)})
	}
	if c.waiting == nil && !c.behind {
		c.setResult(result)
	}
}

// moves is the number of moves between two sets.
func moves(from, to []string) int {
	added, removed := changes.Between(from, to)
	return max(len(added), len(removed))
}

func (c *comparison) add(more Counts) {
	for _, to := range []*Counts{&c.counts, &c.totals.Counts} {
		to.Compared += more.Compared
		to.Failed += more.Failed
		to.ShadowMoves += more.ShadowMoves
		to.ProfileMoves += more.ProfileMoves
	}
}

// logFailure logs a failure, unless the decision before it failed in the same way. No lock is held,
// because writing a log may block.
func (s *Shadows) logFailure(c *comparison, err error) {
	if c.failure == v1alpha1.CutMessage(err.Error()) {
		return
	}
	stack := ""
	if p := (*panicError)(nil); errors.As(err, &p) {
		stack = string(p.stack)
	}
	s.log.Info("The shadow profile failed", "placement", c.key, "profile", c.totals.profile, "shadow", c.totals.shadow, "error", err.Error(), "stack", stack)
}

// Totals returns the counts of all shadows.
func (s *Shadows) Totals() []Totals {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Totals
	for _, shadows := range s.shadows {
		for _, t := range shadows {
			one := Totals{Profile: t.profile, Shadow: t.shadow, Counts: t.Counts, Placements: map[Result]int{}}
			for _, r := range Results {
				one.Placements[r] = t.results[r]
			}
			all = append(all, one)
		}
	}
	return all
}

// HasShadow reports whether a profile has a shadow; for an empty name, whether any has.
func (s *Shadows) HasShadow(profile string) bool {
	return s != nil && (profile == "" || len(s.shadows[profile]) > 0)
}

// Comparisons returns what is known of the Placements of a namespace, or of one of them, in no
// order.
func (s *Shadows) Comparisons(namespace, name string) []Comparison {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Comparison
	for of, p := range s.placements[namespace] {
		if name != "" && of != name {
			continue
		}
		for _, c := range p.comparisons {
			all = append(all, Comparison{
				Placement: c.key, Profile: c.totals.profile, Shadow: c.totals.shadow, Result: c.result, Failure: c.failure, Since: c.since, Time: c.time,
				ProfileClusters: c.profileClusters, ShadowClusters: c.clusters, Counts: c.counts,
			})
		}
	}
	return all
}
