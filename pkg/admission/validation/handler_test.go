package validation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
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
		"an annotation":                  {resource: "placements", object: `{"metadata":{"annotations":{"a":"b"}},"spec":{"clusterSets":["x"]}}`, old: `{"spec":{"clusterSets":["x"]}}`},
		"another required policy":        {"placements", `{"metadata":{"annotations":{"berth.dev/selection-policy":"b"}},"spec":{"clusterSets":["y"]}}`, `{"spec":{"clusterSets":["x"]}}`, `spec.clusterSets[0]: Unsupported value: "y"`},
		"another profile":                {"placements", `{"metadata":{"annotations":{"berth.dev/profile":"b"}},"spec":{"clusterSets":["y"]}}`, `{"spec":{"clusterSets":["x"]}}`, `spec.clusterSets[0]: Unsupported value: "y"`},
		"a stored object that is none":   {"placements", `{"spec":{}}`, `{"spec":1}`, "reading the object as stored"},
		"a policy":                       {resource: "selectionpolicies", object: `{"spec":{"placement":"p"}}`},
		"a policy with a mistake":        {"selectionpolicies", `{"spec":{"groups":[{"name":"g"}]}}`, "", `spec.groups: Invalid value: "g"`},
		"a policy with an old mistake":   {resource: "selectionpolicies", object: `{"spec":{"groups":[{"name":"g"}]}}`, old: `{"spec":{"groups":[{"name":"g"}]}}`},
		"a policy that is deleted":       {resource: "selectionpolicies", object: `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"groups":[{"name":"g"}]}}`},
		"no policy":                      {"selectionpolicies", `{"spec":1}`, "", "reading the object"},
		"no set":                         {"managedclustersets", `{"spec":1}`, "", "reading the object"},
		"a set with a new mistake":       {"managedclustersets", badSet, `{"spec":{}}`, `Invalid value: "b c"`},
		"a set with another mistake":     {"managedclustersets", badSet, strings.Replace(badSet, "b c", "d e", 1), `Invalid value: "b c"`},
		"a mistake in a deleted set":     {resource: "managedclustersets", object: strings.Replace(badSet, `{"spec"`, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec"`, 1), old: `{"spec":{}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := newValidator(unknownSets, groupsInvalid, nil)
			response := v.Handle(t.Context(), request(tc.resource, tc.object, tc.old))
			if response.Allowed != (tc.want == "") || !response.Allowed && !strings.Contains(response.Result.Message, tc.want) {
				t.Errorf("allowed is %t, %v; want %q", response.Allowed, response.Result, tc.want)
			}
		})
	}
}

// TestRequiredPolicyWarnings: of a Placement and its SelectionPolicy, the one that is applied later
// gets a warning if the Placement does not require the policy.
func TestRequiredPolicyWarnings(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	requires := func(name string) *v1alpha1.Placement {
		return fixture.Placement("n", "p").Annotation(v1alpha1.SelectionPolicyAnnotation, name).Obj()
	}
	policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Spec: berthv1alpha1.SelectionPolicySpec{Placement: "p"}}
	const object = `{"metadata":{"name":"s"},"spec":{"placement":"p"}}`
	const warning = "Placement p does not require SelectionPolicy s, and is decided without it while the policy does not exist; " +
		"to require it, add the annotation berth.dev/selection-policy: s to the Placement"
	for name, tc := range map[string]struct {
		onHub                        client.Object
		resource, object, old, wants string
	}{
		"a policy of a Placement that requires none":    {fixture.Placement("n", "p").Obj(), "selectionpolicies", object, "", warning},
		"a policy of a Placement that requires another": {requires("t"), "selectionpolicies", object, "", warning},
		"a required policy":                             {requires("s"), "selectionpolicies", object, "", ""},
		"a policy before its Placement":                 {policy, "selectionpolicies", object, "", ""},
		"a Placement with a policy":                     {policy, "placements", `{"metadata":{"name":"p"}}`, "", warning},
		"a Placement that stops to require its policy":  {policy, "placements", `{"metadata":{"name":"p"}}`, `{"metadata":{"annotations":{"berth.dev/selection-policy":"s"}}}`, warning},
		"a Placement that stays as it was":              {policy, "placements", `{"metadata":{"name":"p","labels":{"a":"b"}}}`, `{"metadata":{"name":"p"}}`, ""},
		"a Placement that requires its policy":          {policy, "placements", `{"metadata":{"name":"p","annotations":{"berth.dev/selection-policy":"s"}}}`, "", ""},
		"another Placement":                             {policy, "placements", `{"metadata":{"name":"q"}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.onHub).Build()
			v := newValidator(unknownSets, groupsInvalid, hub)
			r := request(tc.resource, tc.object, tc.old)
			r.Namespace = "n"
			response := v.Handle(t.Context(), r)
			if got := strings.Join(response.Warnings, "\n"); !response.Allowed || got != tc.wants {
				t.Errorf("allowed is %t, the warning is %q, want %q", response.Allowed, got, tc.wants)
			}
		})
	}
}

// TestProbableMistakes: a valid Placement is warned about when its spec is written, in the turn of
// its namespace.
func TestProbableMistakes(t *testing.T) {
	const object = `{"metadata":{"name":"p"},"spec":{"clusterSets":["s"]}}`
	for name, tc := range map[string]struct{ object, old, want string }{
		"new":       {object, "", "ns1/p: odd"},
		"edited":    {object, `{"spec":{}}`, "ns1/p: odd"},
		"unchanged": {object, object, ""},
		"invalid":   {`{"spec":{"clusterSets":["x"]}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(unknownSets, groupsInvalid, nil)
			ended, end := context.WithCancel(t.Context())
			end()
			v.warn = func(pl *v1alpha1.Placement) []string {
				if err := v.turns.Do(ended, "ns1", func() {}); err == nil {
					t.Error("another request of the namespace is validated at the same time")
				}
				return []string{pl.Namespace + "/" + pl.Name + ": odd"}
			}
			r := request("placements", tc.object, tc.old)
			r.Namespace = "ns1"
			if got := strings.Join(v.Handle(t.Context(), r).Warnings, "\n"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestIgnoredRequests: a subresource, or another operation than those of the rules, is allowed
// without being read.
func TestIgnoredRequests(t *testing.T) {
	for name, change := range map[string]func(r *admissionv1.AdmissionRequest){
		"status":     func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" },
		"a deletion": func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete },
	} {
		t.Run(name, func(t *testing.T) {
			r := request("placements", "no JSON", "")
			change(&r.AdmissionRequest)
			v := newValidator(unknownSets, groupsInvalid, nil)
			for _, response := range []webhook.AdmissionResponse{v.Handle(t.Context(), r), statusWarner{}.Handle(t.Context(), r)} {
				if !response.Allowed || len(response.Warnings) > 0 {
					t.Errorf("allowed is %t, %v, warnings %q", response.Allowed, response.Result, response.Warnings)
				}
			}
		})
	}
}

// handlers are the handlers of a server, by path.
// groupsInvalid finds a mistake in every policy with groups.
func groupsInvalid(_ context.Context, policy *berthv1alpha1.SelectionPolicy) field.ErrorList {
	if len(policy.Spec.Groups) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "groups"), policy.Spec.Groups[0].Name, "not here")}
}

type handlers map[string]http.Handler

func (h handlers) NeedLeaderElection() bool                   { return false }
func (h handlers) Register(path string, handler http.Handler) { h[path] = handler }
func (h handlers) Start(context.Context) error                { return nil }
func (h handlers) StartedChecker() healthz.Checker            { return nil }
func (h handlers) WebhookMux() *http.ServeMux                 { return nil }

func TestRegister(t *testing.T) {
	server := handlers{}
	if err := Register(server, nil, nil, nil, nil); err == nil || len(server) > 0 {
		t.Errorf("without a function: %v, %d handlers", err, len(server))
	}
	if err := Register(server, unknownSets, groupsInvalid, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(server)); !slices.Equal(got, []string{"/validate", "/warn-status"}) {
		t.Errorf("the paths are %v", got)
	}
}

// in returns a request of a namespace to create a Placement in a set.
func in(namespace, set string) webhook.AdmissionRequest {
	r := request("placements", `{"spec":{"clusterSets":["`+set+`"]}}`, "")
	r.Namespace = namespace
	return r
}

// slowValidator validates Placements with the first set "slow" until end is closed.
func slowValidator(end chan struct{}) *validator {
	return newValidator(func(ctx context.Context, pl *v1alpha1.Placement) field.ErrorList {
		if pl.Spec.ClusterSets[0] == "slow" {
			<-end
			return nil
		}
		return unknownSets(ctx, pl)
	}, groupsInvalid, nil)
}

// TestValidatorTurns: a namespace with many requests that take long has to repeat some of them. One
// of another namespace is validated at once.
func TestValidatorTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		v := slowValidator(end)
		answers := make(chan webhook.AdmissionResponse, 100)
		for range 20 {
			go func() { answers <- v.Handle(t.Context(), in("flood", "slow")) }()
		}
		synctest.Wait()
		if n := len(answers); n != 20-1-maxWaiting {
			t.Errorf("%d of 20 are answered at once, want all but one and the %d that wait", n, maxWaiting)
		}
		for len(answers) > 0 {
			got := <-answers
			if got.Allowed || got.Result.Code != http.StatusTooManyRequests || got.Result.Details.RetryAfterSeconds != 1 ||
				got.Result.Message != `validating Placement "p": too many other requests come first in the namespace flood; try again` {
				t.Errorf("one too many gets %+v", got.AdmissionResponse)
			}
		}
		if got := v.Handle(t.Context(), in("other", "x")); got.Allowed || got.Result.Code != http.StatusUnprocessableEntity {
			t.Errorf("an invalid Placement of another namespace gets %+v", got.AdmissionResponse)
		}
		if got := v.Handle(t.Context(), in("other", "s")); !got.Allowed || len(got.Warnings) > 0 {
			t.Errorf("a valid Placement of another namespace gets %+v", got.AdmissionResponse)
		}
		// Those that wait too long for others of their namespace are not allowed unchecked.
		time.Sleep(turnTime)
		synctest.Wait()
		if n := len(answers); n != maxWaiting {
			t.Errorf("%d of %d have waited long enough", n, maxWaiting)
		}
		for len(answers) > 0 {
			if got := <-answers; got.Allowed || got.Result.Code != http.StatusTooManyRequests {
				t.Errorf("one that waited gets %+v", got.AdmissionResponse)
			}
		}
		close(end)
		synctest.Wait()
		if got := <-answers; !got.Allowed {
			t.Errorf("the one that was validated gets %+v", got.AdmissionResponse)
		}
	})
}

// TestValidatorBusy: a request that waits too long only because of other namespaces is allowed,
// with a warning.
func TestValidatorBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		v := slowValidator(end)
		for i := range workers {
			go v.Handle(t.Context(), in(fmt.Sprint("flood", i), "slow"))
		}
		synctest.Wait()
		got := v.Handle(t.Context(), in("other", "x"))
		want := `Placement "p" was not validated, because objects of other namespaces are being validated; the conditions will report mistakes`
		if !got.Allowed || len(got.Warnings) != 1 || got.Warnings[0] != want {
			t.Errorf("got %+v", got.AdmissionResponse)
		}
		close(end)
	})
}

// TestStatusOfTypedClients: no warning about what a typed client sends that sets no status.
func TestStatusOfTypedClients(t *testing.T) {
	for resource, object := range map[string]any{"managedclusters": v1alpha1.ManagedCluster{}, "addonplacementscores": v1alpha1.AddOnPlacementScore{}} {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if response := (statusWarner{}).Handle(t.Context(), request(resource, string(text), "")); len(response.Warnings) > 0 {
			t.Errorf("%s: %q", text, response.Warnings)
		}
	}
}

func TestStatusWarner(t *testing.T) {
	const status = `{"status":{"capacity":{"cpu":"4"}}}`
	tests := map[string]struct {
		object, old string
		want        bool
	}{
		"without status":               {`{}`, "", false},
		"with status":                  {status, "", true},
		"with the same status":         {status, status, false},
		"with another status":          {`{"status":{"capacity":{"cpu":"8"}}}`, status, true},
		"with an empty status":         {`{"status":{}}`, "", false},
		"with a typed client's status": {`{"status":{"version":{}}}`, "", false},
		"with that of other types":     {`{"status":{"version":{"kubernetes":""},"conditions":null,"scores":[],"n":0,"f":0.0,"b":false}}`, "", false},
		"with that and one more field": {`{"status":{"version":{},"conditions":[{}]}}`, "", true},
		"with a version":               {`{"status":{"version":{"kubernetes":"v1.36.0"}}}`, "", true},
		"without status any more":      {`{"status":{"version":{}}}`, status, false},
		"with status for first":        {status, `{}`, true},
		"with an invalid status":       {`{"status":"up"}`, "", true},
		"with the same invalid status": {`{"status":"up"}`, `{"status":"up"}`, false},
		"of another type":              {`{"status":{},"metadata":1}`, "", false},
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
