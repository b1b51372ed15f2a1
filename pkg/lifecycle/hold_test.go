package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// scribe is a framework.PageClient that notes each write, and fails the one it is told to.
type scribe struct {
	framework.PageClient
	writes []string
	fail   string
}

func (s *scribe) note(verb string, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	write := fmt.Sprintf("%s %s %d", verb, page.Name, len(page.Status.Decisions))
	if page.UID != "" || page.ResourceVersion != "" {
		write += fmt.Sprintf(" of %s at %s", page.UID, page.ResourceVersion)
	}
	if s.fail == verb+" "+page.Name {
		return nil, errors.New("hub is down")
	}
	s.writes = append(s.writes, write)
	written := page.DeepCopy()
	written.ResourceVersion += "+"
	return written, nil
}

func (s *scribe) Create(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return s.note("create", page)
}

func (s *scribe) Update(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return s.note("update", page)
}

func (s *scribe) Delete(_ context.Context, page *v1alpha1.PlacementDecision) error {
	_, err := s.note("delete", page)
	return err
}

// heldUntil is a hold of so many clusters that lasts until some seconds after the epoch.
func heldUntil(second int64, clusters int) *framework.Hold {
	h := &framework.Hold{Deadlines: map[string]time.Time{ApprovalName: time.Unix(second, 0).UTC()}}
	for i := range clusters {
		h.Clusters = append(h.Clusters, fmt.Sprintf("c%03d", i))
	}
	h.Token = framework.TokenFor(framework.DigestOf(h.Clusters), time.Unix(0, 0))
	return h
}

func TestPublisherHold(t *testing.T) {
	tests := map[string]struct {
		// stored is the hold whose pages are there, hold the one that is to be.
		stored, hold *framework.Hold
		published    []string
		taken        []string
		fail         string
		want         []string
		// wantAssumed is what the inventory is told.
		wantAssumed []string
		wantErr     string
	}{
		"nothing, and nothing before": {},
		"it begins":                   {hold: heldUntil(1, 150), want: []string{"create p-held-1 100", "create p-held-2 50"}, wantAssumed: []string{"p-held-1", "p-held-2"}},
		"of no cluster":               {hold: heldUntil(1, 0), want: []string{"create p-held-1 0"}, wantAssumed: []string{"p-held-1"}},
		"it goes on":                  {stored: heldUntil(1, 150), hold: heldUntil(1, 150)},
		"another deadline": {stored: heldUntil(1, 150), hold: heldUntil(2, 150),
			want: []string{"update p-held-1 100 of 1 at 7", "update p-held-2 50 of 2 at 7"}, wantAssumed: []string{"p-held-1", "p-held-2"}},
		"fewer clusters": {stored: heldUntil(1, 150), hold: heldUntil(1, 20),
			want: []string{"update p-held-1 20 of 1 at 7", "delete p-held-2 50 of 2 at 7"}, wantAssumed: []string{"p-held-1", "p-held-2 deleted"}},
		"more clusters": {stored: heldUntil(1, 20), hold: heldUntil(1, 120),
			want: []string{"update p-held-1 100 of 1 at 7", "create p-held-2 20"}, wantAssumed: []string{"p-held-1", "p-held-2"}},
		"it ends": {stored: heldUntil(1, 150),
			want: []string{"delete p-held-1 100 of 1 at 7", "delete p-held-2 50 of 2 at 7"}, wantAssumed: []string{"p-held-1 deleted", "p-held-2 deleted"}},
		"names that others have": {hold: heldUntil(1, 150), published: []string{"p-held-1"}, taken: []string{"p-held-3"},
			want: []string{"create p-held-2 100", "create p-held-4 50"}, wantAssumed: []string{"p-held-2", "p-held-4"}},
		"a write fails": {stored: heldUntil(1, 20), hold: heldUntil(1, 120), fail: "create p-held-2", want: []string{"update p-held-1 100 of 1 at 7"}, wantAssumed: []string{"p-held-1"},
			wantErr: "holding a change in PlacementDecision ns/p-held-2: hub is down"},
		"a deletion fails": {stored: heldUntil(1, 150), fail: "delete p-held-2", want: []string{"delete p-held-1 100 of 1 at 7"}, wantAssumed: []string{"p-held-1 deleted"},
			wantErr: "deleting the held PlacementDecision ns/p-held-2: hub is down"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
			subject := &framework.Subject{Placement: pl, Taken: func(name string) bool { return slices.Contains(tc.taken, name) }}
			if tc.stored != nil {
				pages, err := tc.stored.Pages(pl, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, page := range pages {
					page.UID, page.ResourceVersion = types.UID(fmt.Sprint(i+1)), "7"
				}
				subject.HeldPages = pages
			}
			for _, name := range tc.published {
				subject.Pages = append(subject.Pages, &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
			}
			var assumed []string
			hub := &scribe{fail: tc.fail}
			plugin, err := NewDecisionPublisher(context.Background(), nil, &framework.Handle{Pages: hub, Assume: func(page *v1alpha1.PlacementDecision, deleted bool) {
				if deleted {
					assumed = append(assumed, page.Name+" deleted")
				} else {
					assumed = append(assumed, page.Name)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			status := plugin.(framework.Holder).Hold(context.Background(), framework.NewCycleState(&framework.Snapshot{Subject: subject}), pl, tc.hold)
			if (status.Err() == nil) != (tc.wantErr == "") || tc.wantErr != "" && status.Err().Error() != tc.wantErr {
				t.Errorf("got %v, want %q", status.Err(), tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, hub.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAssumed, assumed); diff != "" {
				t.Errorf("assumed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPublisherHoldsNothingWithoutAHub(t *testing.T) {
	for name, handle := range map[string]*framework.Handle{"no handle": nil, "no client": {}} {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewDecisionPublisher(context.Background(), nil, handle)
			if err != nil {
				t.Fatal(err)
			}
			if status := plugin.(framework.Holder).Hold(context.Background(), nil, nil, heldUntil(1, 1)); status.Code() != framework.Error {
				t.Errorf("got %v", status.Err())
			}
		})
	}
}
