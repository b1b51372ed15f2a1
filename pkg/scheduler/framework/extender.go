package framework

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// ExtenderAnswer is what an extender answered about the candidates of one Placement. It is
// immutable.
type ExtenderAnswer struct {
	// Generation is that of the Placement whose spec was sent. Time is when the extender was last
	// asked for all candidates and answered; zero if it never did.
	Generation int64     `json:"generation,omitempty"`
	Time       time.Time `json:"time,omitzero"`
	// Clusters are the answers, sorted by name. Missing are the candidates that the extender was
	// asked for and left out, sorted.
	Clusters []ExtenderCluster `json:"clusters,omitempty"`
	Missing  []string          `json:"missing,omitempty"`
	// Failure is set if the last request failed.
	Failure *ExtenderFailure `json:"failure,omitempty"`
}

// ExtenderCluster is an extender's answer about one cluster.
type ExtenderCluster struct {
	Name string `json:"name"`
	// Score is from MinScore to MaxScore; nil if the extender gave none.
	Score *int8 `json:"score,omitempty"`
	// Excluded is true if the cluster must not be selected.
	Excluded bool   `json:"excluded,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// ExtenderFailure is why an extender could not be asked.
type ExtenderFailure struct {
	// Generation is that of the Placement. Message has no address and no credentials.
	Generation int64  `json:"generation,omitempty"`
	Message    string `json:"message"`
	// Since is when the first of the failed requests in a row was sent. RetryAt is when the
	// extender is asked again.
	Since   time.Time `json:"since,omitzero"`
	RetryAt time.Time `json:"retryAt,omitzero"`
}

// Cluster returns the answer about a cluster; nil if there is none.
func (a *ExtenderAnswer) Cluster(name string) *ExtenderCluster {
	at, found := slices.BinarySearchFunc(a.Clusters, name, func(c ExtenderCluster, name string) int { return strings.Compare(c.Name, name) })
	if !found {
		return nil
	}
	return &a.Clusters[at]
}

// Knows reports whether the extender was asked for a cluster and answered, with or without it.
func (a *ExtenderAnswer) Knows(name string) bool {
	_, missing := slices.BinarySearch(a.Missing, name)
	return missing || a.Cluster(name) != nil
}

// ExtenderKey names an extender: its profile and its name there.
type ExtenderKey struct{ Profile, Name string }

// String returns `<profile>/<name>`, the key in Subject.Extenders.
func (k ExtenderKey) String() string { return k.Profile + "/" + k.Name }

// ExtenderQuestion asks an extender for clusters of one Placement.
type ExtenderQuestion struct {
	Extender  ExtenderKey
	Placement *v1alpha1.Placement
	// Clusters are the indexes in Fleet. All is true if they are all candidates; otherwise the
	// answers are added to Before.
	Clusters Bitset
	Fleet    *Fleet
	All      bool
	Before   *ExtenderAnswer
}

// Key is the Placement's namespace and name.
func (q *ExtenderQuestion) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: q.Placement.Namespace, Name: q.Placement.Name}
}
