package admission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
	"github.com/berth-dev/berth/test/fixture"
)

// submittedBy is a Placement of a user that requests a queue; empty for none.
func submittedBy(name, user, queue string) *v1alpha1.Placement {
	pl := fixture.Placement("team", name).Annotation(identity.UserInfoAnnotation, identity.Identity{User: user, Groups: []string{user}}.String()).Obj()
	pl.Labels = map[string]string{"queue": queue}
	return pl
}

// TestCheckQueuesForAHub counts the Placements that no rule places, and refuses queues that could
// not hold theirs.
func TestCheckQueuesForAHub(t *testing.T) {
	inQueue := fixture.Page("team", "web-decision-1").Of("web").OwnedBy("web").Lists("c1").Obj()
	inQueue.Annotations = map[string]string{v1alpha1.QueueAnnotation: `{"queue":"root.dev","rule":"provided","user":"ann","configured":"root.dev"}`}
	hub := Submitted{
		Placements: []*v1alpha1.Placement{submittedBy("web", "ann", ""), submittedBy("api", "bob", ""), submittedBy("db", "bob", "root.dev")},
		Pages:      []*v1alpha1.PlacementDecision{inQueue},
	}
	hub.Pages[0].OwnerReferences[0].UID = hub.Placements[0].UID
	twice := inQueue.DeepCopy()
	twice.Status.Decisions = append(twice.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: "c2"})
	placed := hub.Placements[0].DeepCopy()
	placed.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PlacementConditionQueueAdmitted, Reason: "Placed", Message: "queue root.default by rule fixed for user ann"}}
	forged := Submitted{Placements: []*v1alpha1.Placement{placed}, Pages: hub.Pages}
	wide := Submitted{Placements: hub.Placements[:1], Pages: []*v1alpha1.PlacementDecision{twice}}
	for name, tc := range map[string]struct {
		body         string
		hub          Submitted
		wantErr      string
		wantWarnings []string
	}{
		"the shortest configuration with a limit": {
			body: "queues: [{name: dev, maxapplications: 3}]", hub: hub,
			wantWarnings: []string{"no rule finds a queue for 1 of the 3 Placements, so they get no cluster; the first is team/api: rule 1 (provided): no queue was requested"},
		},
		"a rule for everyone": {
			body: "queues: [{name: dev}, {name: default}]\nplacementrules: [{name: provided}, {name: fixed, value: root.default}]", hub: hub,
		},
		"access lists": {
			body: "queues: [{name: dev, submitacl: ann}]\nplacementrules: [{name: fixed, value: root.dev}]", hub: hub,
			wantWarnings: []string{"no rule finds a queue for 2 of the 3 Placements, so they get no cluster; the first is team/api: rule 1 (fixed): user bob may not submit to root.dev"},
		},
		"a queue that was removed keeps its Placements": {
			body: "queues: [{name: default}]\nplacementrules: [{name: fixed, value: root.default}]", hub: hub,
		},
		"a parent that has Placements": {
			body: "queues: [{name: dev, queues: [{name: x}]}, {name: default}]\nplacementrules: [{name: fixed, value: root.default}]", hub: hub,
			wantErr: "queue root.dev is a parent in the configuration, and only leaves hold Placements: Placements that would lose their queue: 1",
		},
		"a parent of which only a forged page says that it has Placements": {
			body: "queues: [{name: dev, queues: [{name: x}]}, {name: default}]\nplacementrules: [{name: fixed, value: root.default}]", hub: forged,
		},
		"the tag of a Namespace": {
			body: "queues: [{name: dev}]\nplacementrules: [{name: tag, value: namespace.parentqueue}]",
			hub: Submitted{Placements: hub.Placements[1:2], Namespaces: []metav1.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "team", Annotations: map[string]string{"yunikorn.apache.org/parentqueue": "root.dev"}}}}},
		},
		"a quota that is exceeded": {
			body: "queues: [{name: dev, maxapplications: 1, resources: {max: {clusters: 1}}}]\nplacementrules: [{name: fixed, value: root.dev}]", hub: wide,
			wantWarnings: []string{"queue root.dev uses 2 of 1 clusters: its Placements keep their clusters and get no more"},
		},
		"no Placement": {body: "queues: [{name: dev}]"},
		"invalid":      {body: "queues: [{name: a!}]", hub: hub, wantErr: "invalid queue name"},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := CheckQueuesFor([]byte(fixture.Partition(tc.body)), "", tc.hub)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.wantWarnings, warnings); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnOfUnplaced(t *testing.T) {
	for body, want := range map[string]string{
		"queues: [{name: dev, maxapplications: 3}]":                                                           "no rule finds a queue for a Placement of user nobody that requests none, so it gets no cluster: rule 1 (provided): no queue was requested",
		"queues: []\nplacementrules: [{name: provided}, {name: user, create: true}]":                          "",
		"queues: [{name: a, submitacl: nobody}]\nplacementrules: [{name: provided}, {name: fixed, value: a}]": "",
	} {
		config, _, err := queueconfig.Parse([]byte(fixture.Partition(body)))
		if err != nil {
			t.Fatal(err)
		}
		if got := WarnOfUnplaced(config); got != want {
			t.Errorf("%s: got %q", body, got)
		}
	}
}
