package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestDecisionPublisherArgs(t *testing.T) {
	tests := map[string]struct {
		args    string
		want    *decisions.Profiles
		wantErr string
	}{
		"none":        {},
		"not enabled": {args: `{"clusterProfiles":{"namespace":"fleet"}}`},
		"enabled":     {args: `{"clusterProfiles":{"enabled":true}}`, want: &decisions.Profiles{SchedulerName: "berth"}},
		"all":         {args: `{"clusterProfiles":{"enabled":true,"namespace":"fleet","schedulerName":"x"}}`, want: &decisions.Profiles{Namespace: "fleet", SchedulerName: "x"}},
		"qualified":   {args: `{"clusterProfiles":{"enabled":true,"names":"qualified"}}`, want: &decisions.Profiles{Qualified: true, SchedulerName: "berth"}},
		"other names": {args: `{"clusterProfiles":{"names":"long"}}`, wantErr: `clusterProfiles.names: "long" is not plain or qualified`},
		"two namespaces": {
			args: `{"clusterProfiles":{"names":"qualified","namespace":"fleet"}}`, wantErr: "clusterProfiles.namespace: must not be set with qualified names, which contain it",
		},
		"unknown field":     {args: `{"clusterProfiles":{"on":true}}`, wantErr: `decoding arguments: unknown field "clusterProfiles.on"; possible arguments: clusterProfiles`},
		"empty name":        {args: `{"clusterProfiles":{"schedulerName":" "}}`, wantErr: "clusterProfiles.schedulerName: must not be empty"},
		"invalid namespace": {args: `{"clusterProfiles":{"namespace":"a.b"}}`, wantErr: "clusterProfiles.namespace: must not contain dots"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			handle := &framework.Handle{Client: fake.NewFakeClient()}
			plugin, err := NewDecisionPublisher(context.Background(), json.RawMessage(tc.args), handle)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("got %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := plugin.(*DecisionPublisher).profiles
			if (got == nil) != (tc.want == nil) || got != nil && got.Profiles != *tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// A write that fails is named, and the next attempt goes on from what the failed one left.
func TestProfilePagesFailures(t *testing.T) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(profileKind(""), &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(profileKind("List"), &unstructured.UnstructuredList{})
	kind := schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "placementdecisions"}
	var failure error
	hub := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetName() == "p-decision-2" && failure != nil {
				return failure
			}
			return c.Create(ctx, o, opts...)
		},
	})
	pages := &profilePages{decisions.Profiles{SchedulerName: "berth"}, hub, new(sync.Map)}
	pl := fixture.Placement("ns", "p").Obj()
	pl.UID = "uid-p"
	plan := decisions.Plan{Pages: []decisions.Page{
		{Name: "p-decision-1", Decisions: fixture.Page("ns", "x").Lists("a").Obj().Status.Decisions},
		{Name: "p-decision-2", GroupName: "late", GroupIndex: 1, Decisions: fixture.Page("ns", "x").Lists("b").Obj().Status.Decisions},
	}}
	failure = apierrors.NewConflict(kind, "p-decision-2", errors.New("changed"))
	err := pages.publish(context.Background(), pl, plan)
	if want := `Create of PlacementDecision ns/p-decision-2 of ClusterProfiles: Operation cannot be fulfilled on placementdecisions.multicluster.x-k8s.io "p-decision-2": changed`; err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	if !apierrors.IsConflict(err) {
		t.Error("the kind of the failure is lost")
	}
	failure = nil
	for range 2 { // the second time there is nothing to do
		if err := pages.publish(context.Background(), pl, plan); err != nil {
			t.Fatal(err)
		}
	}
	got, err := pages.list(context.Background(), pl)
	if err != nil || len(got) != 2 || got[0].ResourceVersion != "1" || got[1].ResourceVersion != "1" {
		t.Errorf("got %v, %v", got, err)
	}
}
