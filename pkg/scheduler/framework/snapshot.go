package framework

import (
	"cmp"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Snapshot is the fleet frozen at one instant, as one Placement sees it. It is immutable, and with the profile it is all
// that a decision may depend on. Plugins that run after selection must not read it: it may be older than what they bind.
type Snapshot struct {
	// Trial says that this is no state of the hub, but one had something been different.
	Trial bool
	*Fleet
	// Now is the only clock of a cycle.
	Now time.Time
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
	// Queue is what the Placement's queue allows; nil where no queues are configured. Sets and Limit have it in them already.
	Queue *QueueAdmission
}

// QueueAdmission is what its queue means for a Placement.
type QueueAdmission struct {
	// Reason and Message are those of the condition QueueAdmitted, which is True if Admitted.
	Admitted        bool
	Reason, Message string
	// Rejected says that no queue takes the Placement, which is an answer: no cluster. Other reasons not to be admitted decide
	// nothing, and leave the published decision.
	Rejected bool
	// Restricted says that the queue owns cluster sets, and that the Placement may use no others.
	Restricted bool
	// LimitBy names the quotas that the snapshot's Limit comes from.
	LimitBy string
	// Record is what pages keep of it.
	Record string
	// RetryAt asks for another attempt; zero for none.
	RetryAt time.Time
	// Listed is how many clusters the pages list that this very Placement controls.
	Listed int
	// Took is told how many clusters the Placement has, or is about to have.
	Took func(clusters int)
}

// Fleet is the part of a Snapshot that all Placements share. Clusters have a dense index; a free slot is nil.
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

// Cluster is one ManagedCluster as plugins read it. It is replaced, never changed. What plugins read of every candidate fits into one
// line of the processor's cache, and the rest is elsewhere: with more clusters than that holds, a line is what a candidate costs.
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

// Unstructured is the cluster as a map, rendered once by the function of the first caller; nobody may change it.
func (c *Cluster) Unstructured(render func(*v1alpha1.ManagedCluster) (map[string]any, error)) (map[string]any, error) {
	c.once.Do(func() { c.rendered, c.err = render(c.ManagedCluster) })
	return c.rendered, c.err
}

// Amount is a quantity of a resource; Known is false when the cluster reports it neither allocatable nor as capacity.
type Amount struct {
	Value float64
	Known bool
}

// ClusterSet is one ManagedClusterSet and its members.
type ClusterSet struct {
	Name    string
	Members Bitset
	// Err says why a set with an invalid selector has no members.
	Err error
	// Admits says whether a cluster, changed or not, is a member.
	Admits func(*Cluster) bool
}

// Subject is one Placement and what the hub publishes for it.
type Subject struct {
	Placement *v1alpha1.Placement
	// Pages are the PlacementDecisions labelled with the Placement's name, and unfinished ones that
	// it owns, by name; without held pages and those that are being deleted.
	Pages []*v1alpha1.PlacementDecision
	// Published are the names on the labelled pages, those that are no cluster of the hub included.
	Published Bitset
	// Entries counts the decisions on the labelled pages by name index (DecisionCounts), duplicates included.
	Entries map[int]int32
	// Held is the change that Permit held last, if it still does; nil when none waits.
	Held *Hold
	// HeldPages are all pages with the held label, by name, those of an interrupted hold included.
	HeldPages []*v1alpha1.PlacementDecision
	// HeldClusters are the clusters of Held.
	HeldClusters Bitset
	// Incumbents is Published, joined with HeldClusters.
	Incumbents Bitset
	// Taken says whether a held page, one that is being deleted, or another Placement's, has this
	// name in the namespace.
	Taken func(name string) bool
}

// Key is the Placement's namespace and name.
func (s *Subject) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Placement.Namespace, Name: s.Placement.Name}
}

// DecisionCounts says how often each cluster is listed on the hub's PlacementDecisions, without
// held pages and those that are being deleted. A name that is no cluster has an index, too.
type DecisionCounts struct {
	ByIndex *Vector[int32]
	// Histogram counts the names by their number of decisions: Histogram[c] names are listed c times; 0 is not kept.
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

// ChangeLog lists the indexes of clusters in the order they changed. Entries are numbered from the inventory's birth.
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
		if page.Labels[v1alpha1.PlacementLabel] == s.Placement.Name {
			labelled = append(labelled, page)
		}
	}
	return labelled
}

// OwnPages are the pages that consumers see, without those that another object controls: an earlier
// Placement of the same name, for example.
func (s *Subject) OwnPages() []*v1alpha1.PlacementDecision {
	own := s.LabelledPages()
	return slices.DeleteFunc(own, func(page *v1alpha1.PlacementDecision) bool {
		owner := metav1.GetControllerOfNoCopy(page)
		return owner != nil && owner.UID != s.Placement.UID && s.Placement.UID != ""
	})
}

// IsUsable says whether the cluster is in a set that is bound to the Placement's namespace.
func (s *Snapshot) IsUsable(cluster *Cluster) bool {
	return slices.ContainsFunc(s.Bound, func(set *ClusterSet) bool { return set.Members.Has(cluster.Index) })
}

// Candidates are the members of the eligible sets. Nobody may change the result: snapshots share it.
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
