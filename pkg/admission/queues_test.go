package admission_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/test/fixture"
)

// TestFreedQuotaOfThoseWhoRequestAll: quota that becomes free affects a Placement without a number
// of clusters only if the quota may limit it.
func TestFreedQuotaOfThoseWhoRequestAll(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters func() int
		want     []types.NamespacedName
	}{
		"as many clusters as it leaves":       {clusters: func() int { return 7 }},
		"one more":                            {clusters: func() int { return 8 }, want: []types.NamespacedName{{Namespace: "n", Name: "q"}}},
		"the number of clusters is not known": {want: []types.NamespacedName{{Namespace: "n", Name: "q"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var affected []types.NamespacedName
			queues := admission.NewQueues(admission.QueuesOptions{
				Published:  func(types.NamespacedName) (string, int, int) { return "", 0, 0 },
				Recorded:   func(types.NamespacedName) (string, string) { return "", "" },
				OnAffected: func(keys []types.NamespacedName) { affected = append(affected, keys...) },
				Now:        func() time.Time { return fixture.Now },
				Clusters:   tc.clusters,
			})
			text := fixture.Partition("queues: [{name: a, resources: {max: {clusters: 10}}}]\nplacementrules: [{name: fixed, value: root.a}]")
			if _, err := queues.Configure(&corev1.ConfigMap{Data: map[string]string{admission.QueuesKey: text}}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"p", "q"} {
				pl := fixture.Placement("n", name).Obj()
				queues.Update(pl)
				queues.Admission(pl, fixture.Now)
				queues.SetClusters(types.NamespacedName{Namespace: "n", Name: name}, 3)
			}
			affected = nil
			queues.SetClusters(types.NamespacedName{Namespace: "n", Name: "p"}, 2)
			if diff := cmp.Diff(tc.want, affected); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
		})
	}
}
