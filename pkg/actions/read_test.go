package actions

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/test/fixture"
)

func TestPublishedPages(t *testing.T) {
	for name, tc := range fixture.PageCases("n", "p", "c1") {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := kinds.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			pl := fixture.Placement("n", "p").Obj()
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pl, tc.Page).Build()
			users, err := UsersOf(t.Context(), hub, "c1")
			if got := len(users) > 0; got != tc.Published || err != nil {
				t.Errorf("users %v, error %v", users, err)
			}
			clusters, err := publishedClusters(t.Context(), hub, pl)
			if got := len(clusters) > 0; got != tc.Published || err != nil {
				t.Errorf("published clusters %v, error %v", clusters, err)
			}
			_, err = Prepare(t.Context(), hub, Request{Verb: Evict, Placement: client.ObjectKeyFromObject(pl), Cluster: "c1"})
			if got := err == nil; got != tc.Published {
				t.Errorf("evict: %v", err)
			}
		})
	}
}
