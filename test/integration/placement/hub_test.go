package placement

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

// key names a Placement.
type key = client.ObjectKey

// applyFile applies a sample and removes it after the spec, or the container whose BeforeAll calls
// it.
func applyFile(ctx context.Context, fsys fs.FS, name string) {
	GinkgoHelper()
	data, err := fs.ReadFile(fsys, name)
	Expect(err).NotTo(HaveOccurred())
	for _, object := range testhub.Parse(string(data)) {
		hub.ApplyObject(ctx, object)
		deleteAfterwards(object)
	}
}

func deleteAfterwards(object client.Object) {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(hub.Delete(ctx, object))).To(Succeed())
	})
}

// gone is a check for Eventually: whether the hub no longer has the object.
func gone(ctx context.Context, object client.Object) func() bool {
	return func() bool {
		err := hub.Get(ctx, client.ObjectKeyFromObject(object), object)
		return err != nil && client.IgnoreNotFound(err) == nil
	}
}

// edit changes an object as it is on the hub, like kubectl edit.
func edit[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := hub.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return hub.Update(ctx, object)
	}).Should(Succeed())
}

// editStatus is edit with --subresource=status.
func editStatus[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := hub.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return hub.Status().Update(ctx, object)
	}).Should(Succeed())
}

func placementAt(ctx context.Context, k key) *v1alpha1.Placement {
	GinkgoHelper()
	pl := &v1alpha1.Placement{}
	Expect(hub.Get(ctx, k, pl)).To(Succeed())
	return pl
}

// pagesOf are the published pages, by name.
func pagesOf(ctx context.Context, k key) []v1alpha1.PlacementDecision {
	GinkgoHelper()
	list := &v1alpha1.PlacementDecisionList{}
	Expect(hub.List(ctx, list, client.InNamespace(k.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: k.Name})).To(Succeed())
	slices.SortFunc(list.Items, func(a, b v1alpha1.PlacementDecision) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func clustersOf(page *v1alpha1.PlacementDecision) []string {
	names := make([]string, 0, len(page.Status.Decisions))
	for _, d := range page.Status.Decisions {
		names = append(names, d.ClusterName)
	}
	return names
}

// published is a check for Eventually: the clusters on all pages, page by page, each without the
// prefix.
func published(ctx context.Context, k key, prefix string) func() []string {
	return func() []string {
		names := []string{}
		for _, page := range pagesOf(ctx, k) {
			for _, name := range clustersOf(&page) {
				names = append(names, strings.TrimPrefix(name, prefix))
			}
		}
		return names
	}
}

// condition is a check for Eventually: "status reason: message", once it describes the Placement as
// it is.
func condition(ctx context.Context, k key, kind string) func() string {
	return func() string {
		pl := placementAt(ctx, k)
		for _, c := range pl.Status.Conditions {
			if c.Type == kind && c.ObservedGeneration == pl.Generation {
				return string(c.Status) + " " + c.Reason + ": " + c.Message
			}
		}
		return "not reported yet"
	}
}

const (
	wellConfigured = "False Succeedconfigured: Placement configurations check pass"
	allScheduled   = "True AllDecisionsScheduled: All cluster decisions scheduled"
)

func satisfied(ctx context.Context, k key) func() string {
	return condition(ctx, k, v1alpha1.PlacementConditionSatisfied)
}

func misconfigured(ctx context.Context, k key) func() string {
	return condition(ctx, k, v1alpha1.PlacementConditionMisconfigured)
}

// event is what a user sees of an event.
type event struct{ Type, Reason, Action, From, Related, Note string }

// eventsOf is a check for Eventually: the events regarding this very Placement, oldest first.
func eventsOf(ctx context.Context, pl *v1alpha1.Placement) func() []event {
	return func() []event {
		list := &eventsv1.EventList{}
		Expect(hub.List(ctx, list, client.InNamespace(pl.Namespace))).To(Succeed())
		slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		var events []event
		for _, e := range list.Items {
			if e.Regarding.Kind != "Placement" || e.Regarding.UID != pl.UID {
				continue
			}
			seen := event{Type: e.Type, Reason: e.Reason, Action: e.Action, From: e.ReportingController, Note: e.Note}
			if e.Related != nil {
				seen.Related = e.Related.Kind + " " + e.Related.Name
			}
			events = append(events, seen)
		}
		return events
	}
}

// versions are the resourceVersions of Placements and their pages: equal ones mean that nothing was
// written.
func versions(ctx context.Context, namespace string, placements ...string) map[string]string {
	GinkgoHelper()
	at := map[string]string{}
	for _, name := range placements {
		k := key{Namespace: namespace, Name: name}
		at["Placement "+name] = placementAt(ctx, k).ResourceVersion
		for _, page := range pagesOf(ctx, k) {
			at["page "+page.Name] = page.ResourceVersion
		}
	}
	return at
}

// pageWrites is how many pages the controllers of this process have written so far.
func pageWrites() int { return int(testhub.Metric("berth_decision_writes_total")) }
