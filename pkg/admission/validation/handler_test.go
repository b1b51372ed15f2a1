package validation

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// unknownSets refuses every set whose name is not s.
func unknownSets(_ context.Context, pl *v1alpha1.Placement) (mistakes field.ErrorList) {
	for i, name := range pl.Spec.ClusterSets {
		if name != "s" {
			mistakes = append(mistakes, field.NotSupported(field.NewPath("spec", "clusterSets").Index(i), name, []string{"s"}))
		}
	}
	return mistakes
}

func request(resource, object, old string) webhook.AdmissionRequest {
	r := admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Name: "p", Object: runtime.RawExtension{Raw: []byte(object)},
		Resource: metav1.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1", Resource: resource},
	}
	if old != "" {
		r.Operation, r.OldObject.Raw = admissionv1.Update, []byte(old)
	}
	return webhook.AdmissionRequest{AdmissionRequest: r}
}

func TestValidator(t *testing.T) {
	const badSet = `{"spec":{"clusterSelector":{"selectorType":"LabelSelector","labelSelector":{"matchLabels":{"a":"b c"}}}}}`
	tests := map[string]struct{ resource, object, old, want string }{
		"a valid Placement":              {resource: "placements", object: `{"spec":{"clusterSets":["s"]}}`},
		"a mistake":                      {"placements", `{"spec":{"clusterSets":["s","x"]}}`, "", `"p" is invalid: spec.clusterSets[1]: Unsupported value: "x": supported values: "s"`},
		"a stored mistake, labelled":     {resource: "placements", object: `{"metadata":{"labels":{"a":"b"}},"spec":{"clusterSets":["x"]}}`, old: `{"spec":{"clusterSets":["x"]}}`},
		"a stored mistake, moved":        {resource: "placements", object: `{"spec":{"clusterSets":["s","x"]}}`, old: `{"spec":{"clusterSets":["x"]}}`},
		"a stored mistake and a new one": {"placements", `{"spec":{"clusterSets":["x","y"]}}`, `{"spec":{"clusterSets":["x"]}}`, `"p" is invalid: spec.clusterSets[1]: Unsupported value: "y"`},
		"a mistake in a deleted one":     {resource: "placements", object: `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"clusterSets":["x"]}}`, old: `{"spec":{}}`},
		"no Placement":                   {"placements", `{"spec":1}`, "", "reading the object"},
		"a set":                          {"managedclustersets", badSet, "", `"p" is invalid: spec.clusterSelector.labelSelector.matchLabels[a]: Invalid value: "b c"`},
		"a stored set":                   {resource: "managedclustersets", object: strings.Replace(badSet, `{"spec"`, `{"metadata":{"labels":{"a":"b"}},"spec"`, 1), old: badSet},
		"something else":                 {resource: "managedclusters", object: `{}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := &validator{validate: unknownSets, running: make(chan struct{}, 1)}
			response := v.Handle(t.Context(), request(tc.resource, tc.object, tc.old))
			if response.Allowed != (tc.want == "") || !response.Allowed && !strings.Contains(response.Result.Message, tc.want) {
				t.Errorf("allowed is %t, %v; want %q", response.Allowed, response.Result, tc.want)
			}
		})
	}
}

// TestValidatorWaits: a request that cannot run before its time ends is allowed.
func TestValidatorWaits(t *testing.T) {
	v := &validator{validate: unknownSets, running: make(chan struct{}, 1)}
	v.running <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if response := v.Handle(ctx, request("placements", `{"spec":{"clusterSets":["x"]}}`, "")); !response.Allowed {
		t.Errorf("refused: %v", response.Result)
	}
}

func TestStatusWarner(t *testing.T) {
	const status = `{"status":{"capacity":{"cpu":"4"}}}`
	tests := map[string]struct {
		object, old string
		want        bool
	}{
		"without status":        {`{}`, "", false},
		"with status":           {status, "", true},
		"with the same status":  {status, status, false},
		"with another status":   {`{"status":{"capacity":{"cpu":"8"}}}`, status, true},
		"with an empty status":  {`{"status":{}}`, "", false},
		"with status for first": {status, `{}`, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			response := statusWarner{}.Handle(t.Context(), request("managedclusters", tc.object, tc.old))
			if !response.Allowed || len(response.Patches) > 0 || (len(response.Warnings) > 0) != tc.want {
				t.Errorf("allowed is %t, patches %v, warnings %q", response.Allowed, response.Patches, response.Warnings)
			}
		})
	}
}
