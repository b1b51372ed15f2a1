package identity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		want    Identity
		wantErr string
	}{
		"username":                   {text: `{"username":"john","groups":["dev","ops"]}`, want: Identity{User: "john", Groups: []string{"dev", "ops"}}},
		"user":                       {text: `{"user":"john"}`, want: Identity{User: "john"}},
		"both, agreeing":             {text: `{"user":"john","username":"john"}`, want: Identity{User: "john"}},
		"spread over lines":          {text: "{\n  \"username\": \"john\",\n  \"groups\": [\n    \"dev\"\n  ]\n}", want: Identity{User: "john", Groups: []string{"dev"}}},
		"no groups is an answer":     {text: `{"user":"john","groups":[]}`, want: Identity{User: "john", Groups: []string{}}},
		"null groups are not known":  {text: `{"user":"john","groups":null}`, want: Identity{User: "john"}},
		"other keys":                 {text: `{"user":"john","uid":7,"extra":{"a":[1]}}`, want: Identity{User: "john"}},
		"both, conflicting":          {text: `{"user":"john","username":"eve"}`, wantErr: "differ"},
		"one of both empty":          {text: `{"user":"","username":"eve"}`, wantErr: "empty"},
		"empty name":                 {text: `{"username":""}`, wantErr: "empty"},
		"no name":                    {text: `{}`, wantErr: "is required"},
		"groups only":                {text: `{"groups":["dev"]}`, wantErr: "is required"},
		"null name":                  {text: `{"user":null}`, wantErr: "not a string"},
		"a number":                   {text: `{"user":7}`, wantErr: "not a string"},
		"keys have one spelling":     {text: `{"USER":"john"}`, wantErr: "is required"},
		"a key twice":                {text: `{"user":"john","user":"eve"}`, wantErr: "twice"},
		"a key twice, once escaped":  {text: `{"user":"john","\u0075ser":"eve"}`, wantErr: "twice"},
		"groups are no string":       {text: `{"user":"john","groups":"dev"}`, wantErr: "groups"},
		"groups of numbers":          {text: `{"user":"john","groups":[1]}`, wantErr: "groups"},
		"groups of null":             {text: `{"user":"john","groups":[null]}`, wantErr: "groups"},
		"empty":                      {text: ``, wantErr: "JSON"},
		"no JSON":                    {text: `xyzxyz`, wantErr: "JSON"},
		"null":                       {text: `null`, wantErr: "JSON"},
		"a list":                     {text: `["john"]`, wantErr: "JSON"},
		"cut off":                    {text: `{"user":"john"`, wantErr: "JSON"},
		"two objects":                {text: `{"user":"john"}{"user":"eve"}`, wantErr: "unexpected text"},
		"keys without quotation":     {text: `{username: "yunikorn"}`, wantErr: "JSON"},
		"a comma too many":           {text: `{"user":"john",}`, wantErr: "JSON"},
		"service accounts' spelling": {text: `{"user":"system:serviceaccount:a:b"}`, want: Identity{User: "system:serviceaccount:a:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.text)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want one with %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestString(t *testing.T) {
	for want, identity := range map[string]Identity{
		`{"user":"john","username":"john","groups":["dev"]}`: {User: "john", Groups: []string{"dev"}},
		`{"user":"john","username":"john","groups":[]}`:      {User: "john"},
	} {
		if got := identity.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestRead(t *testing.T) {
	annotated := map[string]string{UserInfoAnnotation: `{"user":"ann"}`}
	labelled := map[string]string{"who": "lab"}
	for name, tc := range map[string]struct {
		annotations, labels map[string]string
		want                string
		wantErr             bool
	}{
		"annotation":               {annotations: annotated, want: "ann"},
		"annotation before label":  {annotations: annotated, labels: labelled, want: "ann"},
		"label":                    {labels: labelled, want: "lab"},
		"another key's label":      {labels: map[string]string{DefaultUserLabel: "lab"}, want: Nobody},
		"empty label":              {labels: map[string]string{"who": ""}, want: Nobody},
		"nothing":                  {want: Nobody},
		"bad annotation, no label": {annotations: map[string]string{UserInfoAnnotation: ""}, wantErr: true},
		"bad annotation, label":    {annotations: map[string]string{UserInfoAnnotation: "{}"}, labels: labelled, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(tc.annotations, tc.labels, "who")
			if (err != nil) != tc.wantErr || got.User != tc.want {
				t.Errorf("got %q and %v, want %q and error %t", got.User, err, tc.want, tc.wantErr)
			}
		})
	}
	if got, _ := Read(nil, map[string]string{DefaultUserLabel: "lab"}, ""); got.User != "lab" {
		t.Errorf("without a key, the default label's user is %q", got.User)
	}
}

// Every accepted value names a user, and is the same again when written and read once more.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"user":"john","groups":["dev"]}`, `{"username":"john"}`, `{"user":"a","username":"b"}`, `{}`, `null`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		identity, err := Parse(text)
		if err != nil {
			return
		}
		if identity.User == "" {
			t.Fatalf("%q names nobody", text)
		}
		again, err := Parse(identity.String())
		if err != nil {
			t.Fatalf("%q was accepted, %s is not: %v", text, identity, err)
		}
		if identity.Groups == nil {
			identity.Groups = []string{}
		}
		if diff := cmp.Diff(identity, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
