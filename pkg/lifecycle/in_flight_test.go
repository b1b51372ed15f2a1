package lifecycle

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func TestInFlight(t *testing.T) {
	var calls []string
	handle := &framework.Handle{
		Reserve: func(p types.NamespacedName, clusters []string) {
			calls = append(calls, "reserve "+p.String()+": "+strings.Join(clusters, " "))
		},
		Unreserve: func(p types.NamespacedName) { calls = append(calls, "unreserve "+p.String()) },
	}
	tests := map[string]struct {
		handle *framework.Handle
		added  []string
		want   []string
	}{
		"what is added is reserved":     {handle: handle, added: []string{"a", "b"}, want: []string{"reserve ns/p: a b", "unreserve ns/p"}},
		"nothing new ends what was":     {handle: handle, want: []string{"reserve ns/p: ", "unreserve ns/p"}},
		"a simulation reserves nothing": {handle: &framework.Handle{}, added: []string{"a"}},
		"nor does one without a handle": {added: []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			calls = nil
			plugin, err := NewInFlight(context.Background(), nil, tc.handle)
			if err != nil {
				t.Fatal(err)
			}
			pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			p := &framework.Proposal{Added: tc.added, Removed: []string{"z"}}
			if status := plugin.(*InFlight).Reserve(context.Background(), nil, pl, p); !status.IsSuccess() {
				t.Errorf("Reserve: %v", status.Err())
			}
			plugin.(*InFlight).Unreserve(context.Background(), nil, pl, p)
			if diff := cmp.Diff(tc.want, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInFlightTakesNoArguments(t *testing.T) {
	if _, err := NewInFlight(context.Background(), json.RawMessage(`{"x": 1}`), nil); err == nil {
		t.Error("an argument was taken")
	}
}
