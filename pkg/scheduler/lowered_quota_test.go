package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestLoweredQuotaAfterAFailedWrite: a Placement keeps its clusters under a lowered quota, and no
// more, whichever writes fail while a cluster is replaced.
func TestLoweredQuotaAfterAFailedWrite(t *testing.T) {
	const lowered = "partitions: [{name: default, queues: [{name: team, resources: {max: {clusters: 1}}}], placementrules: [{name: fixed, value: root.team}]}]"
	for from := range 4 {
		for failures := range 4 {
			t.Run(fmt.Sprintf("after %d writes, %d fail", from, failures), func(t *testing.T) {
				f := newFleetAtRest(t, true, nil, nil)
				label := func(pool, region string, names ...string) {
					for _, name := range names {
						f.store(fixture.Cluster(name).Set("s1").Label("pool", pool).Label("region", region).Obj())
					}
				}
				label("in", "eu", "c2")
				label("in", "us", "c3")
				pl := fixture.Placement("ns", "p").Predicate(fixture.MatchLabel("pool", "in")).Obj()
				for _, region := range []string{"eu", "us"} {
					group := v1alpha1.DecisionGroup{GroupName: region}
					group.ClusterSelector.LabelSelector.MatchLabels = map[string]string{"region": region}
					groups := &pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups
					*groups = append(*groups, group)
				}
				f.store(pl)
				f.run(20)
				if _, err := f.queues.Configure(&corev1.ConfigMap{Data: map[string]string{admission.QueuesKey: lowered}}); err != nil {
					t.Fatal(err)
				}
				f.run(20)
				writes := 0
				f.pages.refuse = func(string) error {
					if writes++; writes > from && writes <= from+failures {
						return errors.New("hub is down")
					}
					return nil
				}
				label("in", "eu", "c0", "c1")
				label("out", "us", "c3")
				for range 10 {
					f.run(20)
					f.clock.Step(time.Minute)
				}
				subject := f.snapshot(inventory.Key{Namespace: "ns", Name: "p"}).Subject
				if listed, _ := framework.Listed(subject.OwnPages()); len(listed) != 2 || slices.Contains(listed, "c3") {
					t.Errorf("published are %s, want c2 and one that came", listed)
				}
			})
		}
	}
}
