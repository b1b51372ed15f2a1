package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// page returns a page of the Placement web; nil names are a page without content.
func page(name, group, index string, names []string) *v1alpha1.PlacementDecision {
	p := &v1alpha1.PlacementDecision{}
	p.Name, p.Namespace, p.ResourceVersion = name, "shop", "1"
	p.Labels = map[string]string{v1alpha1.PlacementLabel: "web", v1alpha1.DecisionGroupNameLabel: group, v1alpha1.DecisionGroupIndexLabel: index}
	p.Annotations = map[string]string{berthv1alpha1.RevisionAnnotation: "7"}
	if names != nil {
		p.Status.Decisions = []v1alpha1.ClusterDecision{}
	}
	for _, name := range names {
		p.Status.Decisions = append(p.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: name})
	}
	return p
}

func TestClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		pages   []*v1alpha1.PlacementDecision
		want    []Cluster
		wantErr error
	}{
		"no page":                {wantErr: ErrNoDecision},
		"an empty decision":      {pages: []*v1alpha1.PlacementDecision{page("web-decision-1", "", "0", []string{})}, want: []Cluster{}},
		"a page without content": {pages: []*v1alpha1.PlacementDecision{page("web-decision-1", "", "0", []string{"a"}), page("web-decision-2", "", "0", nil)}, wantErr: ErrNoDecision},
		"groups, numbers of pages, and a cluster that moves": {
			pages: []*v1alpha1.PlacementDecision{
				page("web-decision-10", "", "1", []string{"e"}), page("web-decision-9", "", "1", []string{"b", "d"}), page("web-decision-11", "canary", "0", []string{"a", "b"}),
			},
			want: []Cluster{
				{Name: "a", Group: "canary", Revision: 7}, {Name: "b", Group: "canary", Revision: 7}, {Name: "d", GroupIndex: 1, Revision: 7}, {Name: "e", GroupIndex: 1, Revision: 7},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Clusters(tc.pages)
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v; clusters (-want +got):\n%s", err, tc.wantErr, diff)
			}
		})
	}
}

// hubStub serves lists, and watches that a test ends.
type hubStub struct {
	client.WithWatch

	mu      sync.Mutex
	pages   []*v1alpha1.PlacementDecision
	exists  bool
	err     error
	watches []*watch.FakeWatcher
}

func (h *hubStub) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	list.SetResourceVersion("1")
	switch list := list.(type) {
	case *v1alpha1.PlacementDecisionList:
		for _, p := range h.pages {
			list.Items = append(list.Items, *p.DeepCopy())
		}
	case *metav1.PartialObjectMetadataList:
		if h.exists {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "shop/web", ResourceVersion: "1"}})
		}
	}
	return h.err
}

func (h *hubStub) Watch(_ context.Context, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	if o.Raw.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("the stub lists first")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w := watch.NewFakeWithChanSize(10, false)
	h.watches = append(h.watches, w)
	return w, nil
}

// set changes what is listed, and makes all views list again.
func (h *hubStub) set(exists bool, pages ...*v1alpha1.PlacementDecision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.exists, h.pages, h.err = exists, pages, nil
	for _, w := range h.watches {
		w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
		w.Stop()
	}
	h.watches = nil
}

// await waits for the next call of OnChange.
func await(t *testing.T, calls <-chan string, want string) {
	t.Helper()
	select {
	case got := <-calls:
		if got != want {
			t.Fatalf("the change is %q, want %q", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no change, want %q", want)
	}
}

// TestFollower: each list replaces the one before at once, errors change nothing, and nothing is
// reported that was reported before.
func TestFollower(t *testing.T) {
	// The default handlers compare the time of the test with the real one.
	handlers := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = handlers }()
	utilruntime.ErrorHandlers = nil
	synctest.Test(t, follow)
}

func follow(t *testing.T) {
	hub := &hubStub{err: apierrors.NewForbidden(v1alpha1.GroupVersionV1Beta1.WithResource("placements").GroupResource(), "", nil)}
	f := NewFollower(hub, "shop", "web")
	calls := make(chan string, 10)
	f.OnChange(func(added, removed []Cluster) {
		var text []string
		for _, c := range added {
			text = append(text, "+"+c.Name)
		}
		for _, c := range removed {
			text = append(text, "-"+c.Name)
		}
		calls <- strings.Join(text, " ")
	})
	if _, err := f.Clusters(); !errors.Is(err, ErrUnknown) {
		t.Errorf("before Run the error is %v", err)
	}
	go f.Run(t.Context())
	forbidden := func() bool { _, err := f.Clusters(); return apierrors.IsForbidden(err) && errors.Is(err, ErrUnknown) }
	until(t, forbidden, "the missing permission is not in the error")

	hub.set(false)
	until(t, func() bool { _, err := f.Clusters(); return errors.Is(err, ErrNoPlacement) }, "a missing Placement is not reported")
	hub.set(true)
	until(t, func() bool { _, err := f.Clusters(); return errors.Is(err, ErrNoDecision) }, "a missing decision is not reported")
	hub.set(true, page("web-decision-1", "", "0", []string{}))
	await(t, calls, "")
	hub.set(true, page("web-decision-1", "", "0", []string{"a", "b"}))
	await(t, calls, "+a +b")
	// b moves to a new page, whose events come after those of the first page in a list.
	hub.set(true, page("web-decision-1", "", "0", []string{"a"}), page("web-decision-2", "", "1", []string{"b", "c"}))
	await(t, calls, "+c")
	// The page that b is on first goes; later all pages, and only with the Placement the clusters.
	hub.set(true, page("web-decision-2", "", "0", []string{"b", "c"}))
	await(t, calls, "-a")
	hub.set(true)
	until(t, func() bool { _, err := f.Clusters(); return errors.Is(err, ErrNoDecision) }, "the missing pages are not seen")
	hub.set(true, page("web-decision-1", "", "0", []string{"b", "c", "d"}))
	await(t, calls, "+d")
	hub.set(false)
	await(t, calls, "-b -c -d")
	hub.set(true, page("web-decision-1", "", "0", []string{"b"}))
	await(t, calls, "+b")
}

func TestFollowerReadsPublishedPages(t *testing.T) {
	for name, tc := range fixture.PageCases("shop", "web", "paris") {
		t.Run(name, func(t *testing.T) {
			hub := &hubStub{exists: true, pages: []*v1alpha1.PlacementDecision{tc.Page}}
			f := NewFollower(hub, "shop", "web")
			go f.Run(t.Context())
			until(t, func() bool { _, err := f.Clusters(); return !errors.Is(err, ErrUnknown) }, "nothing is known")
			if clusters, err := f.Clusters(); (len(clusters) > 0) != tc.Published || errors.Is(err, ErrNoDecision) == tc.Published {
				t.Errorf("clusters %v, error %v", clusters, err)
			}
		})
	}
}

// until polls a condition that another goroutine makes true.
func until(t *testing.T, done func() bool, problem string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatal(problem)
		}
		<-time.After(5 * time.Millisecond)
	}
}
