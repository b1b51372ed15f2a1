package identity

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/test/fixture"
)

// accessCase is one entry of test/cases/admission.json.
type accessCase struct {
	ID, Desc string
	Settings struct {
		BypassAuth, TrustControllers               bool
		SystemUsers, ExternalUsers, ExternalGroups string
	}
	Operation, User                            string
	Groups                                     []string
	Annotation, Label, OldAnnotation, OldLabel *string
	Expect                                     struct {
		Allowed bool
		Stamped *Identity
		Message string
	}
}

func (c accessCase) control(t *testing.T) AccessControl {
	t.Helper()
	control, warnings := ParseAccessControl(map[string]string{
		accessPrefix + "bypassAuth":       strconv.FormatBool(c.Settings.BypassAuth),
		accessPrefix + "trustControllers": strconv.FormatBool(c.Settings.TrustControllers),
		accessPrefix + "systemUsers":      c.Settings.SystemUsers,
		accessPrefix + "externalUsers":    c.Settings.ExternalUsers,
		accessPrefix + "externalGroups":   c.Settings.ExternalGroups,
	})
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	return control
}

func TestAccessCases(t *testing.T) {
	var cases []accessCase
	fixture.Cases(t, "admission.json", &cases)
	for _, tc := range cases {
		t.Run(tc.ID+" "+tc.Desc, func(t *testing.T) {
			control := tc.control(t)
			request := AccessRequest{
				Update: tc.Operation == "UPDATE", By: Identity{User: tc.User, Groups: tc.Groups},
				Annotation: tc.Annotation, Label: tc.Label, OldAnnotation: tc.OldAnnotation, OldLabel: tc.OldLabel,
			}
			got := control.Decide(request)
			if got.Allowed != tc.Expect.Allowed || !strings.Contains(got.Reason, tc.Expect.Message) {
				t.Errorf("allowed %t, %q; want %t, %q", got.Allowed, got.Reason, tc.Expect.Allowed, tc.Expect.Message)
			}
			if diff := cmp.Diff(tc.Expect.Stamped, got.Stamp); diff != "" {
				t.Error(diff)
			}
			// The second look agrees once the stamp is there.
			if got.Stamp != nil {
				request.Annotation = new(got.Stamp.String())
			}
			if verified := control.Verify(request); verified.Allowed != tc.Expect.Allowed || verified.Stamp != nil {
				t.Errorf("verifying gives %+v", verified)
			}
		})
	}
}

var (
	dave     = Identity{User: "dave", Groups: []string{"dev"}}
	gardener = Identity{User: "system:serviceaccount:kube-system:gardener"}
	annJSON  = `{"user":"ann"}`
)

func TestAccessDecide(t *testing.T) {
	usual, _ := ParseAccessControl(nil)
	open, _ := ParseAccessControl(map[string]string{accessPrefix + "bypassAuth": "true"})
	wary, _ := ParseAccessControl(map[string]string{accessPrefix + "trustControllers": "false"})
	text := func(s string) *string { return &s }
	yes := func() bool { return true }
	for name, tc := range map[string]struct {
		control   AccessControl
		request   AccessRequest
		wantStamp bool
		wantDeny  string // empty: allowed
	}{
		"create, bare":                     {control: usual, request: AccessRequest{By: dave}, wantStamp: true},
		"create, label ignored":            {control: usual, request: AccessRequest{By: dave, Label: text("eve")}, wantStamp: true},
		"create, trusted, label ignored":   {control: usual, request: AccessRequest{By: gardener, Label: text("eve")}, wantStamp: true},
		"create, zero settings":            {request: AccessRequest{By: dave}, wantStamp: true},
		"create, zero settings, carried":   {request: AccessRequest{By: gardener, Annotation: &annJSON}, wantDeny: "not allowed to set user annotation"},
		"create, own name carried":         {control: usual, request: AccessRequest{By: dave, Annotation: text(dave.String())}, wantDeny: "not allowed to set user annotation"},
		"create, controllers not trusted":  {control: wary, request: AccessRequest{By: gardener, Annotation: &annJSON}, wantDeny: "not allowed to set user annotation"},
		"create, trusted, conflicting":     {control: usual, request: AccessRequest{By: gardener, Annotation: text(`{"user":"a","username":"b"}`)}, wantDeny: "invalid"},
		"create, bypass, invalid":          {control: open, request: AccessRequest{By: dave, Annotation: text("")}, wantDeny: "invalid"},
		"create, bypass, label":            {control: open, request: AccessRequest{By: dave, Label: text("eve")}},
		"create, bypass, empty label":      {control: open, request: AccessRequest{By: dave, Label: text("")}, wantStamp: true},
		"create, bypass, neither":          {control: open, request: AccessRequest{By: dave}, wantStamp: true},
		"create, bypass, both":             {control: open, request: AccessRequest{By: dave, Annotation: &annJSON, Label: text("eve")}},
		"update, neither":                  {control: usual, request: AccessRequest{Update: true, By: dave}},
		"update, neither, bypass":          {control: open, request: AccessRequest{Update: true, By: dave}},
		"update, same, label changed":      {control: usual, request: AccessRequest{Update: true, By: dave, Annotation: &annJSON, OldAnnotation: &annJSON, Label: text("eve")}},
		"update, same, both empty":         {control: usual, request: AccessRequest{Update: true, By: dave, Annotation: text(""), OldAnnotation: text("")}},
		"update, same to a reader":         {control: open, request: AccessRequest{Update: true, By: gardener, Annotation: text(`{"user": "ann"}`), OldAnnotation: &annJSON}, wantDeny: "change is not allowed"},
		"update, removed by trusted":       {control: usual, request: AccessRequest{Update: true, By: gardener, OldAnnotation: &annJSON}, wantDeny: "change is not allowed"},
		"update, emptied":                  {control: open, request: AccessRequest{Update: true, By: dave, Annotation: text(""), OldAnnotation: &annJSON}, wantDeny: "change is not allowed"},
		"update, added by trusted":         {control: usual, request: AccessRequest{Update: true, By: gardener, Annotation: &annJSON}},
		"update, added by trusted, broken": {control: usual, request: AccessRequest{Update: true, By: gardener, Annotation: text("{}")}, wantDeny: "invalid"},
		"update, added under bypass":       {control: open, request: AccessRequest{Update: true, By: dave, Annotation: &annJSON}},
		"update, added beside a label":     {control: open, request: AccessRequest{Update: true, By: dave, Annotation: &annJSON, OldLabel: text("eve")}},
		"update, added, empty":             {control: usual, request: AccessRequest{Update: true, By: dave, Annotation: text("")}, wantDeny: "not allowed to set user annotation"},
		"update, label same":               {control: usual, request: AccessRequest{Update: true, By: dave, Label: text("eve"), OldLabel: text("eve")}},
		"update, label added":              {control: usual, request: AccessRequest{Update: true, By: dave, Label: text("eve")}, wantDeny: "label"},
		"update, label emptied":            {control: usual, request: AccessRequest{Update: true, By: dave, Label: text(""), OldLabel: text("eve")}, wantDeny: "label"},
		"update, label removed":            {control: usual, request: AccessRequest{Update: true, By: gardener, OldLabel: text("eve")}, wantDeny: "label"},
		"queue, by the submitter": {control: usual, request: AccessRequest{Update: true, By: Identity{User: "ann"},
			Annotation: &annJSON, OldAnnotation: &annJSON, Queue: "root.b", OldQueue: "root.a"}},
		"queue, by the label's user": {control: usual, request: AccessRequest{Update: true, By: dave, Label: text("dave"), OldLabel: text("dave"), OldQueue: "root.a"}},
		"queue, by another": {control: usual, request: AccessRequest{Update: true, By: dave,
			Annotation: &annJSON, OldAnnotation: &annJSON, OldQueue: "root.a"}, wantDeny: "may not change the requested queue"},
		"queue, by an administrator": {control: usual, request: AccessRequest{Update: true, By: dave,
			Annotation: &annJSON, OldAnnotation: &annJSON, Queue: "root.b", Administers: yes}},
		"queue, trust is no right": {control: usual, request: AccessRequest{Update: true, By: gardener,
			Annotation: &annJSON, OldAnnotation: &annJSON, Queue: "root.b"}, wantDeny: "may not change the requested queue"},
		"queue, only its case": {control: usual, request: AccessRequest{Update: true, By: dave, Queue: "root.B", OldQueue: "ROOT.b"}},
		"queue, nobody's Placement": {control: usual, request: AccessRequest{Update: true, By: Identity{User: Nobody},
			Queue: "root.b"}, wantDeny: "may not change the requested queue"},
		"queue, an unreadable submitter": {control: usual, request: AccessRequest{Update: true, By: Identity{},
			Annotation: text(""), OldAnnotation: text(""), Queue: "root.b"}, wantDeny: "may not change the requested queue"},
		"queue, named in the same write": {control: open, request: AccessRequest{Update: true, By: dave,
			Annotation: text(dave.String()), Queue: "root.b"}, wantDeny: "may not change the requested queue"},
		"queue, an administrator forging": {control: usual, request: AccessRequest{Update: true, By: dave,
			OldAnnotation: &annJSON, Queue: "root.b", Administers: yes}, wantDeny: "change is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.control.Decide(tc.request)
			if got.Allowed != (tc.wantDeny == "") || !strings.Contains(got.Reason, tc.wantDeny) {
				t.Errorf("allowed %t, %q; want a denial with %q", got.Allowed, got.Reason, tc.wantDeny)
			}
			var want *Identity
			if tc.wantStamp {
				want = &tc.request.By
			}
			if diff := cmp.Diff(want, got.Stamp); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAccessVerify(t *testing.T) {
	usual, _ := ParseAccessControl(nil)
	open, _ := ParseAccessControl(map[string]string{accessPrefix + "bypassAuth": "true"})
	stamp, label := dave.String(), "eve"
	for name, tc := range map[string]struct {
		control  AccessControl
		request  AccessRequest
		wantDeny string
	}{
		"stamped":                   {control: usual, request: AccessRequest{By: dave, Annotation: &stamp}},
		"stamped for another":       {control: usual, request: AccessRequest{By: Identity{User: "eve"}, Annotation: &stamp}, wantDeny: "not allowed to set user annotation"},
		"other groups":              {control: usual, request: AccessRequest{By: Identity{User: "dave", Groups: []string{"ops"}}, Annotation: &stamp}, wantDeny: "not allowed to set user annotation"},
		"stamp taken away":          {control: usual, request: AccessRequest{By: dave}, wantDeny: "missing"},
		"label instead":             {control: usual, request: AccessRequest{By: dave, Label: &label}, wantDeny: "missing"},
		"label, bypass":             {control: open, request: AccessRequest{By: dave, Label: &label}},
		"carried by trusted":        {control: usual, request: AccessRequest{By: gardener, Annotation: &annJSON}},
		"stamp added by an update":  {control: usual, request: AccessRequest{Update: true, By: dave, Annotation: &stamp}, wantDeny: "not allowed to set user annotation"},
		"changed to the own name":   {control: usual, request: AccessRequest{Update: true, By: dave, Annotation: &stamp, OldAnnotation: &annJSON}, wantDeny: "change is not allowed"},
		"left alone":                {control: usual, request: AccessRequest{Update: true, By: dave, Annotation: &annJSON, OldAnnotation: &annJSON}},
		"never had one, left alone": {control: usual, request: AccessRequest{Update: true, By: dave}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.control.Verify(tc.request)
			if got.Allowed != (tc.wantDeny == "") || !strings.Contains(got.Reason, tc.wantDeny) || got.Stamp != nil {
				t.Errorf("got %+v; want a denial with %q", got, tc.wantDeny)
			}
		})
	}
}

// The zero value of Administers aside, it is asked only where the answer hangs on it.
func TestAccessAsksForAdministratorsLast(t *testing.T) {
	usual, _ := ParseAccessControl(nil)
	unasked := func() bool { t.Error("asked"); return true }
	usual.Decide(AccessRequest{Update: true, By: Identity{User: "ann"}, Annotation: &annJSON, OldAnnotation: &annJSON, Queue: "root.b", Administers: unasked})
	usual.Decide(AccessRequest{Update: true, By: dave, Annotation: &annJSON, OldAnnotation: &annJSON, Administers: unasked})
	usual.Decide(AccessRequest{Update: true, By: dave, OldAnnotation: &annJSON, Queue: "root.b", Administers: unasked})
	usual.Decide(AccessRequest{By: dave, Queue: "root.b", Administers: unasked})
}

func TestParseAccessControl(t *testing.T) {
	type shown struct {
		Bypass, Trust         bool
		System, Users, Groups string
	}
	defaults := shown{Trust: true, System: defaultSystemUsers}
	for name, tc := range map[string]struct {
		settings     map[string]string // without the prefix
		change       func(*shown)
		wantWarnings int
	}{
		"nothing":                    {},
		"all":                        {settings: map[string]string{"bypassAuth": "T", "trustControllers": "0", "systemUsers": "a, b", "externalUsers": "^c$", "externalGroups": "d"}, change: func(s *shown) { *s = shown{Bypass: true, System: "a|b", Users: "^c$", Groups: "d"} }},
		"empty lists match nobody":   {settings: map[string]string{"systemUsers": "", "externalUsers": " , ,"}, change: func(s *shown) { s.System = "" }},
		"bad booleans":               {settings: map[string]string{"bypassAuth": "yes", "trustControllers": ""}, wantWarnings: 2},
		"bad expressions":            {settings: map[string]string{"systemUsers": "a,(", "externalUsers": "a,[", "externalGroups": "*"}, wantWarnings: 3},
		"unknown":                    {settings: map[string]string{"externalUser": ".*"}, wantWarnings: 1},
		"one bad harms only itself":  {settings: map[string]string{"bypassAuth": "maybe", "externalUsers": "u"}, change: func(s *shown) { s.Users = "u" }, wantWarnings: 1},
		"keys have but one spelling": {settings: map[string]string{"BypassAuth": "true"}, wantWarnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			settings := map[string]string{"queues.yaml": "partitions: []", "log.level": "7"}
			for key, value := range tc.settings {
				settings[accessPrefix+key] = value
			}
			control, warnings := ParseAccessControl(settings)
			if len(warnings) != tc.wantWarnings {
				t.Errorf("warnings %q, want %d", warnings, tc.wantWarnings)
			}
			want := defaults
			if tc.change != nil {
				tc.change(&want)
			}
			got := shown{control.BypassAuth, control.TrustControllers,
				shownExpressions(control.SystemUsers), shownExpressions(control.ExternalUsers), shownExpressions(control.ExternalGroups)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func shownExpressions(expressions []*regexp.Regexp) string {
	var texts []string
	for _, e := range expressions {
		texts = append(texts, e.String())
	}
	return strings.Join(texts, "|")
}

// Whatever the settings, they are read, and who is neither trusted nor under bypass cannot name
// another.
func TestSettingsAreBounded(t *testing.T) {
	settings := map[string]string{"admissionController.accessControl.bypassAuth": strings.Repeat("x", 500000)}
	for i := range 10000 {
		settings[fmt.Sprintf("admissionController.accessControl.s%d", i)] = "x"
	}
	settings["admissionController.accessControl.systemUsers"] = strings.Repeat("a{1000},", 1000)
	_, warnings := ParseAccessControl(settings)
	if len(warnings) > maxWarnings {
		t.Errorf("%d warnings", len(warnings))
	}
	for _, warning := range warnings {
		if len(warning) > tenancy.MaxMessage {
			t.Fatalf("a warning of %d bytes", len(warning))
		}
	}
}

func FuzzParseAccessControl(f *testing.F) {
	f.Add("true", "false", "^system:", "a,b", "^g$", "dave")
	f.Add("", "x", "(", "*,[", ",", "")
	f.Fuzz(func(t *testing.T, bypass, trust, system, users, groups, user string) {
		control, _ := ParseAccessControl(map[string]string{
			accessPrefix + "bypassAuth": bypass, accessPrefix + "trustControllers": trust, accessPrefix + "systemUsers": system,
			accessPrefix + "externalUsers": users, accessPrefix + "externalGroups": groups,
		})
		by := Identity{User: user, Groups: []string{"dev"}}
		got := control.Decide(AccessRequest{By: by, Annotation: &annJSON})
		if want := control.BypassAuth || control.trusts(by); got.Allowed != want {
			t.Fatalf("allowed %t, want %t", got.Allowed, want)
		}
	})
}
