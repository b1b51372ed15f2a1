package scheduler_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// TestEachUpdateHasOneEvent: one write of a step fails, and its page cannot be read at first. At
// the end each page has one event about its update, and none is about a page as it was before,
// whether other writes of the step already published all clusters or not. If only the response is
// lost, in the middle of a step, the page may have none.
func TestEachUpdateHasOneEvent(t *testing.T) {
	total := eventsAfterFailure(t, 0, false)
	if total < 3 {
		t.Fatalf("the step has %d writes, which is too few", total)
	}
	for failed := 1; failed <= total; failed++ {
		eventsAfterFailure(t, failed, false)
		eventsAfterFailure(t, failed, true)
	}
}

// eventsAfterFailure publishes a change of groups and clusters. The write with this number fails,
// or only its response is lost. It returns the number of writes.
func eventsAfterFailure(t *testing.T, failed int, performed bool) int {
	t.Helper()
	names := make([]string, 150)
	for i := range names {
		names[i] = fmt.Sprintf("c%03d", i)
	}
	d := newDesk(t, ask(), names...)
	d.attemptUntilStable()
	before, number := d.pages.version, 0
	d.pages.refuse = func(string) error {
		if number++; number != failed {
			return nil
		}
		d.pages.lost = true
		if performed {
			return nil
		}
		return errors.New("refused")
	}
	d.add("new")
	d.edit(func(pl *v1alpha1.Placement) {
		pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(25)
	})
	sent := map[string]int{}
	for range 8 {
		a, _ := d.try()
		events := report.Writes(a)
		if a.Earlier != nil {
			events = append(events, report.FoundWrites(a.Earlier)...)
		}
		for _, e := range events {
			if e.Reason != "DecisionUpdate" {
				continue
			}
			sent[e.Related.Name]++
			if version, err := strconv.Atoi(e.Related.ResourceVersion); err != nil || version <= before {
				t.Errorf("write %d fails (performed: %t): an event is about %s as it was before", failed, performed, e.Related.Name)
			}
		}
		d.pages.lost = false
	}
	for page := range d.pages.pages {
		if times := sent[page.Name]; times > 1 || times == 0 && !performed {
			t.Errorf("write %d fails (performed: %t): the update of %s has %d events", failed, performed, page.Name, times)
		}
	}
	return number
}
