package framework

import (
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Proposal is what one attempt wants to publish, and the change that leads there.
type Proposal struct {
	// Selected are the chosen clusters, best first.
	Selected []Selection
	// Clusters are the names of Selected, sorted.
	Clusters []string
	// Added and Removed are the names that differ from what Berth published last, sorted.
	Added, Removed []string
	// Digest is DigestOf(Clusters), From that of what Berth published last: equal sets have equal
	// digests, whatever their order and scores.
	Digest, From string
	// Revision is the change's number; if no cluster changes, that of the last change. 0 if it is
	// not known.
	Revision int64
	// Revoked is true if the change only removes clusters that are in no set bound to the namespace
	// any more.
	Revoked bool
	// Edited is true if the Placement's spec or profile changed since its last decision was
	// published.
	Edited bool
	// Restores is true if the Proposal publishes again what was published last: scoreRateLimit does
	// not apply.
	Restores bool
	// LastScores is when scores were published last, as far as the process remembers. The status
	// may say an earlier time.
	LastScores time.Time
	// Approved is true if somebody with the right to do so approved this very change.
	Approved bool
	// HeldBy are the plugins that hold this very change already, with their deadlines.
	HeldBy map[string]time.Time
	// ExpiredBy are the plugins that held this very change until it expired. They must not let it
	// pass for no other reason than that time went by.
	ExpiredBy []string
	// Since is when this very change was proposed first, without another in between; RemovingSince
	// is since when each attempt has proposed to remove clusters.
	Since, RemovingSince time.Time
	// Writes are the writes done, in order. A Bind plugin appends each as it succeeds, also when a
	// later one fails.
	Writes []PageWrite
	// Outcome is what the pages come to once all writes are done.
	Outcome Outcome
}

// Outcome describes what a Bind plugin published, for the Placement's status.
type Outcome struct {
	Groups []v1alpha1.DecisionGroupStatus
	// Changed is false when the same clusters were published before; no event speaks of such a
	// pass.
	Changed bool
	// ScoresWritten says that scores were published.
	ScoresWritten bool
	// Foreign names pages that carry the Placement's label and that something else controls.
	Foreign []string
}

// Selection is one chosen cluster.
type Selection struct {
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

// Verdict says why one candidate was, or was not, selected.
type Verdict struct {
	Cluster  string `json:"cluster"`
	Selected bool   `json:"selected"`
	// Plugin excluded the cluster; empty when it was ranked.
	Plugin string `json:"plugin,omitempty"`
	// Reason is in words.
	Reason string `json:"reason,omitempty"`
	// Rank counts from 1 among the feasible clusters; 0 when excluded.
	Rank int `json:"rank,omitempty"`
	// Score is the total; Scores its parts, before weights.
	Score  *int64           `json:"score,omitempty"`
	Scores map[string]int64 `json:"scores,omitempty"`
	// Distance is how far the total is from the cut: what a cluster that was left out lacks to be
	// taken (negative), or what one that was taken has to spare.
	Distance *int64 `json:"distance,omitempty"`
	// Flips is the smallest change that would let an excluded cluster in, in words.
	Flips string `json:"flips,omitempty"`
}

// DigestOf is the digest of a set of clusters, as in the records of changes.
func DigestOf(names []string) string { return berthv1alpha1.Digest(names) }
