package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// earlyEnds are the ways in which an attempt ends before it has selected clusters, or published
// them.
var earlyEnds = map[string]func(d *desk){
	"edited, and misconfigured": func(d *desk) {
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.Tolerations = []v1alpha1.Toleration{{Operator: v1alpha1.TolerationOpEqual}}
		})
	},
	"misconfigured": func(d *desk) { d.pin("no") },
	"policy missing": func(d *desk) {
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Annotations = map[string]string{v1alpha1.SelectionPolicyAnnotation: "tiers"}
		})
	},
	"not admitted": func(d *desk) {
		d.queue = &framework.QueueAdmission{Reason: "QueueFull", Message: "the queue is full", Limit: -1}
	},
	"failed": func(d *desk) { d.x.answer = framework.AsStatus(errHubDown) },
	"waits":  func(d *desk) { d.x.answer = awaits },
	"cannot publish": func(d *desk) {
		d.pages.refuse = func(string) error { return errRefused }
		d.approve("2")
	},
	"lost its sets": func(d *desk) { d.pin("no"); d.unbind() },
}

// TestConditionsOfAnEndedChange: the conditions about a change follow it, however attempts end.
func TestConditionsOfAnEndedChange(t *testing.T) {
	const begins = "True/RollingUpdate: 0 of 1 added, 0 of 1 removed"
	const stops = "0 of 1 added, 0 of 1 removed; it does not go on: "
	states := map[string]struct {
		begin func(d *desk)
		// stays is what the conditions say while the change is open, or applies still.
		stays string
		// wants has what differs from that, by end.
		wants map[string]string
	}{
		"held": {func(d *desk) { d.require() }, "True/Held", map[string]string{
			"edited, and misconfigured": "", "cannot publish": begins, "lost its sets": "", "waits": "True/Waiting",
		}},
		"expired": {func(d *desk) { d.require(); d.attemptUntilStable(); d.later(8 * 24 * 3600) }, "False/Expired", map[string]string{
			"edited, and misconfigured": "", "cannot publish": begins, "lost its sets": "", "waits": "False/Expired",
		}},
		"progressing": {func(d *desk) {
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
		}, "False/Suspended: 0 of 1 added, 0 of 1 removed; suspended by DisruptionPolicy careful", map[string]string{
			"edited, and misconfigured": "False/Undecided: " + stops, "misconfigured": "False/Undecided: " + stops, "policy missing": "False/Undecided: " + stops,
			"not admitted": "False/Undecided: " + stops + "the queue is full", "lost its sets": "False/Undecided: 0 of 1 added, 3 of 3 removed; it does not go on: ",
		}},
	}
	for state, from := range states {
		for end, happen := range earlyEnds {
			t.Run(state+", "+end, func(t *testing.T) {
				d := governed(t, 3, nothing)
				d.tier("silver", "a")
				d.tier("gold", "x")
				from.begin(d)
				d.attemptUntilStable()
				if got := d.aboutChange(); !strings.HasPrefix(got, from.stays) {
					t.Fatalf("before: %s", got)
				}
				happen(d)
				for range 3 {
					d.tryAndReport()
				}
				want, differs := from.wants[end]
				if !differs {
					want = from.stays
				}
				if got := d.aboutChange(); !strings.HasPrefix(got, want) || want == "" && got != "" {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		}
	}
}

// aboutChange is the condition DecisionPending, and DecisionProgressing with its message.
func (d *desk) aboutChange() string {
	text := d.pending()
	if c := d.condition(v1alpha1.PlacementConditionDecisionProgressing); c != nil {
		text += fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
	}
	return text
}

// tryAndReport is a pass that may fail; then the status says so, as that of the controller.
func (d *desk) tryAndReport() {
	if a, failure := d.try(); !failure.IsSuccess() {
		report.SetFailed(a, &d.placement.Status.Conditions, d.placement.Generation, failure.Err())
		d.inv.Update(d.placement.DeepCopy())
	}
}

// TestHeldChangeOfAnEarlierSpec: a held change ends when the Placement is edited, also if the edit
// misconfigures it, because no approval publishes it any more.
func TestHeldChangeOfAnEarlierSpec(t *testing.T) {
	d := governed(t, 3, nothing)
	d.require()
	d.tier("silver", "a")
	d.tier("gold", "x")
	d.attemptUntilStable()
	held := d.revision()
	earlyEnds["edited, and misconfigured"](d)
	d.attempt()
	if got := d.phase(held); got != berthv1alpha1.PhaseSuperseded {
		t.Errorf("the phase is %s", got)
	}
	if c := d.condition(v1alpha1.PlacementConditionMisconfigured); c.Status != metav1.ConditionTrue {
		t.Errorf("the condition is %v", c)
	}
}

// TestHeldChangeExpiresUndecided: a held change expires at its time, although nothing can be
// decided meanwhile, and the attempt that ends it is due then.
func TestHeldChangeExpiresUndecided(t *testing.T) {
	for name, undecide := range map[string]func(d *desk){
		"misconfigured": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: "none"} })
		},
		"not admitted": func(d *desk) {
			d.queue = &framework.QueueAdmission{Reason: "NoRuleMatched", Message: "no rule", Limit: -1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "a")
			d.require()
			d.attempt()
			if d.phase("1") != berthv1alpha1.PhaseHeld {
				t.Fatalf("the change is %s", d.phase("1"))
			}
			until := d.newest().Status.Holds[0].Until.Time
			undecide(d)
			if at := d.attempt().State.NextAttempt(); !at.Equal(until) || d.phase("1") != berthv1alpha1.PhaseHeld {
				t.Errorf("the next attempt is at %s, want %s; the change is %s", at, until, d.phase("1"))
			}
			d.now = until
			if a := d.attempt(); a.Reserved || d.phase("1") != berthv1alpha1.PhaseExpired {
				t.Errorf("reserved: %t; the change is %s", a.Reserved, d.phase("1"))
			}
		})
	}
}
