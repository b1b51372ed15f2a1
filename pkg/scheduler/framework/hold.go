package framework

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Hold is a change that Permit does not let pass yet, as held pages keep it: PlacementDecisions with the label
// v1alpha1.HeldLabel instead of the Placement's own, so that no consumer reads them, and a restart or a new leader still
// knows the clusters, the token and the deadlines.
type Hold struct {
	// Token names this hold: the digest of its clusters, and when they were first held.
	Token string
	// Clusters are the names of the whole answer that waits, sorted.
	Clusters []string
	// Deadlines are when each waiting plugin gives up, by plugin.
	Deadlines map[string]time.Time
}

// TokenFor names a hold of the clusters with a digest that begins at a time. An approval of an earlier hold of the same
// clusters is another one.
func TokenFor(digest string, since time.Time) string {
	return digest + "-" + strconv.FormatInt(since.UnixMilli(), 36)
}

// DigestIn is the digest of the clusters that a token stands for.
func DigestIn(token string) string {
	digest, _, _ := strings.Cut(token, "-")
	return digest
}

// SinceIn is when the hold with a token began; zero where the token does not say.
func SinceIn(token string) time.Time {
	_, text, _ := strings.Cut(token, "-")
	since, err := strconv.ParseInt(text, 36, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(since)
}

// heldRecord is the value of v1alpha1.HoldAnnotation, the same on all pages of a hold.
type heldRecord struct {
	Token     string               `json:"token"`
	Deadlines map[string]time.Time `json:"deadlines"`
}

// IsHeldPage says whether a page is part of a hold rather than of what is published. One that Berth made to be held stays that when
// somebody gives it the Placement's label.
func IsHeldPage(page *v1alpha1.PlacementDecision) bool {
	_, held := page.Labels[v1alpha1.HeldLabel]
	_, published := page.Labels[v1alpha1.PlacementLabel]
	return held && (!published || page.Annotations[v1alpha1.HoldAnnotation] != "")
}

// maxHold is the longest that a deadline may be after the beginning of its hold: the next
// maintenance window opens within five years.
const maxHold = 6 * 366 * 24 * time.Hour

var tokenPattern = regexp.MustCompile(`^[0-9a-f]{64}-[0-9a-z]{1,12}$`)

// IsToken says whether a text has the form of a token.
func IsToken(text string) bool { return tokenPattern.MatchString(text) }

// valid says whether Berth can have written the record.
func (r *heldRecord) valid() bool {
	since := SinceIn(r.Token)
	if !IsToken(r.Token) || since.IsZero() {
		return false
	}
	for plugin, deadline := range r.Deadlines {
		if plugin == "" || deadline.Before(since) || deadline.After(since.Add(maxHold)) {
			return false
		}
	}
	return true
}

// HoldOf reads a hold from its pages. It is nil if they do not make a whole and valid one: the
// clusters of a hold whose writing was interrupted do not come to its digest.
func HoldOf(pages []*v1alpha1.PlacementDecision) *Hold {
	var text string
	h := &Hold{}
	for i, page := range pages {
		if i > 0 && page.Annotations[v1alpha1.HoldAnnotation] != text {
			return nil
		}
		text = page.Annotations[v1alpha1.HoldAnnotation]
		for _, d := range page.Status.Decisions {
			h.Clusters = append(h.Clusters, d.ClusterName)
		}
	}
	var record heldRecord
	if len(pages) == 0 || json.Unmarshal([]byte(text), &record) != nil || !record.valid() || DigestIn(record.Token) != DigestOf(h.Clusters) {
		return nil
	}
	sort.Strings(h.Clusters)
	if n := len(h.Clusters); len(slices.Compact(h.Clusters)) != n {
		// The digest is that of a set; Berth lists no cluster twice.
		return nil
	}
	h.Token, h.Deadlines = record.Token, record.Deadlines
	return h
}

// Pages are the hold as PlacementDecisions: `<placement>-held-<n>`, owned by the Placement. A name that something else has is
// left out. A hold without clusters is one empty page.
func (h *Hold) Pages(pl *v1alpha1.Placement, taken func(name string) bool) ([]*v1alpha1.PlacementDecision, error) {
	text, err := json.Marshal(heldRecord{h.Token, h.Deadlines})
	if err != nil {
		return nil, fmt.Errorf("encoding the hold: %w", err)
	}
	chunks := slices.Collect(slices.Chunk(h.Clusters, v1alpha1.MaxDecisionsPerPage))
	if len(chunks) == 0 {
		chunks = [][]string{nil}
	}
	var pages []*v1alpha1.PlacementDecision
	for n := 1; len(pages) < len(chunks); n++ {
		name := fmt.Sprintf("%s-held-%d", pl.Name, n)
		if taken != nil && taken(name) {
			continue
		}
		page := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
			Namespace: pl.Namespace, Name: name,
			Labels:          map[string]string{v1alpha1.HeldLabel: pl.Name},
			Annotations:     map[string]string{v1alpha1.HoldAnnotation: string(text)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pl, v1alpha1.GroupVersionV1Beta1.WithKind("Placement"))},
		}}
		page.Status.Decisions = make([]v1alpha1.ClusterDecision, len(chunks[len(pages)]))
		for i, cluster := range chunks[len(pages)] {
			page.Status.Decisions[i].ClusterName = cluster
		}
		pages = append(pages, page)
	}
	return pages, nil
}
