package testhub

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/go-logr/logr/funcr"
)

// TestExpectRest: attempts that end are no failure, however many they are; attempts without a pause
// are.
func TestExpectRest(t *testing.T) {
	RegisterFailHandler(func(message string, _ ...int) { t.Error(message) })
	for name, tc := range map[string]struct {
		most float64
		want bool
	}{"none": {0, true}, "ten": {10, true}, "endless": {1e9, false}} {
		ran := 0.0
		failures := InterceptGomegaFailures(func() {
			expectRest(40*time.Millisecond, time.Second, func() (float64, error) {
				ran = min(ran+1, tc.most)
				return ran, nil
			}, func() string { return "ns/p is attempted" })
		})
		if tc.want != (len(failures) == 0) {
			t.Errorf("%s: %q", name, failures)
		}
		if !tc.want {
			NewWithT(t).Expect(failures).To(ConsistOf(ContainSubstring("ns/p is attempted")))
		}
	}
}

// TestAttemptedNames: the log of controller-runtime tells which Placements are reconciled.
func TestAttemptedNames(t *testing.T) {
	var names attemptedNames
	log := names.wrap(funcr.New(func(string, string) { t.Error("logged") }, funcr.Options{}))
	end := make(chan struct{})
	go func() {
		for {
			select {
			case <-end:
				return
			default:
				for _, controller := range []string{"placement", "clusterset"} {
					log.WithValues("controller", controller).WithValues("namespace", "ns", "name", controller).V(reconcileLevel).Info("Reconciling")
				}
			}
		}
	}()
	defer close(end)
	g := NewWithT(t)
	g.Expect(names.collect()).To(MatchRegexp(`^within 1s: ns/placement \d+ times$`))
}
