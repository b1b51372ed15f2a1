package controllers

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/pkg/scheduler/config"
)

// TestDiscoverKinds: a hub that lacks one of Berth's own kinds is used without any of them, unless
// the configuration names a plugin that needs them.
func TestDiscoverKinds(t *testing.T) {
	ocm := []string{"AddOnPlacementScore", "ManagedCluster", "ManagedClusterSet", "ManagedClusterSetBinding", "Placement", "PlacementDecision"}
	for name, tc := range map[string]struct {
		serves         map[string][]string
		forbidden      []string
		want           []string
		wantMissing    []string
		wantWholePages bool
		wantError      string
	}{
		"Berth's own CRDs": {
			serves: map[string][]string{
				"cluster.open-cluster-management.io": {"placements", "placements/status", "placementdecisions"},
				"berth.dev":                          {"placementchanges", "placementevictions", "disruptionpolicies", "disruptionpolicies/status", "selectionpolicies", "selectionpolicies/status"},
			},
			want: kinds.Names(), wantWholePages: true,
		},
		"Open Cluster Management's alone": {
			serves:      map[string][]string{"cluster.open-cluster-management.io": {"placements", "placementdecisions", "placementdecisions/status"}},
			want:        ocm,
			wantMissing: []string{"disruptionpolicies", "placementchanges", "placementevictions", "selectionpolicies"},
		},
		"one of Berth's own kinds": {
			serves: map[string][]string{
				"cluster.open-cluster-management.io": {"placementdecisions", "placementdecisions/status"}, "berth.dev": {"placementchanges"},
			},
			want: ocm, wantMissing: []string{"disruptionpolicies", "placementevictions", "selectionpolicies"},
		},
		"some of Berth's own kinds may not be listed": {
			serves:    map[string][]string{"berth.dev": {"placementchanges", "placementexplanations", "selectionpolicies"}},
			forbidden: []string{"placementchanges", "selectionpolicies", "placementexplanations", "placementevictions"},
			wantError: "the hub serves placementchanges, placementexplanations, selectionpolicies of berth.dev/v1alpha1, " +
				"and this user may not list them: bind the ClusterRole berth to it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				parts := strings.Split(r.URL.Path, "/")
				group := parts[2]
				if len(parts) > 4 && slices.Contains(tc.forbidden, parts[4]) {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				plurals, served := tc.serves[group]
				if !served {
					http.NotFound(w, r)
					return
				}
				list := metav1.APIResourceList{GroupVersion: group + "/v1alpha1"}
				for _, plural := range plurals {
					list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural})
				}
				text, err := json.Marshal(list)
				if err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/json")
				if _, err := w.Write(text); err != nil {
					t.Error(err)
				}
			}))
			defer hub.Close()
			served, err := discoverKinds(t.Context(), &rest.Config{Host: hub.URL})
			if errorText(err) != tc.wantError {
				t.Fatalf("got error %v, want %s", err, tc.wantError)
			}
			if err != nil {
				return
			}
			var got []string
			for _, kind := range served.watched() {
				got = append(got, kind.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("watched (-want +got):\n%s", diff)
			}
			slices.Sort(served.missing)
			if diff := cmp.Diff(tc.wantMissing, served.missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if served.wholePages != tc.wantWholePages {
				t.Errorf("pages are written whole: %t", served.wholePages)
			}
			needs := Options{Log: logr.Discard(), Config: &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{
				Name: config.DefaultProfile, Plugins: config.Plugins{Permit: config.PluginSet{Enabled: []config.Plugin{{Name: "BlastRadius"}}}},
			}}}}
			err = checkKinds(served, needs)
			if (err != nil) != (len(tc.wantMissing) > 0) {
				t.Errorf("a configuration that needs them: %v", err)
			}
			for _, missing := range tc.wantMissing {
				if err != nil && !strings.Contains(err.Error(), missing) {
					t.Errorf("the error does not name %s: %v", missing, err)
				}
			}
			if err := checkKinds(served, Options{Log: logr.Discard()}); err != nil {
				t.Errorf("a configuration that needs none: %v", err)
			}
		})
	}
}
