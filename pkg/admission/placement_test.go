package admission

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

const (
	daveStamp = `{"user":"dave","username":"dave","groups":["dev"]}`
	userInfo  = "yunikorn.apache.org/user.info"
)

// asked is dave's request about a Placement.
func asked(operation admissionv1.Operation, object, old string) webhook.AdmissionRequest {
	return webhook.AdmissionRequest{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation,
		Resource:  metav1.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Resource: "placements"},
		Namespace: "team", Name: "web",
		UserInfo:  authenticationv1.UserInfo{Username: "dave", Groups: []string{"dev"}},
		Object:    runtime.RawExtension{Raw: []byte(object)},
		OldObject: runtime.RawExtension{Raw: []byte(old)},
	}}
}

func usual() identity.AccessControl {
	control, _ := identity.ParseAccessControl(nil)
	return control
}

func TestStamper(t *testing.T) {
	whole := []webhook.JSONPatchOp{{Operation: "add", Path: "/metadata/annotations", Value: map[string]string{userInfo: daveStamp}}}
	single := []webhook.JSONPatchOp{{Operation: "add", Path: "/metadata/annotations/yunikorn.apache.org~1user.info", Value: daveStamp}}
	for name, tc := range map[string]struct {
		operation   admissionv1.Operation // default CREATE
		object, old string
		change      func(*webhook.AdmissionRequest)
		want        []webhook.JSONPatchOp
		wantDenied  string
	}{
		"no annotations":            {object: `{"metadata":{"name":"web"},"spec":{"unknown":1}}`, want: whole},
		"null annotations":          {object: `{"metadata":{"name":"web","annotations":null}}`, want: whole},
		"empty annotations":         {object: `{"metadata":{"name":"web","annotations":{}}}`, want: single},
		"other annotations":         {object: `{"metadata":{"name":"web","annotations":{"a":"b"}}}`, want: single},
		"a label does not count":    {object: `{"metadata":{"name":"web","labels":{"yunikorn.apache.org/username":"eve"}}}`, want: whole},
		"carried":                   {object: `{"metadata":{"name":"web","annotations":{"` + userInfo + `":"{\"user\":\"eve\"}"}}}`, wantDenied: "not allowed to set user annotation"},
		"carried and empty":         {object: `{"metadata":{"name":"web","annotations":{"` + userInfo + `":""}}}`, wantDenied: "not allowed to set user annotation"},
		"updates are not stamped":   {operation: admissionv1.Update, object: `{"metadata":{"name":"web"}}`, old: `{"metadata":{"name":"web"}}`},
		"keys have one spelling":    {object: `{"Metadata":{"Annotations":{"` + userInfo + `":"x"}},"metadata":{"name":"web"}}`, want: whole},
		"a deletion":                {operation: admissionv1.Delete, old: `{"metadata":{"name":"web"}}`},
		"an unreadable object":      {object: `{"metadata":{"annotations":7}}`, wantDenied: "reading the object"},
		"no object":                 {wantDenied: "reading the object"},
		"an unreadable old object":  {operation: admissionv1.Update, object: `{"metadata":{"name":"web"}}`, wantDenied: "as stored"},
		"a status":                  {object: `{}`, change: func(r *webhook.AdmissionRequest) { r.SubResource = "status" }},
		"a page":                    {object: `{}`, change: func(r *webhook.AdmissionRequest) { r.Resource.Resource = "placementdecisions" }},
		"another group's Placement": {object: `{}`, change: func(r *webhook.AdmissionRequest) { r.Resource.Group = "example.com" }},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.operation == "" {
				tc.operation = admissionv1.Create
			}
			request := asked(tc.operation, tc.object, tc.old)
			if tc.change != nil {
				tc.change(&request)
			}
			got := (&stamper{placementReader{Options{Access: usual, UserLabel: identity.DefaultUserLabel}}}).Handle(t.Context(), request)
			checkAnswer(t, got, tc.wantDenied)
			if diff := cmp.Diff(tc.want, got.Patches); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func checkAnswer(t *testing.T, got webhook.AdmissionResponse, wantDenied string) {
	t.Helper()
	message := ""
	if got.Result != nil {
		message = got.Result.Message
	}
	if got.Allowed != (wantDenied == "") || !strings.Contains(message, wantDenied) {
		t.Errorf("allowed %t, %q; want a denial with %q", got.Allowed, message, wantDenied)
	}
}

func TestVerifier(t *testing.T) {
	const (
		bare    = `{"metadata":{"name":"web"}}`
		stamped = `{"metadata":{"name":"web","annotations":{"` + userInfo + `":"{\"user\":\"dave\",\"username\":\"dave\",\"groups\":[\"dev\"]}"}}}`
		anns    = `{"metadata":{"name":"web","uid":"7","annotations":{"` + userInfo + `":"{\"user\":\"ann\"}"}}}`
		placed  = `{"metadata":{"name":"web","uid":"7","annotations":{"` + userInfo + `":"{\"user\":\"ann\"}"}},"status":{"conditions":[{"type":"QueueAdmitted","reason":"Placed","message":"queue root.a by rule provided for user ann"}]}}`
		annsInB = `{"metadata":{"name":"web","labels":{"queue":"root.b"},"annotations":{"` + userInfo + `":"{\"user\":\"ann\"}"}}}`
		annsWeb = `{"metadata":{"name":"web","labels":{"Team":"web"},"annotations":{"` + userInfo + `":"{\"user\":\"ann\"}","team":"db"}}}`
		annsTag = `{"metadata":{"name":"web","labels":{"other":"x"},"annotations":{"` + userInfo + `":"{\"user\":\"ann\"}","team":"web"}}}`
		asEve   = `{"metadata":{"name":"web","labels":{"who":"eve"}}}`
	)
	for name, tc := range map[string]struct {
		operation   admissionv1.Operation
		object, old string
		wantDenied  string
		wantAsked   bool
	}{
		"stamped":                             {operation: admissionv1.Create, object: stamped},
		"not stamped":                         {operation: admissionv1.Create, object: bare, wantDenied: "missing"},
		"another's name":                      {operation: admissionv1.Create, object: anns, wantDenied: "not allowed to set user annotation"},
		"left alone":                          {operation: admissionv1.Update, object: anns, old: anns},
		"changed":                             {operation: admissionv1.Update, object: stamped, old: anns, wantDenied: "change is not allowed"},
		"removed":                             {operation: admissionv1.Update, object: bare, old: stamped, wantDenied: "change is not allowed"},
		"added":                               {operation: admissionv1.Update, object: stamped, old: bare, wantDenied: "not allowed to set user annotation"},
		"label added":                         {operation: admissionv1.Update, object: asEve, old: bare, wantDenied: "label"},
		"queue of another's":                  {operation: admissionv1.Update, object: annsInB, old: anns, wantDenied: "requested queue", wantAsked: true},
		"queue of another's, page forged":     {operation: admissionv1.Update, object: annsInB, old: placed, wantDenied: "requested queue"},
		"tag of another's":                    {operation: admissionv1.Update, object: annsTag, old: anns, wantDenied: `may not change tag team, which queue rules read, from "" to "web"`, wantAsked: true},
		"tag of another's, hidden by a label": {operation: admissionv1.Update, object: annsWeb, old: annsTag},
		"an old object unreadable":            {operation: admissionv1.Update, object: bare, old: `[]`, wantDenied: "as stored"},
		"unreadable":                          {operation: admissionv1.Create, object: `{`, wantDenied: "reading the object"},
		"a deletion":                          {operation: admissionv1.Delete, old: bare},
	} {
		t.Run(name, func(t *testing.T) {
			wasAsked := false
			options := Options{Access: usual, UserLabel: "who",
				PublishedQueue: func(_ context.Context, placement types.NamespacedName, uid types.UID) string {
					return string(uid) + " of " + placement.String()
				},
				GuardedTags: func(string) []string { return []string{"team"} },
				Administers: func(record string, who identity.Identity) bool {
					wasAsked = record == "7 of team/web" && who.User == "dave"
					return false
				}}
			got := (&verifier{placementReader{options}}).Handle(t.Context(), asked(tc.operation, tc.object, tc.old))
			checkAnswer(t, got, tc.wantDenied)
			if wasAsked != tc.wantAsked {
				t.Errorf("asked for an administrator: %t, want %t", wasAsked, tc.wantAsked)
			}
			if len(got.Patches) > 0 {
				t.Errorf("patches %v", got.Patches)
			}
		})
	}
}

func TestQueueChecker(t *testing.T) {
	const head, broken = `{"metadata":{"name":"yunikorn-configs","namespace":"berth-system"},"data":{`, `"queues.yaml":"broken"`
	for name, tc := range map[string]struct {
		object     string
		change     func(*webhook.AdmissionRequest)
		wantDenied string
		wantWarned int
	}{
		"good":                    {object: head + `"queues.yaml":"fine"}}`},
		"broken":                  {object: head + broken + `}}`, wantDenied: `data["queues.yaml"]: line 1: broken`},
		"no document":             {object: head + `}}`, wantDenied: "not set"},
		"warnings of both":        {object: head + `"queues.yaml":"odd","admissionController.accessControl.bypassAuth":"maybe"}}`, wantWarned: 2},
		"another ConfigMap":       {object: `{"metadata":{"name":"other"},"data":{` + broken + `}}`},
		"another namespace":       {object: head + broken + `}}`, change: func(r *webhook.AdmissionRequest) { r.Namespace = "team" }},
		"a deletion":              {change: func(r *webhook.AdmissionRequest) { r.Operation = admissionv1.Delete }},
		"an unreadable ConfigMap": {object: `{"metadata":[]}`, wantDenied: "reading the ConfigMap"},
	} {
		t.Run(name, func(t *testing.T) {
			checker := queueChecker{
				config: types.NamespacedName{Namespace: "berth-system", Name: "yunikorn-configs"},
				check: func(text []byte) ([]string, error) {
					return map[string][]string{"odd": {"odd"}}[string(text)], map[string]error{
						"broken": tenancyProblem("line 1: broken"), "": tenancyProblem("queue config is not set")}[string(text)]
				},
			}
			request := asked(admissionv1.Update, tc.object, "")
			request.Namespace = "berth-system"
			if tc.change != nil {
				tc.change(&request)
			}
			got := checker.Handle(t.Context(), request)
			checkAnswer(t, got, tc.wantDenied)
			if len(got.Warnings) != tc.wantWarned {
				t.Errorf("warnings %q, want %d", got.Warnings, tc.wantWarned)
			}
		})
	}
}

type tenancyProblem string

func (p tenancyProblem) Error() string { return string(p) }

func TestRegisterRefusesHalfTheOptions(t *testing.T) {
	check := func([]byte) ([]string, error) { return nil, nil }
	name := types.NamespacedName{Namespace: "berth-system", Name: "yunikorn-configs"}
	whole := Options{
		Access: usual, QueueConfig: name, CheckQueues: check,
		PublishedQueue: func(context.Context, types.NamespacedName, types.UID) string { return "" },
		GuardedTags:    func(string) []string { return nil },
		Administers:    func(string, identity.Identity) bool { return false },
	}
	for without, leaveOut := range map[string]func(*Options){
		"Access":         func(o *Options) { o.Access = nil },
		"QueueConfig":    func(o *Options) { o.QueueConfig = types.NamespacedName{} },
		"CheckQueues":    func(o *Options) { o.CheckQueues = nil },
		"PublishedQueue": func(o *Options) { o.PublishedQueue = nil },
		"GuardedTags":    func(o *Options) { o.GuardedTags = nil },
		"Administers":    func(o *Options) { o.Administers = nil },
	} {
		options := whole
		leaveOut(&options)
		if err := Register(webhook.NewServer(webhook.Options{}), options); err == nil {
			t.Errorf("without %s: no error", without)
		}
	}
	if err := Register(webhook.NewServer(webhook.Options{}), whole); err != nil {
		t.Error(err)
	}
}
