package app

import (
	"strconv"
	"strings"
	"time"
)

func parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("--%s: %q is not a time in RFC 3339, such as 2026-06-01T12:00:00Z", flag, text)
	}
	return at, nil
}

// parseTimeOrAgo reads a time, or how long before another one it is.
func parseTimeOrAgo(flag, text string) (at time.Time, ago time.Duration, err error) {
	if ago, err := parseDuration(text); err == nil && ago > 0 {
		return at, ago, nil
	}
	if at, err = parseTime(flag, text); err != nil {
		err = usagef("--%s: %q is neither a time in RFC 3339, such as 2026-06-01T12:00:00Z, nor a duration, such as 2h or 1d", flag, text)
	}
	return at, 0, err
}

// parseDuration reads a duration, or whole days such as 7d.
func parseDuration(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	return time.ParseDuration(text)
}

// durationFlag is a flag that parseDuration reads.
type durationFlag time.Duration

// Set implements pflag.Value.
func (f *durationFlag) Set(text string) error {
	d, err := parseDuration(text)
	*f = durationFlag(d)
	return err
}

// String implements pflag.Value.
func (f *durationFlag) String() string {
	if *f == 0 {
		return ""
	}
	return time.Duration(*f).String()
}

// Type implements pflag.Value.
func (*durationFlag) Type() string { return "duration" }
