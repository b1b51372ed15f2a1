package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// leavingOf parses "a- b~ c?": - is a forced removal, ~ a drained cluster, ! an unavailable one and
// + another one that would qualify otherwise, = a drained one that would not, ? one that does not
// qualify, and ^ one that was outranked.
func leavingOf(text string) (names []string, all []framework.Leaving) {
	for i, field := range strings.Fields(text) {
		name := strings.TrimRight(field, "-~=!+?^")
		l := framework.Leaving{Name: name, Forced: strings.HasSuffix(field, "-"), Cluster: framework.NewCluster(fixture.Cluster(name).Obj(), i)}
		switch field[len(field)-1] {
		case '~', '=':
			l.Cluster = framework.NewCluster(fixture.Cluster(name).Taint(v1alpha1.DrainTaint, "", v1alpha1.TaintEffectNoSelect).Obj(), i)
			l.OtherwiseQualifies = strings.HasSuffix(field, "~")
		case '!':
			l.Cluster = framework.NewCluster(fixture.Cluster(name).Taint(v1alpha1.ManagedClusterTaintUnavailable, "", v1alpha1.TaintEffectNoSelect).Obj(), i)
			l.OtherwiseQualifies = true
		case '+':
			l.OtherwiseQualifies = true
		case '^':
			l.Rank = i + 1
		}
		names, all = append(names, name), append(all, l)
	}
	return names, all
}

// TestMovement: which clusters a step adds and removes, and what the next one waits for.
func TestMovement(t *testing.T) {
	now := fixture.Now
	for name, tc := range map[string]struct {
		number  int32
		limit   *int
		policy  func(spec *berthv1alpha1.DisruptionPolicySpec)
		more    int
		listed  string
		evicted string
		// replaceFirst is that of the Subject.
		replaceFirst bool
		target       string
		added        string
		leaving      string
		notReady     map[string]string
		ready        map[string]time.Time
		progress     time.Time
		original     string
		approved     bool
		// want is "added | removed | why".
		want        string
		wantRequeue time.Time
		wantPaused  string
	}{
		"a replacement":               {listed: "a b", target: "b c", added: "c", leaving: "a?", want: "c |  | "},
		"a quota below the number":    {number: 8, limit: new(2), listed: "a b", target: "b c", added: "c", leaving: "a~", want: "c |  | "},
		"then the drained one leaves": {number: 8, limit: new(2), listed: "a b c", target: "b c", leaving: "a~", want: " | a | "},
		"a quota, and nothing to replace it": {
			number: 8, limit: new(2), listed: "a b", target: "b", leaving: "a~",
			want: " |  | no other cluster is selected to replace those to remove: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves",
		},
		"a quota of none":         {number: 8, limit: new(0), listed: "a b", leaving: "a~ b?", want: " | a b | "},
		"then the old one leaves": {listed: "a b c", target: "b c", leaving: "a?", want: " | a | "},
		"one that is not ready": {
			listed: "a b c", target: "b c", leaving: "a?", notReady: map[string]string{"c": "apps: down"},
			want: " |  | waiting for c (apps: down); clusters to remove stay until they are replaced: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0",
		},
		"an unready one that leaves is not waited for": {
			listed: "a b c", target: "b c", leaving: "a?", notReady: map[string]string{"a": "apps: down"}, want: " | a | ",
		},
		"five that are not ready": {
			listed: "a b c d e f", target: "b c d e f", leaving: "a?", notReady: map[string]string{"b": "x", "c": "x", "d": "x", "e": "x", "f": "x"},
			want: " |  | waiting for b, c, d (x) and 2 more; clusters to remove stay until they are replaced: 5 of 5 desired clusters must be published and ready, maxUnavailable is 0",
		},
		"not ready for two reasons": {
			listed: "a b c d", target: "b c d", leaving: "a?", notReady: map[string]string{"b": "x", "c": "y", "d": "x"},
			want: " |  | waiting for b, d (x), c (y); clusters to remove stay until they are replaced: 3 of 3 desired clusters must be published and ready, maxUnavailable is 0",
		},
		"not ready for long enough": {
			policy: minReady,
			listed: "a b c", target: "b c", leaving: "a?", ready: map[string]time.Time{"c": now.Add(-9 * time.Second)},
			want:        " |  | waiting for c (ready since 2026-08-01T11:59:51Z, minReadySeconds is 10); clusters to remove stay until they are replaced: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0",
			wantRequeue: now.Add(time.Second),
		},
		"not ready, although it was": {
			policy: minReady, listed: "a b c", target: "b c", leaving: "a?",
			notReady: map[string]string{"c": "x"}, ready: map[string]time.Time{"c": now.Add(-time.Second)},
			want: " |  | waiting for c (x); clusters to remove stay until they are replaced: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0",
		},
		"ready by another clock, for no minimum": {
			listed: "a b c", target: "b c", leaving: "a?", ready: map[string]time.Time{"c": now.Add(time.Second)}, want: " | a | ",
		},
		"ready for long enough": {
			policy: minReady,
			listed: "a b c", target: "b c", leaving: "a?", ready: map[string]time.Time{"c": now.Add(-10 * time.Second)}, want: " | a | ",
		},
		"one in use that is not ready for long enough is replaced as a ready one is": {
			policy: minReady, number: 1, listed: "a c", original: "a", target: "c", leaving: "a?",
			ready: map[string]time.Time{"a": now.Add(-time.Second)}, notReady: map[string]string{"c": "x"},
			want:        " |  | waiting for c (x); clusters to remove stay until they are replaced: 1 of 1 desired clusters must be published and ready, maxUnavailable is 0",
			wantRequeue: now.Add(9 * time.Second),
		},
		"one that counts as ready after the deadline counts once": {
			policy: func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.MinReadySeconds, spec.OnDeadline, spec.ProgressDeadlineSeconds = 10, berthv1alpha1.DeadlineContinue, 60
			},
			number: 2, listed: "a b", original: "a b", target: "a", leaving: "b?", progress: now.Add(-time.Hour),
			ready:       map[string]time.Time{"a": now.Add(-time.Second), "b": now.Add(-time.Second)},
			want:        " |  | no other cluster is selected to replace those to remove: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves",
			wantRequeue: now.Add(9 * time.Second),
		},
		"before the deadline": {
			policy: func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.OnDeadline, spec.ProgressDeadlineSeconds = berthv1alpha1.DeadlineContinue, 60
			},
			listed: "a b c", target: "b c", leaving: "a?", notReady: map[string]string{"c": "x"}, progress: now.Add(-59 * time.Second),
			want: " |  | waiting for c (x); clusters to remove stay until they are replaced: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0",
		},
		"at the deadline": {
			policy: func(spec *berthv1alpha1.DisruptionPolicySpec) {
				spec.OnDeadline, spec.ProgressDeadlineSeconds = berthv1alpha1.DeadlineContinue, 60
			},
			listed: "a b c", target: "b c", leaving: "a?", notReady: map[string]string{"c": "x"}, progress: now.Add(-time.Minute), want: " | a | ",
		},
		"a drained cluster is desired": {
			listed: "a b", target: "b", leaving: "a~",
			want: " |  | without numberOfClusters, no cluster replaces those to remove: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves",
		},
		"an evicted cluster is desired": {
			evicted: "a", listed: "a b", target: "b", leaving: "a+",
			want: " |  | without numberOfClusters, no cluster replaces those to remove: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves",
		},
		"one that does not respond is replaced first": {
			replaceFirst: true, listed: "a b", target: "b", leaving: "a!",
			want: " |  | without numberOfClusters, no cluster replaces those to remove: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0; with 1 the next one leaves",
		},
		"one that does not respond leaves at once":                 {listed: "a b", target: "b", leaving: "a!", want: " | a | "},
		"with a number it is not":                                  {number: 1, listed: "a b", target: "b", leaving: "a~", want: " | a | "},
		"one that was drained and does not qualify is not desired": {listed: "a b", target: "b", leaving: "a=", want: " | a | "},
		"one that no longer matches":                               {listed: "a b", target: "b", leaving: "a?", want: " | a | "},
		"a forced removal":                                         {number: 2, listed: "a b", target: "b", leaving: "a-", want: " | a | "},
		"one may leave": {
			policy: atLeast("50%"), listed: "a b c", leaving: "a? b? c?", original: "a b c", want: " | a | ",
		},
		"no more may leave": {
			policy: atLeast("50%"), listed: "b c", leaving: "b? c?", original: "a b c", wantPaused: v1alpha1.ReasonMinAvailable,
			want: " |  | minAvailable of DisruptionPolicy careful: 2 of the 3 clusters that were published when the change began must stay published",
		},
		"it is approved": {policy: atLeast("50%"), listed: "b c", leaving: "b? c?", original: "a b c", approved: true, want: " | b c | "},
		"those published when it began are unknown": {
			policy: atLeast("1"), listed: "b c", leaving: "b? c?", wantPaused: v1alpha1.ReasonMinAvailable,
			want: " |  | minAvailable of DisruptionPolicy careful: 2 of the 2 clusters that were published when the change began must stay published",
		},
		"a limit of 0 keeps none": {policy: atLeast("0%"), listed: "b c", leaving: "b? c?", want: " | b c | "},
		"not ready, and limited": {
			policy: atLeast("2"), number: 2, listed: "a b c", target: "c", leaving: "a? b?", original: "a b", notReady: map[string]string{"c": "apps: down"},
			want: " |  | waiting for c (apps: down); clusters to remove stay until they are replaced: 2 of 2 desired clusters must be published and ready, maxUnavailable is 0",
		},
		"suspended":                      {policy: suspend, listed: "a b c", target: "c d", added: "d", leaving: "a? b^", want: " |  | suspended by DisruptionPolicy careful"},
		"suspended, and forced removals": {policy: suspend, listed: "a b c", target: "c d", added: "d", leaving: "a- b?", want: " | a | suspended by DisruptionPolicy careful"},
		"one may be missing": {
			number: 2, policy: func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) },
			listed: "a b", target: "c d", added: "c d", leaving: "a? b?", want: "c | a | ",
		},
		"one is missing already": {
			number: 3, policy: func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromInt32(1)) },
			listed: "a b", target: "b", leaving: "a?",
			want: " |  | no other cluster is selected to replace those to remove: 2 of 3 desired clusters must be published and ready, maxUnavailable is 1; with 2 the next one leaves",
		},
		"too many policies": {
			more: 2, listed: "a b c", target: "c d", added: "d", leaving: "a- b?", wantPaused: v1alpha1.ReasonSuspended,
			want: " | a | 3 DisruptionPolicies select the Placement, at most 1 may; until fewer do, only forced removals are published",
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "careful"}}
			if tc.policy != nil {
				tc.policy(&policy.Spec)
			}
			state := framework.NewCycleState(&framework.Snapshot{Now: now, Limit: *cmp.Or(tc.limit, new(-1)), NotReady: tc.notReady, Subject: &framework.Subject{
				DisruptionPolicies: []*berthv1alpha1.DisruptionPolicy{policy}, MorePolicies: tc.more, ReplaceFirst: tc.replaceFirst, Last: &framework.Published{Names: strings.Fields(tc.listed)},
			}})
			for cluster := range strings.FieldsSeq(tc.evicted) {
				state.Snapshot().Subject.Evictions = append(state.Snapshot().Subject.Evictions, framework.Eviction{Cluster: cluster})
			}
			p := &framework.Proposal{Approved: tc.approved, Clusters: strings.Fields(tc.target), Added: strings.Fields(tc.added)}
			for i, name := range p.Added {
				p.Selected = append(p.Selected, framework.SelectedCluster{Cluster: framework.NewCluster(fixture.Cluster(name).Obj(), i)})
			}
			var leaving []framework.Leaving
			p.Removed, leaving = leavingOf(tc.leaving)
			change := framework.NewChange(p, func() []framework.Leaving { return leaving })
			change.ReadySince, change.LastProgress = tc.ready, tc.progress
			if tc.original != "" {
				change.Original = strings.Fields(tc.original)
			}
			pl := fixture.Placement("ns", "p")
			if tc.number > 0 {
				pl = pl.Number(tc.number)
			}
			step, status := Movement{}.Transition(t.Context(), state, pl.Obj(), change)
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			if got := fmt.Sprintf("%s | %s | %s", strings.Join(step.Added, " "), strings.Join(step.Removed, " "), step.Why); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if got := state.Requeue(); !got.Equal(tc.wantRequeue) {
				t.Errorf("the next attempt is at %s, want %s", got, tc.wantRequeue)
			}
			wantPaused := tc.wantPaused
			if policy.Spec.Suspend {
				wantPaused = v1alpha1.ReasonSuspended
			}
			if step.Paused != wantPaused || step.Approvable != (wantPaused == v1alpha1.ReasonMinAvailable) {
				t.Errorf("paused: %q, approvable: %t", step.Paused, step.Approvable)
			}
		})
	}
}

func atLeast(available string) func(*berthv1alpha1.DisruptionPolicySpec) {
	return func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinAvailable = new(intstr.Parse(available)) }
}

func minReady(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 10 }

func suspend(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true }

// TestMovementWithoutPolicy: the whole change is published.
func TestMovementWithoutPolicy(t *testing.T) {
	state := framework.NewCycleState(&framework.Snapshot{Subject: &framework.Subject{}})
	step, status := Movement{}.Transition(t.Context(), state, fixture.Placement("ns", "p").Obj(), framework.NewChange(&framework.Proposal{Added: []string{"a"}}, nil))
	if step != nil || !status.IsSuccess() {
		t.Errorf("%v %v", step, status)
	}
}
