package framework

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// PublishedOn returns the decision that pages list, for use as the last published one (FromPages).
func PublishedOn(pages []*v1alpha1.PlacementDecision) *Published {
	d := &Published{Pages: make(map[string]uint64, len(pages)), FromPages: true}
	d.Names, d.Scores = Listed(pages)
	d.Digest = DigestOf(d.Names)
	for _, page := range pages {
		d.Pages[page.Name] = ContentHash(page)
	}
	return d
}

// Listed returns the cluster names on pages, sorted and without duplicates, and their scores; nil
// if there are none.
func Listed(pages []*v1alpha1.PlacementDecision) (names []string, scores map[string]int64) {
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

// Damaged reports whether the Placement's own pages differ from those published last, of which
// there is at least one.
func (d *Published) Damaged(subject *Subject) bool {
	pages := subject.OwnPages()
	return len(pages) == 0 || len(pages) != len(d.Pages) || slices.ContainsFunc(pages, func(page *v1alpha1.PlacementDecision) bool {
		_, known := d.Pages[page.Name]
		return !known || d.IsEdited(page)
	})
}

// IsEdited reports whether a page is known to differ from the one that was published last.
func (d *Published) IsEdited(page *v1alpha1.PlacementDecision) bool {
	hash, known := d.Pages[page.Name]
	return known && hash != ContentHash(page)
}

// Edited reports whether the spec was edited since it was published last, as far as is known.
func (s *Subject) Edited() bool {
	published := s.PublishedGeneration()
	return published != 0 && published != s.Placement.Generation
}

// PublishedGeneration returns the generation of the Placement for which the published clusters were
// decided; 0 if unknown. After a start the records and the status say so.
func (s *Subject) PublishedGeneration() int64 {
	if s.Last == nil {
		return 0
	}
	if s.Last.Generation != 0 {
		return s.Last.Generation
	}
	var newest *berthv1alpha1.PlacementChange
	isOpen := false
	if n := len(s.Records); n > 0 {
		newest = s.Records[n-1]
		isOpen = newest.Status.CompletionTime == nil && newest.Status.Phase != berthv1alpha1.PhasePublished
	}
	conditions := s.Placement.Status.Conditions
	satisfied := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionSatisfied)
	switch {
	case isOpen && newest.Spec.PublishedGeneration != 0:
		return newest.Spec.PublishedGeneration
	case satisfied != nil && satisfied.ObservedGeneration != 0 && meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionDecisionPending) == nil &&
		meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionDecisionProgressing) == nil && !SaysUndecided(satisfied):
		return satisfied.ObservedGeneration
	case newest == nil:
		return 0
	case newest.Status.Phase != berthv1alpha1.PhasePublished:
		return newest.Spec.PublishedGeneration
	}
	return newest.Spec.PlacementGeneration
}

// SaysUndecided reports whether the condition PlacementSatisfied has a reason for which nothing is
// decided without an edit. Its observedGeneration is then not that of the published clusters.
func SaysUndecided(satisfied *metav1.Condition) bool {
	switch satisfied.Reason {
	case v1alpha1.ReasonMisconfigured, v1alpha1.ReasonQueueRejected, v1alpha1.ReasonSelectionPolicyMissing:
		return true
	}
	return false
}

// ContentKey is part of what ContentHash hashes, so that users cannot construct two pages with the
// same hash. Simulated worlds set it, so that their recordings are always the same.
var ContentKey = rand.Text()

// ContentHash hashes what consumers, the garbage collector and Berth read of a page. The UID of the
// controller is not included, because Placements compare only pages that no other object controls.
func ContentHash(page *v1alpha1.PlacementDecision) uint64 {
	text := append(make([]byte, 0, 4<<10), ContentKey...)
	// The length before each field makes the encoding unambiguous.
	field := func(value string) {
		text = append(strconv.AppendInt(text, int64(len(value)), 10), ':')
		text = append(text, value...)
	}
	for _, label := range []string{v1alpha1.PlacementLabel, v1alpha1.DecisionGroupNameLabel, v1alpha1.DecisionGroupIndexLabel} {
		value, there := page.Labels[label]
		field(value)
		field(strconv.FormatBool(there))
	}
	field(page.Annotations[v1alpha1.QueueAnnotation])
	field(page.Annotations[berthv1alpha1.RevisionAnnotation])
	owner := ""
	if c := metav1.GetControllerOfNoCopy(page); c != nil {
		blocks := c.BlockOwnerDeletion != nil && *c.BlockOwnerDeletion
		owner = c.APIVersion + " " + c.Kind + " " + c.Name + " " + strconv.FormatBool(blocks)
	}
	field(owner)
	for _, d := range page.Status.Decisions {
		field(d.ClusterName)
		field(d.Reason)
		score := ""
		if d.Score != nil {
			score = strconv.FormatInt(*d.Score, 10)
		}
		field(score)
	}
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:])
}

// WithPublished returns the Snapshot as it would be if the Placement had other clusters, sorted by
// name, and had reached them without records: for a decision that starts from the last target of
// the same profile. Its tiers have the states in timers.
//
// The pages of the Placement still list the real clusters, and these are in DecisionCounts and
// Requests, which all Placements share. Entries and Has say what of them is the Placement's own,
// and stay with them.
func (s *Snapshot) WithPublished(names []string, timers Timers) *Snapshot {
	other, subject := *s, *s.Subject
	subject.Last = &Published{Names: names, Digest: DigestOf(names), SinceStart: s.Subject.Last != nil && s.Subject.Last.SinceStart}
	subject.LastClusters, subject.Records, subject.Leaving = nil, nil, nil
	for _, name := range names {
		if c := s.Cluster(name); c != nil {
			subject.LastClusters = subject.LastClusters.Set(c.Index)
		}
	}
	subject.Incumbents = subject.LastClusters
	other.Subject, other.Timers, other.Answers = &subject, timers, Answers{}
	return &other
}
