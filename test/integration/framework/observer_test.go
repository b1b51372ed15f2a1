package framework

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// observer is a consumer: it reads a Placement's pages by label over and over, and watches them in
// between.
type observer struct {
	placement *v1alpha1.Placement
	first     []string
	cancel    context.CancelFunc
	readers   sync.WaitGroup

	mu         sync.Mutex
	violations []string
}

// observe begins with the pages as they are.
func observe(ctx context.Context, pl *v1alpha1.Placement) *observer {
	GinkgoHelper()
	o := &observer{placement: pl}
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel = cancel
	list, err := readPages(ctx, pl)
	Expect(err).NotTo(HaveOccurred())
	o.first = versions(list)
	watch, err := hub.Watch(reading, &v1alpha1.PlacementDecisionList{}, client.InNamespace(pl.Namespace),
		client.MatchingLabels{v1alpha1.PlacementLabel: pl.Name}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	Expect(err).NotTo(HaveOccurred())
	o.readers.Go(func() {
		for event := range watch.ResultChan() {
			if reading.Err() == nil {
				o.broken("%s %v", event.Type, event.Object)
			}
		}
	})
	o.readers.Go(func() {
		for tick := time.Tick(20 * time.Millisecond); reading.Err() == nil; <-tick {
			o.poll(reading)
		}
	})
	DeferCleanup(func() {
		cancel()
		watch.Stop()
		o.readers.Wait()
	})
	return o
}

func (o *observer) poll(ctx context.Context) {
	list, err := readPages(ctx, o.placement)
	if err != nil {
		if ctx.Err() == nil {
			o.broken("reading: %s", err)
		}
		return
	}
	if now := versions(list); !slices.Equal(now, o.first) {
		o.broken("%v became %v", o.first, now)
	}
}

func (o *observer) broken(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violations = append(o.violations, fmt.Sprintf(format, args...))
}

// sawNoChange ends the observation.
func (o *observer) sawNoChange(ctx context.Context) {
	GinkgoHelper()
	o.poll(ctx)
	o.cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	Expect(o.violations).To(BeEmpty())
}

func readPages(ctx context.Context, pl *v1alpha1.Placement) (*v1alpha1.PlacementDecisionList, error) {
	list := &v1alpha1.PlacementDecisionList{}
	return list, hub.List(ctx, list, client.InNamespace(pl.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: pl.Name})
}

// versions identify a state of the pages.
func versions(list *v1alpha1.PlacementDecisionList) []string {
	var names []string
	for _, page := range list.Items {
		names = append(names, page.Name+" "+page.ResourceVersion)
	}
	slices.Sort(names)
	return names
}
