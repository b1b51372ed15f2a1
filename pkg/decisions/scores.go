package decisions

import (
	"regexp"
	"strconv"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// rateLimit is the form of scoreRateLimit.
var rateLimit = regexp.MustCompile(`^([0-9]+)([hms])$`)

// ScoresDue is when new scores, or a new order by them, may be published next: scoreRateLimit
// (default 1m) after the last time. That is the later one of the status and of what the process
// remembers, because a status may not have been stored. The result is in the past when there is no
// last time, and when it is in the future: then the clock was set back since, and the limit must
// not last as much longer. A second ahead is no more than how statuses round.
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

// scoreRateLimit reads hours, minutes or seconds; what the schema would have refused counts as the
// default.
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
