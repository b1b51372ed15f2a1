package placement

import (
	"context"
	"io/fs"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// key names a Placement.
type key = client.ObjectKey

func named(k key) *v1alpha1.Placement { return fixture.Placement(k.Namespace, k.Name).Obj() }

// applyFile applies a sample and removes it after the spec, or the container whose BeforeAll calls
// it.
func applyFile(ctx context.Context, fsys fs.FS, name string) {
	GinkgoHelper()
	data, err := fs.ReadFile(fsys, name)
	Expect(err).NotTo(HaveOccurred())
	for _, object := range testhub.Parse(string(data)) {
		hub.ApplyObject(ctx, object)
		testhub.DeleteAfterwards(hub, object)
	}
}

func placementAt(ctx context.Context, k key) *v1alpha1.Placement {
	GinkgoHelper()
	return testhub.Must(testhub.Get(ctx, hub, named(k)))
}

// pagesOf are the published pages, by name.
func pagesOf(ctx context.Context, k key) []v1alpha1.PlacementDecision {
	GinkgoHelper()
	return testhub.Must(testhub.Pages(ctx, hub, named(k)))
}

// published is a check for Eventually: the clusters on all pages, page by page, each without the
// prefix.
func published(ctx context.Context, k key, prefix string) func() []string {
	return func() []string {
		names := testhub.ClustersOn(pagesOf(ctx, k)...)
		for i := range names {
			names[i] = strings.TrimPrefix(names[i], prefix)
		}
		return names
	}
}

// condition is a check for Eventually: "status reason: message", once it describes the Placement as
// it is.
func condition(ctx context.Context, k key, kind string) func() (string, error) {
	return func() (string, error) { return testhub.Condition(ctx, hub, named(k), kind) }
}

const (
	wellConfigured = "False Succeedconfigured: Placement configurations check pass"
	allScheduled   = "True AllDecisionsScheduled: All cluster decisions scheduled"
)

func satisfied(ctx context.Context, k key) func() (string, error) {
	return condition(ctx, k, v1alpha1.PlacementConditionSatisfied)
}

func misconfigured(ctx context.Context, k key) func() (string, error) {
	return condition(ctx, k, v1alpha1.PlacementConditionMisconfigured)
}

// event is what a user sees of an event.
type event struct{ Type, Reason, Action, From, Related, Note string }

// eventsOf is a check for Eventually: the events regarding this very Placement, oldest first.
func eventsOf(ctx context.Context, pl *v1alpha1.Placement) func() []event {
	return func() []event {
		all := testhub.Must(testhub.Events(ctx, hub, pl.Namespace))
		var events []event
		for _, e := range all {
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
