package framework

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Snapshot is the whole input of one attempt: the fleet frozen at one instant, as one Placement
// sees it, and all that is remembered from earlier attempts. It is immutable. With the profile it
// is all that steps 2 to 8 may depend on. Plugins that run after selection must not read it: it may
// be older than what they bind.
type Snapshot struct {
	// Trial is true for a state that the hub never had: one that Explain tries.
	Trial bool
	*Fleet
	// Now is the only clock of a cycle.
	Now time.Time
	// Cause is what triggered the attempt, one line, as in the record of a change.
	// CauseSequence grows with each trigger of the Placement's attempts.
	Cause         string
	CauseSequence int64
	// Subject is the Placement to decide, with what is published for it.
	Subject *Subject
	// Sets are the ManagedClusterSets the Placement may use, by name.
	Sets []*ClusterSet
	// BoundSets names the sets bound to the Placement's namespace, by name; those that exist. Bound
	// are these sets, whether the Placement wants them or not.
	BoundSets []string
	Bound     []*ClusterSet
	// Limit caps the clusters that may be selected; negative means no cap.
	Limit int
	// Queue is what the Placement's queue allows; nil where no queues are configured. Sets and
	// Limit are limited to it.
	Queue *QueueAdmission
	// Timers are what the engine measured in earlier attempts for this Placement.
	Timers Timers
	// Answers are what plugins said of the open change through WaitingPlacements.
	Answers Answers
	// PluginCounts are what plugins counted before this attempt, by plugin (Counter).
	PluginCounts map[string]any
}

// QueueAdmission is what its queue means for a Placement.
type QueueAdmission struct {
	// Reason and Message are those of the condition QueueAdmitted, which is True if Admitted.
	Admitted        bool
	Reason, Message string
	// Rejected is true if no queue accepts the Placement, which is an answer: no cluster. Any other
	// reason not to be admitted decides nothing, and the published decision stays.
	Rejected bool
	// Restricted is true if the queue owns cluster sets; the Placement may use only Sets then.
	Restricted bool
	Sets       []string
	// Limit caps the clusters that may be selected, negative means no cap; LimitBy names the quotas
	// that it comes from.
	Limit   int
	LimitBy string
	// Record is what pages keep of it.
	Record string
	// RetryAt asks for another attempt; zero for none.
	RetryAt time.Time
	// Listed is the number of clusters on the pages that this very Placement controls.
	Listed int
}

// Allows is true if the queue, if there is one, lets the Placement use a cluster set.
func (q *QueueAdmission) Allows(set string) bool {
	return q == nil || !q.Restricted || slices.Contains(q.Sets, set)
}

// Published is the decision that Berth published last for a Placement. A change starts from it, so
// that an edit of pages by somebody else is no change.
type Published struct {
	// Names of the clusters are sorted; Digest is theirs. Scores are by name, nil if the pages have
	// none.
	Names  []string
	Digest string
	Scores map[string]int64
	// Pages holds a hash of each page's content by the page's name.
	Pages map[string]uint64
	// Generation and Profile are those that were decided; 0 while that is not known.
	Generation int64
	Profile    string
	// ScoresAt is when scores were written last; zero while that is not known.
	ScoresAt time.Time
	// Revision is that of the last published change; 0 while that is not known.
	Revision int64
	// Restored is true while the decision is what the pages listed when the process began: it may
	// differ from what was published.
	Restored bool
}

// Timers are what the engine measures from attempt to attempt, in memory: a restart starts them
// anew, which only delays.
type Timers struct {
	// Change and Revoked time the change to the selected clusters, and the removal of revoked
	// clusters alone.
	Change, Revoked Stability
	// Wake is when the last attempt asked for this one, WakeCause why.
	Wake      time.Time
	WakeCause string
}

// Stability says for how long attempts have proposed the same.
type Stability struct {
	// Digest is that of the set proposed last; empty if nothing was to change.
	Digest string
	// Since is when that set was proposed first, without another in between. RemovingSince is since
	// when each attempt has proposed to remove clusters; zero if the last one did not.
	Since, RemovingSince time.Time
}

// Answers are what plugins said of the change of a Placement that is held, as far as the process
// remembers.
type Answers struct {
	// Revision, From, Digest and Generation name the change that is held.
	Revision     int64
	From, Digest string
	Generation   int64
	// Plugins are those that hold it, with their deadlines.
	Plugins map[string]time.Time
	// Allowed has the plugins whose hold was cleared. Rejected says who rejected the change, and
	// why; empty if nobody did.
	Allowed  map[string]bool
	Rejected string
}

// Fleet is the part of a Snapshot that all Placements share. Clusters have a dense index; a free
// slot is nil.
type Fleet struct {
	Clusters *Vector[*Cluster]
	// Ranks holds each cluster's position in the order of names, by the cluster's index.
	Ranks  []int32
	Counts *DecisionCounts
	// Scores holds, by AddOnPlacementScore name, the object of each cluster by the cluster's index.
	Scores map[string]*Vector[*v1alpha1.AddOnPlacementScore]
	// Log says which clusters changed.
	Log ChangeLog
}

// ByName compares clusters as their names do.
func (f *Fleet) ByName(a, b *Cluster) int { return cmp.Compare(f.Ranks[a.Index], f.Ranks[b.Index]) }

// Cluster is one ManagedCluster as plugins read it. It is replaced, never changed. What plugins
// read of every candidate fits into one line of the processor's cache, and the rest is elsewhere:
// with more clusters than that holds, a line is what a candidate costs.
type Cluster struct {
	*v1alpha1.ManagedCluster
	// Index is the cluster's dense position, stable while the cluster exists.
	Index int
	// CPU and Memory are the allocatable amounts, in cores and bytes: finite numbers, and so are
	// their differences.
	CPU, Memory Amount
	// Tainted says that there are taints.
	Tainted bool

	*details
}

// details are what plugins read of some clusters only.
type details struct {
	// TaintTimes are when the taints count as added, by position in spec.taints.
	TaintTimes []time.Time
	// Claims are the status's clusterClaims; of equal names the last wins.
	Claims map[string]string

	// rendered is the cluster as a map, made when the first expression asks for it.
	once     sync.Once
	rendered map[string]any
	err      error
}

// NewCluster begins a cluster at an index.
func NewCluster(object *v1alpha1.ManagedCluster, index int) *Cluster {
	return &Cluster{ManagedCluster: object, Index: index, Tainted: len(object.Spec.Taints) > 0, details: &details{}}
}

// Changed is a copy with another object, for a trial.
func (c *Cluster) Changed(object *v1alpha1.ManagedCluster) *Cluster {
	changed := *c
	changed.ManagedCluster, changed.details = object, &details{TaintTimes: c.TaintTimes, Claims: c.Claims}
	return &changed
}

// Unstructured is the cluster as a map, rendered once by the function of the first caller; nobody
// may change it.
func (c *Cluster) Unstructured(render func(*v1alpha1.ManagedCluster) (map[string]any, error)) (map[string]any, error) {
	c.once.Do(func() { c.rendered, c.err = render(c.ManagedCluster) })
	return c.rendered, c.err
}

// Amount is a quantity of a resource; Known is false when the cluster reports it neither
// allocatable nor as capacity.
type Amount struct {
	Value float64
	Known bool
}

// ClusterSet is one ManagedClusterSet and its members.
type ClusterSet struct {
	Name    string
	Members Bitset
	// Selector is nil for a set whose members carry its name in their clusterset label.
	Selector labels.Selector
	// Err says why a set with an invalid selector has no members.
	Err error
}

// Admits is true if a cluster, changed or not, is a member; one being deleted is none.
func (s *ClusterSet) Admits(c *Cluster) bool {
	if !c.DeletionTimestamp.IsZero() {
		return false
	}
	if s.Selector == nil {
		set, ok := c.Labels[v1alpha1.ClusterSetLabel]
		return ok && set == s.Name
	}
	return s.Selector.Matches(labels.Set(c.Labels))
}

// Subject is one Placement and what the hub publishes for it.
type Subject struct {
	Placement *v1alpha1.Placement
	// Pages are the PlacementDecisions labelled with the Placement's name, and unfinished ones that
	// it owns, by name; without those that are being deleted.
	Pages []*v1alpha1.PlacementDecision
	// Published are the names on the labelled pages, those that are no cluster of the hub included.
	Published Bitset
	// Entries counts the decisions on the labelled pages by name index (DecisionCounts), duplicates
	// included.
	Entries map[int]int32
	// Last is what Berth published last; nil while nothing is published.
	Last *Published
	// Records are the PlacementChanges of this very Placement, by revision; they are not to be
	// changed.
	Records []*berthv1alpha1.PlacementChange
	// Policies are the DisruptionPolicies that select the Placement, by name.
	Policies []*berthv1alpha1.DisruptionPolicy
	// Incumbents is Published, joined with the target of the open change. Leaving are the clusters
	// that the open change removes.
	Incumbents, Leaving Bitset
	// Taken are names that this Placement's pages may have and that other pages, or ones that are
	// being deleted, have; sorted.
	Taken []string
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

// DecisionCounts says how often each cluster is listed on the hub's PlacementDecisions, without
// those that are being deleted. A name that is no cluster has an index, too.
type DecisionCounts struct {
	ByIndex *Vector[int32]
	// Histogram counts the names by their number of decisions: Histogram[c] names are listed c
	// times; 0 is not kept.
	Histogram []int32
}

// Max returns the highest count, had the entries in less not been there.
func (d *DecisionCounts) Max(less map[int]int32) int32 {
	var moved map[int32]int32
	if len(less) > 0 {
		moved = make(map[int32]int32, 4)
		for i, n := range less {
			c := d.ByIndex.Get(i)
			moved[c]--
			moved[c-n]++
		}
	}
	for c := int32(len(d.Histogram)) - 1; c > 0; c-- {
		if d.Histogram[c]+moved[c] > 0 {
			return c
		}
	}
	return 0
}

// ChangeLog lists the indexes of clusters in the order they changed. Entries are numbered from the
// inventory's birth.
type ChangeLog struct {
	// First is the number of Entries[0]; older ones are forgotten.
	First   uint64
	Entries []Change
}

// Change is one cluster that came, changed or went.
type Change struct {
	Index int
	// Selectable is false when neither labels nor claims, nor the cluster's being there, changed.
	Selectable bool
}

// Next is the number that the next entry will have.
func (l ChangeLog) Next() uint64 { return l.First + uint64(len(l.Entries)) }

// Since returns the entries from number n on; false when some of them are forgotten.
func (l ChangeLog) Since(n uint64) ([]Change, bool) {
	if n < l.First || n > l.Next() {
		return nil, false
	}
	return l.Entries[n-l.First:], true
}

// LabelledPages are the pages that consumers see.
func (s *Subject) LabelledPages() []*v1alpha1.PlacementDecision {
	var labelled []*v1alpha1.PlacementDecision
	for _, page := range s.Pages {
		if page.IsLabelledFor(s.Placement.Name) {
			labelled = append(labelled, page)
		}
	}
	return labelled
}

// OwnPages are the pages that consumers see, without those that another object controls: an earlier
// Placement of the same name, for example.
func (s *Subject) OwnPages() []*v1alpha1.PlacementDecision {
	var own []*v1alpha1.PlacementDecision
	for _, page := range s.Pages {
		if s.Placement.StandingOf(page) == v1alpha1.PageOwn {
			own = append(own, page)
		}
	}
	return own
}

// IsUsable says whether the cluster is in a set that is bound to the Placement's namespace.
func (s *Snapshot) IsUsable(cluster *Cluster) bool {
	return slices.ContainsFunc(s.Bound, func(set *ClusterSet) bool { return set.Members.Has(cluster.Index) })
}

// Candidates are the members of the eligible sets. Nobody may change the result: snapshots share
// it.
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

// WithPlacement is the snapshot had the Placement been another.
func (s *Snapshot) WithPlacement(pl *v1alpha1.Placement) *Snapshot {
	trial, subject := *s, *s.Subject
	subject.Placement = pl
	trial.Subject, trial.Trial = &subject, true
	return &trial
}

// WithCluster is the snapshot had one cluster been another; its index is the old one's.
func (s *Snapshot) WithCluster(cluster *Cluster) *Snapshot {
	trial, fleet := *s, *s.Fleet
	fleet.Clusters = fleet.Clusters.With(cluster.Index, cluster)
	fleet.Log.Entries = append(append([]Change(nil), fleet.Log.Entries...), Change{Index: cluster.Index, Selectable: true})
	trial.Fleet, trial.Trial = &fleet, true
	trial.Sets = make([]*ClusterSet, len(s.Sets))
	for i, set := range s.Sets {
		changed := *set
		changed.Members = set.Members.Clone()
		if set.Admits(cluster) {
			changed.Members = changed.Members.Set(cluster.Index)
		} else {
			changed.Members.Unset(cluster.Index)
		}
		trial.Sets[i] = &changed
	}
	return &trial
}
