package testhub

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-logr/logr"
)

const (
	// AttemptsMetric counts the attempts of a controller.
	AttemptsMetric = "berth_attempts_total"
	// restTime is how long no attempt runs in a fleet at rest. Timers that are due cause single
	// attempts, with pauses. Placements that cause each other's attempts leave no pause.
	restTime = 2 * time.Second
	// restTimeout is how long earlier events and timers may delay the rest.
	restTimeout = 45 * time.Second
	// nameTime is how long the names of attempted Placements are collected after a failure.
	nameTime = time.Second
	// reconcileLevel is the level at which controller-runtime logs each reconciliation.
	reconcileLevel = 5
)

// ExpectRest expects that the fleet comes to rest: that for restTime no attempt runs. attempts is
// their number so far; after a failure, attempted tells which Placements are attempted. It expects
// nothing after a failed spec.
func ExpectRest(attempts func() (float64, error), attempted func() string) {
	GinkgoHelper()
	if !CurrentSpecReport().Failed() {
		expectRest(restTime, restTimeout, attempts, attempted)
	}
}

func expectRest(rest, timeout time.Duration, attempts func() (float64, error), attempted func() string) {
	GinkgoHelper()
	last, since := -1.0, time.Now()
	Eventually(func(g Gomega) {
		now, err := attempts()
		g.Expect(err).NotTo(HaveOccurred())
		if now != last {
			last, since = now, time.Now()
		}
		g.Expect(time.Since(since)).To(BeNumerically(">=", rest), "%v attempts, and the last one just ran", now)
	}).WithTimeout(timeout).WithPolling(rest/20).Should(Succeed(), func() string {
		return "the fleet is not at rest although no input changes: " + attempted()
	})
}

// attempts is the number of attempts in this process.
func attempts() (float64, error) { return Metric(AttemptsMetric), nil }

// attemptedNames counts reconciliations by Placement while it is on.
type attemptedNames struct {
	mu     sync.Mutex
	on     bool
	counts map[string]int
}

// collect returns the Placements that are attempted within nameTime, each with its number.
func (n *attemptedNames) collect() string {
	n.mu.Lock()
	n.on, n.counts = true, map[string]int{}
	n.mu.Unlock()
	time.Sleep(nameTime)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on = false
	return fmt.Sprintf("within %s: %s", nameTime, ListCounts(n.counts))
}

// ListCounts lists counts by name in one line.
func ListCounts(counts map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d times", name, counts[name]))
	}
	return strings.Join(all, ", ")
}

func (n *attemptedNames) isOn() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.on
}

func (n *attemptedNames) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on {
		n.counts[name]++
	}
}

// wrap returns the logger, which also counts the reconciliations of the placement controller. A
// logger without a sink counts none.
func (n *attemptedNames) wrap(log logr.Logger) logr.Logger {
	if log.GetSink() == nil {
		return log
	}
	return log.WithSink(&reconcileSink{LogSink: log.GetSink(), names: n})
}

// reconcileSink is the sink of a logger with the values of a reconciliation.
type reconcileSink struct {
	logr.LogSink
	names                       *attemptedNames
	controller, namespace, name string
}

func (s *reconcileSink) Enabled(level int) bool {
	return s.LogSink.Enabled(level) || level <= reconcileLevel && s.names.isOn()
}

func (s *reconcileSink) Info(level int, message string, values ...any) {
	if s.controller == "placement" && message == "Reconciling" {
		s.names.add(s.namespace + "/" + s.name)
	}
	if s.LogSink.Enabled(level) {
		s.LogSink.Info(level, message, values...)
	}
}

func (s *reconcileSink) WithName(name string) logr.LogSink {
	next := *s
	next.LogSink = s.LogSink.WithName(name)
	return &next
}

func (s *reconcileSink) WithValues(values ...any) logr.LogSink {
	next := *s
	next.LogSink = s.LogSink.WithValues(values...)
	for i := 0; i+1 < len(values); i += 2 {
		text, ok := values[i+1].(string)
		switch {
		case !ok:
		case values[i] == "controller":
			next.controller = text
		case values[i] == "namespace":
			next.namespace = text
		case values[i] == "name":
			next.name = text
		}
	}
	return &next
}
