package app

import (
	"strings"
	"testing"
	"time"
)

// TestParseDuration: durations may be whole days.
func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "1d": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "-1h": -time.Hour,
		"": 0, "d": 0, "1.5d": 0, "-1d": 0, "99999d": 0, "1d12h": 0, "1w": 0,
	} {
		if got, err := parseDuration(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	if err := newHistoryCommand().Flags().Set("since", "7d"); err != nil {
		t.Error(err)
	}
}

// TestParseTimeOrAgo: a flag takes a time, or a duration.
func TestParseTimeOrAgo(t *testing.T) {
	for text, want := range map[string]struct {
		at  time.Time
		ago time.Duration
	}{
		"": {}, "2026-01-01T12:00:00Z": {at: noonTime}, "10m": {ago: 10 * time.Minute}, "2d": {ago: 48 * time.Hour},
	} {
		if at, ago, err := parseTimeOrAgo("at", text); !at.Equal(want.at) || ago != want.ago || err != nil {
			t.Errorf("%q is %s and %s, %v; want %+v", text, at, ago, err, want)
		}
	}
	for _, text := range []string{"-10m", "0d", "yesterday"} {
		if _, _, err := parseTimeOrAgo("at", text); err == nil || !strings.HasPrefix(err.Error(), "--at: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
