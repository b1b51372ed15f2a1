package recording

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// BenchmarkRecorder records what one published decision adds: the reservation, the page, the
// published decision and the decision.
func BenchmarkRecorder(b *testing.B) {
	r, err := New(Options{Dir: b.TempDir(), Now: time.Now, Log: logr.Discard()})
	if err != nil {
		b.Fatal(err)
	}
	if err := r.writeCheckpoint(&checkpoint{}, time.Now()); err != nil {
		b.Fatal(err)
	}
	digest := framework.DigestOf([]string{"a"})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		n := i % 1000
		key := inventory.Key{Namespace: "load", Name: fmt.Sprintf("placement%04d", n)}
		names := []string{fmt.Sprintf("cluster%04d", n), fmt.Sprintf("cluster%04d", n+1), fmt.Sprintf("cluster%04d", n+2+i%2)}
		page := &v1alpha1.PlacementDecision{}
		page.Namespace, page.Name, page.ResourceVersion, page.UID = key.Namespace, key.Name+"-decision-1", fmt.Sprint(10000+i), types.UID(fmt.Sprintf("%08d-4711-4711-4711-0123456789ab", n))
		page.Labels = map[string]string{v1alpha1.PlacementLabel: key.Name, v1alpha1.DecisionGroupIndexLabel: "0", v1alpha1.DecisionGroupNameLabel: ""}
		page.Annotations = map[string]string{"berth.dev/revision": fmt.Sprint(i)}
		page.CreationTimestamp = metav1.Now()
		page.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.open-cluster-management.io/v1beta1", Kind: "Placement", Name: key.Name, UID: page.UID, Controller: new(true), BlockOwnerDeletion: new(true)}}
		for _, name := range names {
			page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: name})
		}
		before := &framework.Published{Names: names[:2], Digest: digest}
		at := time.Now()
		r.write(&item{at: at, input: &inventory.Input{Kind: inventory.InputReserved, Number: int64(i), Placement: key, Clusters: names[2:]}})
		r.write(&item{at: at, decision: &Decision{
			Namespace: key.Namespace, Name: key.Name, UID: page.UID, Input: int64(i), Now: at, Cause: "ManagedCluster cluster0007: allocatable", Profile: "default",
			Outcome: "Published", Target: digest, Step: digest, Selected: 3, Revision: int64(i), Added: names[2:], Removed: names[:1],
		}})
		r.write(&item{at: at, input: &inventory.Input{Kind: inventory.InputObject, Number: int64(i), Object: page}})
		r.write(&item{at: at, input: &inventory.Input{Kind: inventory.InputPublished, Number: int64(i), Placement: key, Before: before, Published: &framework.Published{
			Names: names, Digest: digest, Pages: map[string]uint64{page.Name: 0xdeadbeef12345678}, Generation: 1, Profile: "default", Revision: int64(i),
		}}})
	}
}
