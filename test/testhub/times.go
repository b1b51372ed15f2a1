package testhub

import (
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
)

// shortest is the time from which on a spec is worth a line.
const shortest = time.Second

// Every suite that imports this package says how long its specs took, the start and stop of its
// hub included. test/summary.awk reads these lines.
var _ = ReportAfterSuite("times", func(report Report) {
	fmt.Fprintln(os.Stdout) // Ginkgo's dots have no end of line.
	for _, spec := range report.SpecReports {
		if spec.RunTime < shortest {
			continue
		}
		name := spec.FullText()
		if name == "" {
			name = spec.LeafNodeType.String()
		}
		fmt.Fprintf(os.Stdout, "took: %.2f %s\n", spec.RunTime.Seconds(), name)
	}
})
