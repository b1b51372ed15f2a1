package controllers

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// BenchmarkEndedRecords reports the memory of a Published record in the cache and the inventory,
// for 1,000 Placements with ten each.
func BenchmarkEndedRecords(b *testing.B) {
	const placements, each = 1000, 10
	var texts [][]byte
	for i := range placements {
		pl := fixture.Placement("namespace", fmt.Sprintf("placement-%05d", i)).Obj()
		pl.UID = types.UID(fmt.Sprintf("b5a1e9e6-8a5e-4c1a-9d3f-%012d", i))
		for revision := range each {
			names := []string{fmt.Sprintf("cluster-%05d", i+revision), fmt.Sprintf("cluster-%05d", i+revision+1)}
			record := changes.NewRecord(pl, 0, int64(revision+1), changes.NewChange(names[:1], names[1:]))
			now := metav1.NewTime(fixture.Now)
			record.UID, record.ResourceVersion = types.UID(fmt.Sprintf("b5a1e9e6-8a5e-4c1a-%04d-%012d", revision, i)), fmt.Sprint(100000+each*i+revision)
			record.Spec.Cause, record.Spec.Profile, record.CreationTimestamp = "ManagedCluster cluster-5: labels", "default", now
			record.Status = berthv1alpha1.PlacementChangeStatus{
				Phase: berthv1alpha1.PhasePublished, StartTime: &now, PermittedTime: &now, LastProgressTime: &now, CompletionTime: &now,
			}
			text, err := json.Marshal(record)
			if err != nil {
				b.Fatal(err)
			}
			texts = append(texts, text)
		}
	}
	for b.Loop() {
		before := heapInUse()
		f := &feed{inventory: inventory.New(inventory.Options{})}
		store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{"namespace": toolscache.MetaNamespaceIndexFunc})
		for _, text := range texts {
			record := &berthv1alpha1.PlacementChange{}
			if err := json.Unmarshal(text, record); err != nil {
				b.Fatal(err)
			}
			kept, err := compact(record)
			if err != nil {
				b.Fatal(err)
			}
			if err := store.Add(kept); err != nil {
				b.Fatal(err)
			}
			f.process(kept)
		}
		b.ReportMetric(float64(heapInUse()-before)/placements/each, "B/record")
		runtime.KeepAlive(store)
		runtime.KeepAlive(f)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
