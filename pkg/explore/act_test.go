package explore

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// acting has a Placement with a held change from c3 to c2, after an edit of its predicates.
func acting(t *testing.T) simulator.Objects {
	t.Helper()
	objects := small()
	var held *v1alpha1.Placement
	for _, o := range objects {
		if pl, ok := o.(*v1alpha1.Placement); ok {
			pl.UID = types.UID(pl.Name + "-uid")
			if pl.Name == "held" {
				held = pl
			}
		}
		if page, ok := o.(*v1alpha1.PlacementDecision); ok {
			page.OwnerReferences[0].UID = "held-uid"
		}
	}
	held.Status.Conditions = append(held.Status.Conditions, metav1.Condition{
		Type: v1alpha1.PlacementConditionDecisionPending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHeld, Message: "waits for an approval",
	})
	for revision, step := range []struct {
		from, to []string
		phase    berthv1alpha1.ChangePhase
		before   string
	}{
		{nil, []string{"c1"}, berthv1alpha1.PhasePublished, ""},
		{[]string{"c1"}, []string{"c3", "gone"}, berthv1alpha1.PhasePublished,
			`{"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"name":"c1"}}}}]}`},
		{[]string{"c3", "gone"}, []string{"c2"}, berthv1alpha1.PhaseHeld, ""},
	} {
		change := changes.NewChange(step.from, step.to)
		change.Cause, change.Generation = "Placement: spec", held.Generation
		change.Before = step.before
		record := changes.NewRecord(held, 0, int64(revision+1), change)
		record.Status.Phase, record.UID = step.phase, types.UID(record.Name)
		objects = append(objects, record)
	}
	return objects
}

// newActingServer returns a server of a viewer, the hub, and the permissions that the viewer lacks.
func newActingServer(t *testing.T, lacks ...string) (*Server, client.Client) {
	t.Helper()
	reader, err := NewClient(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	objects := acting(t)
	copies := make([]client.Object, len(objects))
	for i, o := range objects {
		copies[i] = o.DeepCopyObject().(client.Object)
	}
	hub := fake.NewClientBuilder().WithScheme(reader.Scheme()).WithObjects(copies...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			switch o := o.(type) {
			case *authenticationv1.SelfSubjectReview:
				o.Status.UserInfo.Username = "ann"
				return nil
			case *authorizationv1.SelfSubjectAccessReview:
				o.Status.Allowed = true
				for _, lacking := range lacks {
					verb, resource, _ := strings.Cut(lacking, " ")
					if a := o.Spec.ResourceAttributes; a.Verb == verb && a.Resource == resource {
						o.Status.Allowed = false
					}
				}
				return nil
			case *berthv1alpha1.PlacementExplanation:
				if slices.Contains(lacks, "create placementexplanations") {
					return apierrors.NewForbidden(schema.GroupResource{Group: "berth.dev", Resource: "placementexplanations"}, "", nil)
				}
				// The answer of the controller.
				o.Status.Conditions = []metav1.Condition{{Type: berthv1alpha1.ExplanationExplained, Status: metav1.ConditionTrue, Reason: berthv1alpha1.ReasonDecided}}
				o.Status.Change = &berthv1alpha1.ExplainedChange{Operation: simulator.Updated, Before: []string{"c2"}, After: []string{"c1"}}
			}
			return c.Create(ctx, o, options...)
		},
	}).Build()
	return NewServer(simulator.Options{}, NewViewer(simulator.Options{}, newTestHub(t, objects), hub, "")), hub
}

func postAct(s *Server, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, s.Path()+"api/act", strings.NewReader(body))
	r.Host = "127.0.0.1:8001"
	r.Header.Set("Origin", "http://127.0.0.1:8001")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Berth-CSRF", s.viewer.CSRF)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// approvalOf returns who approved the held change; empty if nobody did.
func approvalOf(t *testing.T, hub client.Client) string {
	t.Helper()
	record := &berthv1alpha1.PlacementChange{}
	if err := hub.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "held-3"}, record); err != nil {
		t.Fatal(err)
	}
	if record.Spec.Approval == nil {
		return ""
	}
	return record.Spec.Approval.By + ": " + record.Spec.Approval.Comment
}

const approveHeld = `{"verb":"approve","placement":"ns/held","change":"held-3","comment":"fine","confirmed":true}`

// TestForgedPost: a request that the page did not send writes nothing.
func TestForgedPost(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		body   string
		want   int
	}{
		"no CSRF token":     {func(r *http.Request) { r.Header.Del("X-Berth-CSRF") }, approveHeld, http.StatusForbidden},
		"another token":     {header("X-Berth-CSRF", "AAAA"), approveHeld, http.StatusForbidden},
		"another origin":    {header("Origin", "http://evil.example"), approveHeld, http.StatusForbidden},
		"another site":      {header("Sec-Fetch-Site", "cross-site"), approveHeld, http.StatusForbidden},
		"a form":            {header("Content-Type", "application/x-www-form-urlencoded"), approveHeld, http.StatusBadRequest},
		"plain text":        {header("Content-Type", "text/plain"), approveHeld, http.StatusBadRequest},
		"no JSON":           {nil, "approve", http.StatusBadRequest},
		"an unknown field":  {nil, strings.Replace(approveHeld, `"comment"`, `"sure":1,"comment"`, 1), http.StatusBadRequest},
		"more than one":     {nil, approveHeld + approveHeld, http.StatusBadRequest},
		"too long":          {nil, strings.Replace(approveHeld, "fine", strings.Repeat("x", maxBody), 1), http.StatusBadRequest},
		"an unknown verb":   {nil, strings.Replace(approveHeld, "approve", "delete", 1), http.StatusBadRequest},
		"no change":         {nil, strings.Replace(approveHeld, "held-3", "", 1), http.StatusBadRequest},
		"no placement":      {nil, strings.Replace(approveHeld, "ns/held", "held", 1), http.StatusBadRequest},
		"a field too many":  {nil, strings.Replace(approveHeld, `"comment"`, `"cluster":"c1","comment"`, 1), http.StatusBadRequest},
		"another path":      {func(r *http.Request) { r.URL.Path += "/x" }, approveHeld, http.StatusNotFound},
		"without the token": {func(r *http.Request) { r.URL.Path = "/api/act" }, approveHeld, http.StatusNotFound},
		"PUT":               {func(r *http.Request) { r.Method = http.MethodPut }, approveHeld, http.StatusMethodNotAllowed},
		"from the page":     {nil, approveHeld, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			s, hub := newActingServer(t)
			if w := postAct(s, tc.body, tc.change); w.Code != tc.want {
				t.Errorf("code %d, want %d: %s", w.Code, tc.want, w.Body)
			}
			want := ""
			if tc.want == http.StatusOK {
				want = "ann: fine"
			}
			if got := approvalOf(t, hub); got != want {
				t.Errorf("the approval is %q, want %q", got, want)
			}
		})
	}
}

// TestAct: what would change is shown before it is done.
func TestAct(t *testing.T) {
	moved := func(added, removed string) *simulator.Comparison {
		return &simulator.Comparison{
			Summary: simulator.Summary{Placements: 1, Changed: 1, Added: len(strings.Fields(added)), Removed: len(strings.Fields(removed))},
			Changes: []simulator.Change{{Placement: "ns/held", Added: strings.Fields(added), Removed: strings.Fields(removed)}},
		}
	}
	for name, tc := range map[string]struct {
		body                        string
		code                        int
		question, want              string
		diff                        *simulator.Comparison
		lacks, note, error, refused string
	}{
		"approve": {body: `{"verb":"approve","placement":"ns/held","change":"held-3"}`, question: "Approve change 3 of Placement ns/held?",
			diff: moved("c2", "c3 gone")},
		"reject": {body: `{"verb":"reject","placement":"ns/held","change":"held-3"}`, question: "Reject change 3 of Placement ns/held?",
			note: "Change 3 is not published"},
		"approve an older change": {body: `{"verb":"approve","placement":"ns/held","change":"held-2","confirmed":true}`, code: http.StatusConflict,
			error: "change 2 of Placement ns/held is not the newest any more: look at change 3"},
		"approve a change that is gone": {body: `{"verb":"approve","placement":"ns/held","change":"held-9","confirmed":true}`, code: http.StatusConflict,
			error: "the PlacementChange held-9 of Placement ns/held does not exist any more"},
		"evict": {body: `{"verb":"evict","placement":"ns/held","cluster":"c3"}`, question: "Evict cluster c3 from Placement ns/held?"},
		"evict a cluster that it does not have": {body: `{"verb":"evict","placement":"ns/held","cluster":"c1"}`, code: http.StatusConflict,
			error: "does not have cluster c1"},
		"drain":   {body: `{"verb":"drain","cluster":"c2"}`, question: "Drain ManagedCluster c2?", diff: moved("", "c2")},
		"undrain": {body: `{"verb":"undrain","cluster":"c2"}`, code: http.StatusConflict, error: "nothing to undrain"},
		"suspend": {body: `{"verb":"suspend","placement":"ns/held"}`, question: "Suspend Placement ns/held?", note: "Change 3 stops"},
		"resume":  {body: `{"verb":"resume","placement":"ns/held"}`, code: http.StatusConflict, error: "nothing to resume"},
		"undo": {body: `{"verb":"undo","placement":"ns/held","revision":1}`, question: "Restore the spec of Placement ns/held from revision 1?",
			refused: "undo is refused: Placement ns/held would have 1 clusters, and 2 are published"},
		"undo that is refused": {body: `{"verb":"undo","placement":"ns/held","revision":1,"confirmed":true}`, code: http.StatusConflict,
			error: "undo is refused: Placement ns/held would have 1 clusters"},
		"undo something": {body: `{"verb":"undo","placement":"ns/held","confirmed":true}`, code: http.StatusBadRequest, error: "the revision that was shown"},
		"pin": {body: `{"verb":"pin","placement":"ns/held","revision":1}`, question: "Pin Placement ns/held to revision 1?",
			refused: "pin is refused: Placement ns/held would not have the clusters of revision 1 but 0 of its 1; without c1 (Predicate: "},
		"pin that is refused": {body: `{"verb":"pin","placement":"ns/held","revision":1,"confirmed":true}`, code: http.StatusConflict,
			error: "pin is refused: "},
		"unpin":        {body: `{"verb":"unpin","placement":"ns/held"}`, code: http.StatusConflict, error: "is not pinned"},
		"no Placement": {body: `{"verb":"unpin","placement":"ns/nothing"}`, code: http.StatusConflict, error: "there is no Placement ns/nothing"},
		"without permission": {body: `{"verb":"evict","placement":"ns/held","cluster":"c3"}`, lacks: "create placementevictions", code: http.StatusConflict,
			error: "You need: create placementevictions in namespace ns"},
	} {
		t.Run(name, func(t *testing.T) {
			s, hub := newActingServer(t, tc.lacks)
			w := postAct(s, tc.body, nil)
			answer := struct {
				ActAnswer
				Error string `json:"error"`
			}{}
			read(t, w, max(tc.code, http.StatusOK), &answer)
			if answer.Question != tc.question || !strings.Contains(answer.Error, tc.error) || (answer.Error == "") != (tc.error == "") || !strings.Contains(answer.Note, tc.note) ||
				!strings.Contains(answer.Refused, tc.refused) || (answer.Refused == "") != (tc.refused == "") {
				t.Errorf("got %+v", answer)
			}
			if tc.diff != nil {
				got := moved("", "")
				for _, c := range answer.Diff.Changes {
					if c.Placement == "ns/held" {
						got = moved(strings.Join(c.Added, " "), strings.Join(c.Removed, " "))
					}
				}
				if diff := cmp.Diff(tc.diff, got); diff != "" {
					t.Errorf("the diff (-want +got):\n%s", diff)
				}
			}
			pl := &v1alpha1.Placement{}
			if err := hub.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "held"}, pl); err != nil {
				t.Fatal(err)
			}
			if approvalOf(t, hub) != "" || len(pl.Annotations) > 0 || pl.Spec.Predicates[0].RequiredClusterSelector.LabelSelector.MatchLabels["name"] != "c2" {
				t.Error("it was written")
			}
		})
	}
}

// TestPublication: what the approval of a change does, which can be published in part.
func TestPublication(t *testing.T) {
	change := changes.NewChange([]string{"c1", "c2"}, []string{"c2", "c3", "c4"})
	for name, tc := range map[string]struct {
		remaining *berthv1alpha1.RemainingClusters
		published int
	}{
		"held":     {nil, 2},
		"in steps": {&berthv1alpha1.RemainingClusters{Removed: 1}, 4},
	} {
		record := changes.NewRecord(fixture.Placement("ns", "p").Obj(), 0, 2, change)
		record.Status.Remaining = tc.remaining
		diff, _ := publication(record)
		if c := diff.Changes[0]; c.Before != 2 || c.Published != tc.published || c.After != 3 {
			t.Errorf("%s: %d before, %d published, %d after; want 2, %d and 3", name, c.Before, c.Published, c.After, tc.published)
		}
	}
}

// TestActionsOfDetails: details offer what makes sense, and say what the viewer may not.
func TestActionsOfDetails(t *testing.T) {
	s, _ := newActingServer(t, "patch placementchanges")
	d := PlacementDetails{}
	read(t, get(s, nil, "api/placement?placement=ns/held"), http.StatusOK, &d)
	needs := "patch placementchanges in namespace ns"
	want := []Action{
		{Verb: "approve", Change: "held-3", Command: "kubectl placement approve placementchange/held-3 -n ns", Missing: needs},
		{Verb: "reject", Change: "held-3", Command: "kubectl placement reject placementchange/held-3 -n ns", Missing: needs},
		{Verb: "suspend", Command: "kubectl placement suspend held -n ns"},
		{Verb: "undo", Revision: 1, Command: "kubectl placement undo held -n ns --revision 1"},
	}
	if diff := cmp.Diff(want, d.Actions); diff != "" {
		t.Errorf("Placement (-want +got):\n%s", diff)
	}
	for path, want := range map[string]string{
		"api/cluster?cluster=c1":                  "kubectl placement drain c1",
		"api/cell?placement=ns/held&cluster=c3":   "kubectl placement evict held -n ns --cluster c3",
		"api/cell?placement=ns/held&cluster=c1":   "",
		"api/cell?placement=ns/held&cluster=gone": "kubectl placement evict held -n ns --cluster gone",
		"api/cluster?cluster=gone":                "",
	} {
		got := struct{ Actions []Action }{}
		read(t, get(s, nil, path), http.StatusOK, &got)
		command := ""
		for _, a := range got.Actions {
			command += a.Command
		}
		if command != want {
			t.Errorf("%s: got %q, want %q", path, command, want)
		}
	}
}

// TestActInNamespace: the controller previews an action for a viewer with rights in one namespace.
func TestActInNamespace(t *testing.T) {
	s, _ := newActingServer(t)
	s.viewer.Live.scope = scope{namespace: "ns"}
	answer := ActAnswer{}
	read(t, postAct(s, `{"verb":"undo","placement":"ns/held","revision":1}`, nil), http.StatusOK, &answer)
	if answer.Diff == nil || len(answer.Diff.Changes) != 1 || !strings.HasSuffix(answer.Refused, "--allow-fewer permits that") {
		t.Fatalf("got %+v", answer)
	}
	if diff := cmp.Diff([]string{"c1", "c2"}, append(answer.Diff.Changes[0].Added, answer.Diff.Changes[0].Removed...)); diff != "" {
		t.Errorf("added and removed (-want +got):\n%s", diff)
	}
}

// TestActWithoutFleet: what cannot be previewed is not done.
func TestActWithoutFleet(t *testing.T) {
	for _, verb := range []string{"undo", "pin"} {
		s, hub := newActingServer(t, "create placementexplanations")
		s.viewer.Live.scope = scope{namespace: "ns"}
		answer := struct {
			Error string `json:"error"`
		}{}
		read(t, postAct(s, `{"verb":"`+verb+`","placement":"ns/held","revision":1,"confirmed":true}`, nil), http.StatusForbidden, &answer)
		if !strings.Contains(answer.Error, "without the role berth-fleet-viewer") {
			t.Errorf("%s: %s", verb, answer.Error)
		}
		pl := &v1alpha1.Placement{}
		if err := hub.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "held"}, pl); err != nil || len(pl.Annotations) > 0 {
			t.Errorf("%s: %v, annotations %v", verb, err, pl.Annotations)
		}
	}
}
