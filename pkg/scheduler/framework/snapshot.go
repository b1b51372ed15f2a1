package framework

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Snapshot is the immutable input of one attempt: the fleet at one instant, as one Placement sees
// it, and the memory of earlier attempts. Steps 2 to 8 may depend only on it and on the profile. In
// step 9 it may be older than the hub.
type Snapshot struct {
	// Trial is true for a hypothetical state that an explanation tries.
	Trial bool
	*Fleet
	// Now is the only clock of a cycle.
	Now time.Time
	// Input is the number of the last input of the inventory that the Snapshot contains.
	Input int64
	// Cause describes in one line what triggered the attempt, as in a record; empty if no event
	// did.
	Cause string
	// Subject is the Placement to decide, with its pages and records.
	Subject *Subject
	// Sets are the ManagedClusterSets that the Placement may use, sorted by name.
	Sets []*ClusterSet
	// BoundSets are the names of the existing sets that are bound to the Placement's namespace,
	// sorted. Bound are these sets, also those that the Placement or its queue does not allow.
	BoundSets []string
	Bound     []*ClusterSet
	// Limit is the maximum number of selected clusters; negative means no limit.
	Limit int
	// Queue is what the Placement's queue allows; nil if no queues are configured. Sets and Limit
	// already respect it.
	Queue *QueueAdmission
	// NotReady says why published clusters are not ready, by name. Without a DisruptionPolicy that
	// has a readiness source, all are ready.
	NotReady map[string]string
	// Unknown has those of NotReady of which it is not known whether they are ready, because a
	// readiness source cannot be read or has nothing for the cluster.
	Unknown map[string]bool
	// Timers are the engine's measurements from earlier attempts for this Placement.
	Timers Timers
	// Answers are the answers of plugins to the held change, given through Handle.HeldChanges.
	Answers Answers
	// PluginCounts are the counts before this attempt, by plugin (Counter).
	PluginCounts map[string]any
	// Sequence is the number of the last event that affected any Placement. Skippable is true if
	// the attempt would have been skipped, because its answer cannot change; it is set only if the
	// inventory checks that.
	Sequence  int64
	Skippable bool
}

// QueueAdmission is the result of queue admission for a Placement.
type QueueAdmission struct {
	// Reason and Message are those of the condition QueueAdmitted, which is True if Admitted.
	Admitted bool   `json:"admitted,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	// Rejected is true if no queue accepts the Placement, or if it lost the right to its queue and
	// waits for another one: it gets no cluster. If it is not Admitted for another reason, the
	// published decision stays.
	Rejected bool `json:"rejected,omitempty"`
	// Restricted is true if the queue owns cluster sets. The Placement may then use only Sets.
	Restricted bool     `json:"restricted,omitempty"`
	Sets       []string `json:"sets,omitzero"`
	// Limit is the maximum number of selected clusters; negative means no limit. LimitBy names the
	// quotas that set it.
	Limit   int    `json:"limit"`
	LimitBy string `json:"limitBy,omitempty"`
	// Annotation is the queue annotation for pages; records have it in spec.queue.
	Annotation string `json:"annotation,omitempty"`
	// RetryAt asks for another attempt; zero for none.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Listed is the number of clusters on the pages that this Placement controls.
	Listed int `json:"listed,omitempty"`
}

// Allows reports whether the queue allows a cluster set; true without a queue (nil).
func (q *QueueAdmission) Allows(set string) bool {
	return q == nil || !q.Restricted || slices.Contains(q.Sets, set)
}

// Published is the decision that Berth published last for a Placement. A change starts from it, so
// an external edit of pages is not a change.
type Published struct {
	// Names are the cluster names, sorted; Digest is DigestOf(Names). Scores are by name; nil if
	// the pages have none.
	Names  []string
	Digest string
	Scores map[string]int64
	// Pages holds each page's ContentHash by the page's name.
	Pages map[string]uint64
	// Generation and Profile are those of the Placement at that decision; 0 and empty if unknown.
	Generation int64
	Profile    string
	// ScoresAt is the time of the last write of scores; zero if unknown.
	ScoresAt time.Time
	// Revision is that of the last published change; 0 if unknown.
	Revision int64
	// RecordDue is true if this process published Revision: the record is written soon, if there is
	// none yet.
	RecordDue bool
	// Queue is the queue annotation that this process published last, not what other writers left
	// on the pages; empty if it has published none.
	Queue string
	// Extra is how many clusters more it has than before its change and than that leads to: a
	// change in steps, or one of which a write failed, adds clusters before others leave.
	Extra int
	// FromPages is true while the decision is read from pages and records, after a restart. It may
	// differ from the decision that was published.
	FromPages bool
	// SinceStart is true from a start until an event affects the Placement after its first attempt,
	// other than an edit of its pages. The decision counts may have drifted meanwhile, which is no
	// reason to move.
	SinceStart bool
}

// SpecBefore is an earlier spec of a Placement. It must not be changed.
type SpecBefore struct {
	Generation int64
	Spec       *v1alpha1.PlacementSpec
}

// Fleet is the part of a Snapshot that all Placements share. Clusters are by Cluster.Index; an
// unused index is nil.
type Fleet struct {
	Clusters *Vector[*Cluster]
	// Ranks holds each cluster's position in the order of names, by the cluster's index.
	Ranks []int32
	// Sorted holds the indexes of all clusters, sorted by name.
	Sorted []int32
	Counts *DecisionCounts
	// Scores holds, by AddOnPlacementScore name, the object of each cluster by the cluster's index.
	Scores map[string]*Vector[*v1alpha1.AddOnPlacementScore]
	// Log lists the clusters that changed.
	Log ChangeLog
	// Capacities are the resources that SelectionPolicies request. CapacityRequests are those of
	// the Placements that have a cluster, by its index, in the order of CapacityRequest.Before.
	Capacities       map[v1alpha1.ResourceName]*Capacity
	CapacityRequests *Vector[[]*CapacityRequest]
}

// Cluster returns the cluster of a name; nil if there is none.
func (f *Fleet) Cluster(name string) *Cluster {
	at, found := slices.BinarySearchFunc(f.Sorted, name, func(i int32, name string) int {
		return strings.Compare(f.Clusters.Get(int(i)).Name, name)
	})
	if !found {
		return nil
	}
	return f.Clusters.Get(int(f.Sorted[at]))
}

// ByName compares clusters by name.
func (f *Fleet) ByName(a, b *Cluster) int { return cmp.Compare(f.Ranks[a.Index], f.Ranks[b.Index]) }

// Cluster is one ManagedCluster as plugins read it. It is immutable. The fields that plugins read
// of every candidate fit into one cache line of the processor, because memory access dominates the
// cost of a candidate.
type Cluster struct {
	*v1alpha1.ManagedCluster
	// Index is the cluster's position in the Fleet, stable while the cluster exists.
	Index int
	// CPU and Memory are the allocatable amounts, in cores and bytes. Known amounts and their
	// differences are finite.
	CPU, Memory Amount
	// Tainted is true if the cluster has taints.
	Tainted bool

	*details
}

// details are the fields that plugins read of some clusters only.
type details struct {
	// TaintTimes are the times at which the taints count as added, by position in spec.taints.
	TaintTimes []time.Time
	// Claims are status.clusterClaims by name; the last of equal names wins.
	Claims map[string]string

	// rendered is the cluster as a map, created for the first expression that reads it.
	once       sync.Once
	rendered   map[string]any
	err        error
	isRendered atomic.Bool
}

// NewCluster returns a cluster with an index, without amounts, taint times and claims.
func NewCluster(object *v1alpha1.ManagedCluster, index int) *Cluster {
	return &Cluster{ManagedCluster: object, Index: index, Tainted: len(object.Spec.Taints) > 0, details: &details{}}
}

// Changed returns a copy with another object, for a trial. Amounts, taint times and claims stay.
func (c *Cluster) Changed(object *v1alpha1.ManagedCluster) *Cluster {
	changed := *c
	changed.ManagedCluster, changed.details = object, &details{TaintTimes: c.TaintTimes, Claims: c.Claims}
	return &changed
}

// Unstructured returns the cluster as a map. The first caller's render creates it; it must not be
// changed.
func (c *Cluster) Unstructured(render func(*v1alpha1.ManagedCluster) (map[string]any, error)) (map[string]any, error) {
	c.once.Do(func() {
		c.rendered, c.err = render(c.ManagedCluster)
		c.isRendered.Store(true)
	})
	return c.rendered, c.err
}

// IsRendered reports whether Unstructured has created the map, so that it returns at once.
func (c *Cluster) IsRendered() bool { return c.isRendered.Load() }

// Size is the number of entries in the lists and maps that a cluster's agent and its owners fill.
func (c *Cluster) Size() int {
	return len(c.Labels) + len(c.Annotations) + len(c.Spec.Taints) + len(c.Status.Allocatable) + len(c.Status.Capacity) +
		len(c.Status.ClusterClaims) + len(c.Status.ManagedNamespaces)
}

// Amount is the allocatable amount of a resource. Known is false if the cluster does not report the
// resource both as allocatable and as capacity, or if the amount is not finite.
type Amount struct {
	Value float64
	Known bool
}

// ClusterSet is one ManagedClusterSet and its members.
type ClusterSet struct {
	Name    string
	Members Bitset
	// Selector is nil for a set whose members have its name in their clusterset label.
	Selector labels.Selector
	// Err is the error of an invalid selector; the set has no members then.
	Err error
}

// Matches reports whether the set selects a cluster; false if the cluster is being deleted.
func (s *ClusterSet) Matches(c *Cluster) bool {
	if !c.DeletionTimestamp.IsZero() {
		return false
	}
	if s.Selector == nil {
		set, ok := c.Labels[v1alpha1.ClusterSetLabel]
		return ok && set == s.Name
	}
	return s.Selector.Matches(labels.Set(c.Labels))
}

// Subject is one Placement with its pages, records, policies and evictions.
type Subject struct {
	Placement *v1alpha1.Placement
	// Pages are the pages with the Placement's label and unfinished pages that it owns, sorted by
	// name, without those that are being deleted.
	Pages []*v1alpha1.PlacementDecision
	// LastClusters are the indexes of LastNames, including names without a ManagedCluster. External
	// edits of pages do not change it.
	LastClusters Bitset
	// Entries are the decisions of the Placement, published and being published, by name index
	// (DecisionCounts), with those of the Placements that follow this one by affinity.
	Entries Entries
	// Last is the decision that Berth published last; nil if there is none.
	Last *Published
	// SpecBefore is a spec of the Placement before its last edits; nil if it is not known, or if
	// Last was decided for the present one.
	SpecBefore *SpecBefore
	// Edits are the edits of pages by other clients since the last attempt, by name of the page.
	// The map must not be changed.
	Edits map[string]PageEdit
	// Records are the PlacementChanges of this Placement (same UID), sorted by revision. They must
	// not be changed.
	Records []*berthv1alpha1.PlacementChange
	// DisruptionPolicies are those that select the Placement, sorted by name.
	DisruptionPolicies []*berthv1alpha1.DisruptionPolicy
	// MorePolicies is how many further policies select the Placement. DisruptionPolicies has the
	// oldest ones, as many as may select a Placement.
	MorePolicies int
	// Windows are those of the policies; nil if none has windows.
	Windows Windows
	// ReplaceFirst is true if a policy has unavailableClusters: ReplaceFirst.
	ReplaceFirst bool
	// Evictions are those of the Placement, one for each cluster, sorted by cluster. They may have
	// ended: EvictionOf compares them with Now.
	Evictions []Eviction
	// SelectionPolicies are those that name the Placement, sorted by name. More than one is a
	// mistake.
	SelectionPolicies []*berthv1alpha1.SelectionPolicy
	// Peers are the Placements that the affinity of the policy names, sorted by name.
	// AffinityCycle is a cycle of affinity that contains the Placement and may never settle; empty
	// if there is none.
	Peers         []Peer
	AffinityCycle string
	// CapacityRequest is what the policy requests; nil if it requests nothing.
	CapacityRequest *CapacityRequest
	// Has are the clusters that the Placement has: those that it published last, those that are
	// reserved for it, and those that its open change adds.
	Has Bitset
	// Incumbents are LastClusters and those that the open change adds, without Leaving while it is
	// published in steps. Leaving are the clusters that it removes.
	Incumbents, Leaving Bitset
	// Taken are page names that this Placement cannot use because other pages, or pages that are
	// being deleted, have them; sorted.
	Taken []string
}

// Windows are the combined windows of several DisruptionPolicies.
type Windows interface {
	// Opening returns when the windows are open next: a time that is not after now if they are
	// open. It returns false if they are not open before that time, until which it searched, and an
	// error if a window is invalid.
	Opening(now time.Time) (at time.Time, found bool, err error)
}

// Key is the Placement's namespace and name.
func (s *Subject) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Placement.Namespace, Name: s.Placement.Name}
}

// LastNames are the clusters that Berth published last, sorted.
func (s *Subject) LastNames() []string {
	if s.Last == nil {
		return nil
	}
	return s.Last.Names
}

// LastRevision is the revision that Berth published last; 0 if it is not known.
func (s *Subject) LastRevision() int64 {
	if s.Last == nil {
		return 0
	}
	return s.Last.Revision
}

// DecisionCounts counts for each name the Placements that have published it, or for which it is
// reserved, and the pages of no Placement that list it. Names without a ManagedCluster have an
// index, too.
type DecisionCounts struct {
	ByIndex *Vector[int32]
	// Histogram[c] is the number of names with the count c; Histogram[0] is not maintained.
	Histogram []int32
	// Changes is the number of changes of counts until now.
	Changes uint64
}

// Entries are numbers of decisions on names. Clusters are the names that have any, More counts the
// second and further decisions on a name.
type Entries struct {
	Clusters Bitset
	More     map[int]int32
}

// Of returns the number of decisions on a name.
func (e *Entries) Of(i int) int32 {
	if !e.Clusters.Has(i) {
		return 0
	}
	return 1 + e.More[i]
}

// Max returns the highest count without the entries in less.
func (d *DecisionCounts) Max(less *Entries) int32 {
	top := int32(len(d.Histogram)) - 1
	if top > 0 && d.Histogram[top] > int32(less.Clusters.Len()) {
		return top
	}
	// counted are the names in less by their count, most is their highest count without less.
	counted, most := map[int32]int32{}, int32(0)
	for i := range less.Clusters.All {
		count := d.ByIndex.Get(i)
		counted[count]++
		most = max(most, count-less.Of(i))
	}
	for c := top; c > most; c-- {
		if d.Histogram[c] > counted[c] {
			return c
		}
	}
	return most
}

// ChangeLog lists changes of clusters.
type ChangeLog = Log[ClusterChange]

// Log lists changes in their order. Numbers of entries start at 0 in a new inventory.
type Log[T any] struct {
	// First is the number of Entries[0]; older entries were dropped.
	First   uint64
	Entries []T
}

// ClusterChange is one cluster that was added, changed or deleted.
type ClusterChange struct {
	Index int
	// Selectable is true if labels or claims changed, or the cluster was added or deleted.
	Selectable bool
}

// Next is the number of the next entry.
func (l Log[T]) Next() uint64 { return l.First + uint64(len(l.Entries)) }

// Since returns the entries from number n on. It returns false if some of them were dropped.
func (l Log[T]) Since(n uint64) ([]T, bool) {
	if n < l.First || n > l.Next() {
		return nil, false
	}
	return l.Entries[n-l.First:], true
}

// Append adds an entry, and drops the older half of a log that is longer than limit. Copies of the
// log stay as they are.
func (l *Log[T]) Append(entry T, limit int) {
	l.Entries = append(l.Entries, entry)
	if n := len(l.Entries); n > limit {
		l.First += uint64(n / 2)
		l.Entries = append([]T(nil), l.Entries[n/2:]...)
	}
}

// OwnPages are the pages that count as published for the Placement.
func (s *Subject) OwnPages() []*v1alpha1.PlacementDecision {
	return s.Placement.PublishedPages(s.Pages)
}

// IsUsable reports whether the cluster is in a set that is bound to the Placement's namespace.
func (s *Snapshot) IsUsable(cluster *Cluster) bool {
	return slices.ContainsFunc(s.Bound, func(set *ClusterSet) bool { return set.Members.Has(cluster.Index) })
}

// Candidates are the members of Sets. The caller must not change the result: Snapshots share it.
func (s *Snapshot) Candidates() Bitset {
	if len(s.Sets) == 1 {
		return s.Sets[0].Members
	}
	var all Bitset
	for _, set := range s.Sets {
		all = all.Or(set.Members)
	}
	return all
}

// Relaxed returns a trial Snapshot with the changed objects.
func (s *Snapshot) Relaxed(change Relaxation) *Snapshot {
	trial, subject := *s, *s.Subject
	trial.Subject, trial.Trial = &subject, true
	if change.Placement != nil {
		subject.Placement = change.Placement
	}
	if change.Policy != nil {
		subject.SelectionPolicies = []*berthv1alpha1.SelectionPolicy{change.Policy}
	}
	subject.Peers = slices.DeleteFunc(slices.Clone(subject.Peers), func(p Peer) bool { return slices.Contains(change.WithoutPeers, p.Name) })
	if change.Cluster != nil {
		return trial.WithCluster(change.Cluster)
	}
	return &trial
}

// WithCluster returns a trial Snapshot in which the cluster replaces the one with the same index.
func (s *Snapshot) WithCluster(cluster *Cluster) *Snapshot {
	trial, fleet := *s, *s.Fleet
	fleet.Clusters = fleet.Clusters.With(cluster.Index, cluster)
	fleet.Log.Entries = append(append([]ClusterChange(nil), fleet.Log.Entries...), ClusterChange{Index: cluster.Index, Selectable: true})
	fleet.Capacities = s.withCapacities(cluster)
	trial.Fleet, trial.Trial = &fleet, true
	trial.Sets, trial.Bound = setsWith(s.Sets, cluster), setsWith(s.Bound, cluster)
	return &trial
}

func setsWith(sets []*ClusterSet, cluster *Cluster) []*ClusterSet {
	with := slices.Clone(sets)
	for i, set := range sets {
		if matches := set.Matches(cluster); matches != set.Members.Has(cluster.Index) {
			changed := *set
			if changed.Members = set.Members.Clone(); matches {
				changed.Members = changed.Members.Set(cluster.Index)
			} else {
				changed.Members.Unset(cluster.Index)
			}
			with[i] = &changed
		}
	}
	return with
}

// WithEviction returns a trial Snapshot in which a cluster is evicted from the Placement.
func (s *Snapshot) WithEviction(e Eviction) *Snapshot {
	trial, subject := *s, *s.Subject
	subject.Evictions = append(slices.DeleteFunc(slices.Clone(subject.Evictions), func(old Eviction) bool { return old.Cluster == e.Cluster }), e)
	slices.SortFunc(subject.Evictions, func(a, b Eviction) int { return strings.Compare(a.Cluster, b.Cluster) })
	trial.Subject, trial.Trial = &subject, true
	return &trial
}

// WithoutClusters returns a trial Snapshot in which the clusters with these indexes do not exist.
// Pages, records and other Placements still list them. The change log stays as it is: what plugins
// know of the other clusters remains valid.
func (s *Snapshot) WithoutClusters(lost Bitset) *Snapshot {
	trial, fleet := *s, *s.Fleet
	fleet.Clusters = fleet.Clusters.Without(lost)
	fleet.Sorted = make([]int32, 0, len(s.Sorted))
	for _, i := range s.Sorted {
		if !lost.Has(int(i)) {
			fleet.Sorted = append(fleet.Sorted, i)
		}
	}
	trial.Fleet, trial.Trial = &fleet, true
	trial.Sets, trial.Bound = setsWithout(s.Sets, lost), setsWithout(s.Bound, lost)
	return &trial
}

func setsWithout(sets []*ClusterSet, lost Bitset) []*ClusterSet {
	rest := make([]*ClusterSet, len(sets))
	for i, set := range sets {
		rest[i] = set
		if set.Members.Intersects(lost) {
			changed := *set
			changed.Members = set.Members.Without(lost)
			rest[i] = &changed
		}
	}
	return rest
}
