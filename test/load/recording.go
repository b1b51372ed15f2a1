package main

import (
	"context"
	"fmt"
	"os"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
)

// measureRecording reports the part of the recorder in the controller's processor time of the hot
// rows.
func (r *run) measureRecording(context.Context) error {
	if r.hot.cpu == 0 {
		return nil
	}
	r.add(result{
		Row: "recording", Work: "recording, of the hot rows' CPU", Value: 100 * r.hot.recording / r.hot.cpu.Seconds(), Unit: "%", Target: 3, Samples: 1,
	}, effort{}, 1)
	return nil
}

// verifyRecording stops the controller and makes all its decisions again.
func (r *run) verifyRecording(ctx context.Context) error {
	dir := recordingIn(r.dir)
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	r.process.stop()
	r.printStep("replay: making all decisions again")
	reader, err := recording.Open(dir)
	if err != nil {
		return err
	}
	defer reader.Close()
	verified, err := replay.Verify(ctx, reader, nil, func(m replay.Mismatch) error {
		return fmt.Errorf("the decision about %s at %s differs: %s", m.Recorded.Key(), m.Recorded.Now, m.Difference)
	}, nil)
	if err != nil {
		return err
	}
	for why, n := range verified.Skipped {
		return fmt.Errorf("%d decisions were not made again: %s", n, why)
	}
	size, _ := reader.Size()
	r.printStep("replay: %d decisions, %d differ, %.1f MB", verified.Decisions, verified.Differ, float64(size)/1e6)
	r.add(result{Row: "replay", Work: "recorded decisions that differ", Value: float64(verified.Differ), Unit: "", Samples: verified.Decisions}, effort{}, 1)
	return nil
}
