package world

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
)

// digestOf returns a digest of the names and contents of the files in a folder.
func digestOf(t *testing.T, dir string) string {
	digest := sha256.New()
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(digest, "%s %x\n", path, sha256.Sum256(content))
	}
	return fmt.Sprintf("%d files recorded, %x", len(files), digest.Sum(nil))
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
