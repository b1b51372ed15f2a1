package world

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
)

// entriesOf returns what a recording has, and what is damaged. Goroutines handle the events of one
// instant in any order, and clients learn in any order what a list shows as deleted. So entries are
// sorted within each millisecond, and have no number of an input.
func entriesOf(t *testing.T, dir string) (all []string) {
	r, err := recording.Open(dir)
	if err != nil {
		return []string{err.Error()}
	}
	defer r.Close()
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		e.Time, e.Number = e.Time.Truncate(time.Millisecond), 0
		if e.Decision != nil {
			e.Decision.Input = 0
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Time.UTC().Format("2006-01-02 15:04:05.000 ")+string(text))
	}
	slices.Sort(all)
	return append(all, fmt.Sprintf("damaged: %+v", r.Damaged))
}

// verifyRecording makes the recorded decisions of a world again, as berth replay --verify does, and
// says how they differ.
func verifyRecording(ctx context.Context, dir string) (verified *replay.Verification, broken []string) {
	r, err := recording.Open(dir)
	if err != nil {
		return nil, []string{"BROKEN the recording: " + err.Error()}
	}
	defer r.Close()
	verified, err = replay.Verify(ctx, r, gates, func(m replay.Mismatch) error {
		broken = append(broken, fmt.Sprintf("BROKEN the decision for %s at %s is another one when it is made again: %s", m.Recorded.Key(), m.Recorded.Now.UTC().Format("15:04:05.000"), m.Difference))
		return nil
	}, nil)
	if err != nil {
		broken = append(broken, "BROKEN the recording: "+err.Error())
	}
	for _, d := range r.Damaged {
		if !d.Cut {
			broken = append(broken, fmt.Sprintf("BROKEN the recording: %s: %v", d.Path, d.Err))
		}
	}
	return verified, broken
}
