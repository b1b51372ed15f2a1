package model

import (
	"cmp"
	"slices"
)

// Fleet is what several Placements of one namespace have, and what limits them. It says what they
// know of each other: claims, quota, capacity and affinity. Their policies ask for no steps.
type Fleet struct {
	// Clusters have room for the requests of one Placement each.
	Clusters []string
	// Quota is the number of clusters of the queue; negative without queues.
	Quota   int
	Members []*Member
}

// Member is one Placement.
type Member struct {
	Name string
	// Number is numberOfClusters; Matches are the clusters that match its predicate.
	Number  int
	Matches []string
	// With and ApartFrom name other Placements. Requests: it requests the room of a cluster.
	With, ApartFrom string
	Requests        bool
	Generation      int64
	// Listed are the published clusters.
	Listed []string
	// Claimed is the target of the change for which something is reserved; nil for none. Recorded:
	// that has an open record, Answer is that of a person.
	Claimed  []string
	Recorded bool
	Answer   Outcome
	// ClaimedBy is the generation for which that change was decided.
	ClaimedBy int64
	// Ended are the changes that were rejected. The answer can become Published: approved.
	Ended map[Ended]Outcome
	// SinceStart: no event affected the Placement since its first attempt after a start. FromPages:
	// that attempt did not publish yet.
	SinceStart, FromPages bool
	// Paged: it was attempted: it has pages, maybe an empty one.
	Paged bool
}

// Ended identifies a change that was rejected.
type Ended struct {
	From, To   string
	Generation int64
}

// ID identifies the change that leads to a target.
func (m *Member) ID(target []string) Ended {
	return Ended{digest(m.Listed), digest(target), m.Generation}
}

// Has are the clusters that a Placement has for others: published ones, and those that its change
// adds.
func (m *Member) Has() []string { return plus(m.Listed, m.Claimed) }

// Followed are the clusters to which others with the Placement follow it. What it claims may still
// be rejected, and counts only if it has no other clusters.
func (m *Member) Followed() []string {
	if len(m.Listed) > 0 {
		return m.Listed
	}
	return m.Claimed
}

// Uses is what it takes of the quota: the published or the selected clusters, if those are more.
func (m *Member) Uses() int { return max(len(m.Listed), len(m.Claimed)) }

// Count is the number of decisions on a cluster of others that do not follow the Placement.
func (f *Fleet) Count(m *Member, cluster string) (n int) {
	for _, other := range f.Members {
		if !f.follows(other, m) && slices.Contains(other.Has(), cluster) {
			n++
		}
	}
	return n
}

// follows reports whether a Placement is another one, or with it, directly or through others.
func (f *Fleet) follows(m, leader *Member) bool {
	for range f.Members {
		if m == leader {
			return true
		}
		i := slices.IndexFunc(f.Members, func(other *Member) bool { return other.Name == m.With })
		if i < 0 {
			return false
		}
		m = f.Members[i]
	}
	return false
}

// Limit is how many clusters the quota leaves to a Placement; -1 without queues. It keeps what it
// has.
func (f *Fleet) Limit(m *Member) int {
	if f.Quota < 0 {
		return -1
	}
	free := f.Quota
	for _, other := range f.Members {
		if other != m {
			free -= other.Uses()
		}
	}
	return max(free, len(m.Listed))
}

// Feasible are the clusters that a Placement may get.
func (f *Fleet) Feasible(m *Member) (feasible []string) {
	for _, cluster := range m.Matches {
		if !slices.ContainsFunc(f.Members, func(other *Member) bool { return other != m && excludes(m, other, cluster) }) {
			feasible = append(feasible, cluster)
		}
	}
	return feasible
}

// excludes reports whether what another Placement has keeps a cluster from one.
func excludes(m, other *Member, cluster string) bool {
	has := slices.Contains(other.Has(), cluster)
	switch {
	case m.With == other.Name && len(other.Followed()) > 0 && !slices.Contains(other.Followed(), cluster):
		return true
	case !has:
		return false
	case m.ApartFrom == other.Name || other.ApartFrom == m.Name && m.ApartFrom == other.Name:
		return true
	}
	return m.Requests && other.Requests
}

// Target is what an attempt of a Placement selects.
func (f *Fleet) Target(m *Member) []string {
	ranked := f.Feasible(m)
	slices.SortStableFunc(ranked, func(x, y string) int { return cmp.Compare(f.score(m, y), f.score(m, x)) })
	n := min(len(ranked), m.Number)
	if limit := f.Limit(m); limit >= 0 {
		n = min(n, limit)
	}
	return plus(ranked[:n], nil)
}

// score is the sum of Balance and Steady.
func (f *Fleet) score(m *Member, cluster string) int {
	listed, claimed := slices.Contains(m.Listed, cluster), m.Recorded && slices.Contains(m.Claimed, cluster)
	steady := 0
	switch {
	case listed && m.Recorded && !claimed:
		steady = 50
	case listed || claimed:
		steady = 100
	}
	most := 0
	for _, c := range f.Clusters {
		most = max(most, f.Count(m, c))
	}
	count := f.Count(m, cluster)
	if count == 0 || m.SinceStart && steady == 100 {
		return steady + 100
	}
	return steady + 2*int(100*(0.5-float64(count)/float64(most)))
}

// Attempt is an attempt of a Placement; permit is what Permit answers to a change that nobody
// approved.
func (f *Fleet) Attempt(m *Member, permit Outcome) Outcome {
	target := f.Target(m)
	m.Paged = true
	same, id := m.Recorded && m.ClaimedBy == m.Generation && slices.Equal(target, m.Claimed), m.ID(target)
	if !same && m.Answer == Rejected {
		m.Ended[Ended{id.From, digest(m.Claimed), m.ClaimedBy}] = Rejected
	}
	if slices.Equal(target, m.Listed) {
		m.release()
		m.FromPages = false
		return Unchanged
	}
	answer := m.Ended[id]
	if same && m.Answer != "" {
		answer = m.Answer
	}
	switch {
	case answer == Rejected:
		m.release()
		m.Ended[id] = Rejected
		return Rejected
	case answer == Published, permit == Published:
		m.release()
		m.Listed, m.FromPages = target, false
		return Published
	case permit == Denied:
		m.release()
		return Denied
	}
	m.Claimed, m.ClaimedBy, m.Recorded = target, m.Generation, same || permit == Held
	if !same {
		m.Answer = ""
	}
	return permit
}

// release gives back what was reserved for a change.
func (m *Member) release() { m.Claimed, m.Recorded, m.Answer = nil, false, "" }

// Restart forgets what is not on the hub.
func (f *Fleet) Restart() {
	for _, m := range f.Members {
		m.SinceStart, m.FromPages = m.Paged, m.Paged
	}
}

// Affected: an event affects the Placement.
func (m *Member) Affected() { m.SinceStart = m.SinceStart && m.FromPages }
