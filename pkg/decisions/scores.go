package decisions

import (
	"regexp"
	"strconv"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// rateLimit is the required form of scoreRateLimit.
var rateLimit = regexp.MustCompile(`^([0-9]+)([hms])$`)

// ScoresDue returns the earliest time of the next publication of scores: scoreRateLimit (default
// 1m) after the last one, which is the later one of the status and remembered, because a status
// write may have failed. It returns the zero time if there was none, or if it is more than 1 s in
// the future, because the clock was set back.
func ScoresDue(pl *v1alpha1.Placement, remembered, now time.Time) time.Time {
	last := remembered
	if stored := pl.Status.LastScoreUpdateTime; stored != nil && stored.After(last) {
		last = stored.Time
	}
	if last.IsZero() || last.After(now.Add(time.Second)) {
		return time.Time{}
	}
	return last.Add(scoreRateLimit(pl.Spec.ScoreRateLimit))
}

// scoreRateLimit parses hours, minutes or seconds; the default for a value that the schema does not
// allow.
func scoreRateLimit(text string) time.Duration {
	m := rateLimit.FindStringSubmatch(text)
	if m == nil {
		return time.Minute
	}
	n, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		return time.Minute
	}
	unit := map[string]time.Duration{"h": time.Hour, "m": time.Minute, "s": time.Second}[m[2]]
	return time.Duration(min(n, 1<<20)) * unit
}
