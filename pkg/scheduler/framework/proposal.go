package framework

import (
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Proposal is the decision that an attempt wants to publish, and the change to it from the clusters
// published last.
type Proposal struct {
	// Selected are the chosen clusters, best first.
	Selected []SelectedCluster
	// Clusters are the names of Selected, sorted. For the rest of a change they have those that no
	// longer qualify, too.
	Clusters []string
	// Added and Removed are the names that differ from what Berth published last, sorted.
	Added, Removed []string
	// Leaves are those of Clusters that later steps of the change remove, sorted.
	Leaves []string
	// Digest is DigestOf(Clusters), From the digest of the clusters published last. Order and
	// scores do not affect a digest.
	Digest, From string
	// Revision is the number of the change or, if no cluster changes, of the last change; 0 if
	// unknown.
	Revision int64
	// Kind says where the Proposal leads.
	Kind Kind
	// Partial is true for a step of a change, and for what was published of one that failed.
	// Another attempt follows it, also after the last step.
	Partial bool
	// KeepsReservation is true for a removal of its own while the rest of the change in progress
	// stays reserved, also after Unreserve.
	KeepsReservation bool
	// Edited is true if the Placement's spec or profile changed since the last publication.
	Edited bool
	// Cause is what triggered the attempt that first proposed the change, as in its record.
	Cause string
	// LastScores is when this process published scores last; zero if unknown. The status may
	// contain an earlier time.
	LastScores time.Time
	// Approved is true if a user with that permission approved this exact change.
	Approved bool
	// HeldBy are the plugins that already hold this exact change, with their deadlines; zero if it
	// is approved.
	HeldBy map[string]time.Time
	// ExpiredBy are the plugins that held this exact change until it expired, or hold a change of
	// which this is the whole removal. They must not permit it only because time has passed.
	ExpiredBy []string
	// Since is when this exact change was first proposed, without another one in between.
	// RemovingSince is the first of the consecutive attempts that proposed to remove clusters.
	Since, RemovingSince time.Time
	// Writes are the successful writes, in order. A Bind plugin appends each one as it succeeds,
	// even if a later one fails.
	Writes []PageWrite
	// Result describes the pages after all writes.
	Result BindResult
}

// Kind says where a Proposal leads.
type Kind string

// The kinds of Proposals.
const (
	// ToTarget: to the selected clusters.
	ToTarget Kind = ""
	// Continuation: the rest of the change in progress, although other clusters are selected, or
	// nothing was decided.
	Continuation Kind = "Continuation"
	// ForcedRemoval: only clusters are removed that the Placement cannot keep: revoked, deleted, or
	// excluded by a filter that forces it (ForcesRemoval).
	ForcedRemoval Kind = "ForcedRemoval"
	// RevokedRemoval: only clusters are removed whose sets are no longer bound to the namespace.
	RevokedRemoval Kind = "RevokedRemoval"
	// Republication: the last published decision is published again. scoreRateLimit does not apply.
	Republication Kind = "Republication"
)

// Forced reports whether the change only removes clusters that the Placement cannot keep.
func (k Kind) Forced() bool { return k == ForcedRemoval || k == RevokedRemoval }

// Change is a permitted change as a TransitionPlugin sees it.
type Change struct {
	// Proposal is the target, with what is still to be added and removed.
	*Proposal
	// Original are the clusters that were published when the change began, or the first of the
	// changes in progress that were superseded since a change was last completed, sorted; nil if
	// unknown.
	Original []string
	// ReadySince is since when added clusters have been published and ready, by name; clusters that
	// were added long ago are not in it. LastProgress is the time of the last step or newly ready
	// cluster; before the first step, that of the permission.
	ReadySince   map[string]time.Time
	LastProgress time.Time

	leaving func() []Leaving
}

// NewChange returns a change. leaving is called when a plugin asks for it.
func NewChange(p *Proposal, leaving func() []Leaving) *Change {
	return &Change{Proposal: p, leaving: leaving}
}

// Leaving describes the clusters that the change removes, also those that earlier steps removed,
// sorted by name. It looks at every cluster of the fleet.
func (c *Change) Leaving() []Leaving { return c.leaving() }

// Leaving is a cluster that a change removes.
type Leaving struct {
	Name string
	// Cluster is nil if the cluster was deleted.
	Cluster *Cluster
	// Forced is true if the Placement cannot keep the cluster: it is deleted, in no usable set any
	// more, or excluded by a filter that forces it (ForcesRemoval).
	Forced bool
	// OtherwiseQualifies is true if the cluster would qualify if it were not tainted or evicted:
	// only a filter with ForcesRemoval excludes it.
	OtherwiseQualifies bool
	// Rank is the position in the ranking of all clusters that qualify, from 1; 0 if the cluster
	// does not qualify.
	Rank int
}

// BindResult describes what a Bind plugin published, for the Placement's status.
type BindResult struct {
	Groups []v1alpha1.DecisionGroupStatus
	// Changed is false if the same clusters were published before. No event is sent then.
	Changed bool
	// ScoresWritten is true if scores were published.
	ScoresWritten bool
	// Unverified is true if a write failed and the page could not be read afterwards: it may list
	// the clusters of the step.
	Unverified bool
	// Foreign are the names of pages with the Placement's label that another object controls.
	Foreign []string
}

// SelectedCluster is one chosen cluster.
type SelectedCluster struct {
	Cluster *Cluster
	Score   int64
}

// PageWrite is one write of a PlacementDecision that the API server accepted.
type PageWrite struct {
	// Page is the object as the API server returned it; for a deletion, the last one known.
	Page    *v1alpha1.PlacementDecision
	Deleted bool
	Created bool
	// DecisionsChanged is false if the write only corrected labels or owners.
	DecisionsChanged bool
}

// ClusterVerdict explains why one candidate was or was not selected.
type ClusterVerdict struct {
	Cluster  string `json:"cluster"`
	Selected bool   `json:"selected"`
	// Plugin is the one that excluded the cluster; empty if it was ranked.
	Plugin string `json:"plugin,omitempty"`
	// Reason is a text for people.
	Reason string `json:"reason,omitempty"`
	// Rank counts from 1 among the feasible clusters; 0 if excluded.
	Rank int `json:"rank,omitempty"`
	// Score is the total. Scores are the scores of the prioritizers, before weights.
	Score  *int64           `json:"score,omitempty"`
	Scores map[string]int64 `json:"scores,omitempty"`
	// Unscored is why scores are missing, by prioritizer. They count as 0.
	Unscored map[string]string `json:"unscored,omitempty"`
	// Distance is the total minus the lowest selected total for a cluster that was not selected, or
	// minus the highest total that was not selected for a selected one.
	Distance *int64 `json:"distance,omitempty"`
	// SelectedWith is the smallest known change that would get the cluster selected; empty if the
	// cluster is selected or none is known.
	SelectedWith string `json:"selectedWith,omitempty"`
}

// DigestOf returns the digest of a set of cluster names, as in records.
func DigestOf(names []string) string { return berthv1alpha1.Digest(names) }
