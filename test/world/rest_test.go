package world

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
	"github.com/berth-dev/berth/test/world/server"
)

// requests counts the requests of a client that are no watches.
type requests struct {
	http.RoundTripper
	mu  sync.Mutex
	all []string
}

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		r.mu.Lock()
		r.all = append(r.all, request.Method+" "+request.URL.Path)
		r.mu.Unlock()
	}
	return r.RoundTripper.RoundTrip(request)
}

func (r *requests) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// TestHourAtRest: the controller publishes, and in the next hour does nothing (law 10).
func TestHourAtRest(t *testing.T) {
	gomega.RegisterTestingT(t)
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New()
		if err != nil {
			t.Fatal(err)
		}
		types := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, corev1.AddToScheme} {
			if err := add(types); err != nil {
				t.Fatal(err)
			}
		}
		people, err := client.New(s.Config(), client.Options{Scheme: types})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, fixture.Set("s1"), fixture.Binding("team", "s1"),
			fixture.Cluster("c1").Set("s1").Obj(), fixture.Cluster("c2").Set("s1").Obj(), fixture.Cluster("c3").Set("s1").Obj(),
			fixture.Placement("team", "p").Number(2).Obj(),
		} {
			if err := people.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		controller := &requests{RoundTripper: s}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runController(ctx, controller) }()

		time.Sleep(time.Minute)
		pages := &v1alpha1.PlacementDecisionList{}
		if err := people.List(t.Context(), pages); err != nil {
			t.Fatal(err)
		}
		var published []string
		for i := range pages.Items {
			for _, d := range pages.Items[i].Status.Decisions {
				published = append(published, d.ClusterName)
			}
		}
		if want := []string{"c1", "c2"}; !slices.Equal(published, want) {
			t.Errorf("published are %v, not %v", published, want)
		}
		attempts := testhub.Metric(testhub.AttemptsMetric)
		controller.take()
		time.Sleep(time.Hour)
		if n := testhub.Metric(testhub.AttemptsMetric) - attempts; n != 0 {
			t.Errorf("%v attempts at rest", n)
		}
		if all := controller.take(); len(all) > 0 {
			t.Errorf("requests at rest:\n%s", strings.Join(all, "\n"))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // What the controller has begun ends.
	})
	t.Logf("a simulated hour took %s", time.Since(began))
}

// runController runs a controller until the context ends.
func runController(ctx context.Context, transport http.RoundTripper) error {
	mgr, err := controllers.NewManager(ctx, &rest.Config{Host: "http://world.invalid", Transport: transport, QPS: -1}, controllers.Options{
		MetricsAddress: "0", HealthAddress: "0", PprofAddress: "0", Housekeeping: []string{"*"}, Log: logr.Discard(),
	})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
