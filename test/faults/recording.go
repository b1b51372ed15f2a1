package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
)

// recordings are the folders of the recordings of specs, by the spec's name.
var recordings sync.Map

// recordingOf returns the folder to which all controllers of the spec record. At the end of the
// spec, after all of them have ended, every recorded decision must be the same when it is made
// again.
func recordingOf() string {
	GinkgoHelper()
	spec := CurrentSpecReport().FullText()
	dir := filepath.Join(GinkgoT().TempDir(), "recording")
	known, loaded := recordings.LoadOrStore(spec, dir)
	if !loaded {
		// Cleanups run in the reverse order: this one after those that end processes.
		DeferCleanup(func(ctx context.Context) { verifyRecording(ctx, spec, dir) })
	}
	return known.(string)
}

func verifyRecording(ctx context.Context, spec, dir string) {
	GinkgoHelper()
	recordings.Delete(spec)
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return
	}
	r, err := recording.Open(dir)
	if err != nil {
		// No controller lived long enough to write a segment.
		return
	}
	defer r.Close()
	ExpectReplays(ctx, r)
}

// ExpectReplays makes the decisions of a recording again and fails if one differs.
func ExpectReplays(ctx context.Context, r *recording.Reader) {
	GinkgoHelper()
	differs := func(m replay.Mismatch) error {
		GinkgoWriter.Printf("%s at %s: %s\nrecorded %+v\nreplayed %+v\n", m.Recorded.Key(), m.Recorded.Now, m.Difference, m.Recorded, replay.DecisionOf(m.Again.Plan))
		return nil
	}
	v, err := replay.Verify(ctx, r, nil, differs, nil)
	Expect(err).NotTo(HaveOccurred())
	fmt.Printf("\nobserved: recording: %d decisions made again, %d differ, %d ended early, %d failed, skipped %v, %d entries lost\n", v.Decisions, v.Differ, v.EndedEarly, v.Failed, v.Skipped, v.Lost)
	Expect(v.Differ).To(BeZero(), "decisions differ when they are made again")
	for _, d := range r.Damaged {
		Expect(d.Cut).To(BeTrue(), "%s: %v", d.Path, d.Err)
	}
}
