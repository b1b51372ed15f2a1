package tenancy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
)

func TestACL(t *testing.T) {
	for name, tc := range map[string]struct {
		text        string
		wantUsers   []string // of ann, bob, svc$, system:serviceaccount:ci:bot, o'hara, with no group
		wantGroups  []string // of dev, ops, bob, 100, a GUID, for a user nobody
		wantDropped []string
		wantErr     bool
	}{
		"unset":                              {text: ""},
		"set and nobody":                     {text: " "},
		"users":                              {text: "ann,bob", wantUsers: []string{"ann", "bob"}},
		"a blank after the comma":            {text: "ann, bob", wantUsers: []string{"ann"}, wantGroups: []string{"bob"}},
		"users with a trailing blank":        {text: "ann ", wantUsers: []string{"ann"}},
		"groups":                             {text: " dev,ops", wantGroups: []string{"dev", "ops"}},
		"service accounts and machines":      {text: "system:serviceaccount:ci:bot,svc$", wantUsers: []string{"svc$", "system:serviceaccount:ci:bot"}},
		"everyone":                           {text: "*", wantUsers: everyUser, wantGroups: everyGroup},
		"everyone by groups":                 {text: " *", wantUsers: everyUser, wantGroups: everyGroup},
		"everyone beside groups":             {text: "* dev", wantUsers: everyUser, wantGroups: everyGroup},
		"everyone beside users":              {text: "ann *", wantUsers: everyUser, wantGroups: everyGroup},
		"a wildcard in a list is no name":    {text: "*,ann dev,*", wantUsers: []string{"ann"}, wantGroups: []string{"dev"}, wantDropped: []string{"*", "*"}},
		"illegal names":                      {text: "o'hara,ann #dev", wantUsers: []string{"ann"}, wantDropped: []string{"o'hara", "#dev"}},
		"names differ by case":               {text: "Ann DEV"},
		"numbers and GUIDs are groups":       {text: "7up 100,9b9b5c4e-0a4d-4e60", wantGroups: []string{"100", "9b9b5c4e-0a4d-4e60"}, wantDropped: []string{"7up"}},
		"two blanks":                         {text: "  ", wantErr: true},
		"three fields":                       {text: "ann dev ops", wantErr: true},
		"a leading and a separating blank":   {text: " ann dev", wantErr: true},
		"a group's name may have no at sign": {text: " dev@x", wantDropped: []string{"dev@x"}},
	} {
		t.Run(name, func(t *testing.T) {
			acl, dropped, err := tenancy.ParseACL(tc.text)
			if (err != nil) != tc.wantErr {
				t.Fatalf("error %v", err)
			}
			var users, groups []string
			for _, user := range everyUser {
				if acl.Allows(user, nil) {
					users = append(users, user)
				}
			}
			for _, group := range everyGroup {
				if acl.Allows("nobody", []string{"none", group}) {
					groups = append(groups, group)
				}
			}
			if diff := cmp.Diff([][]string{tc.wantUsers, tc.wantGroups, tc.wantDropped}, [][]string{users, groups, dropped}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if set := tc.text != "" && !tc.wantErr; acl.IsSet() != set {
				t.Errorf("set: want %t", set)
			}
		})
	}
}

var (
	everyUser  = []string{"ann", "bob", "svc$", "system:serviceaccount:ci:bot", "o'hara"}
	everyGroup = []string{"dev", "ops", "bob", "100", "9b9b5c4e-0a4d-4e60"}
)

func FuzzACL(f *testing.F) {
	for _, text := range []string{"", " ", "*", "a,b c", "* *", "ann  dev", "svc$ x"} {
		f.Add(text, "ann", "dev")
	}
	f.Fuzz(func(t *testing.T, text, user, group string) {
		acl, _, err := tenancy.ParseACL(text)
		if blanks := strings.Count(text, " "); (err != nil) != (blanks > 1) {
			t.Fatalf("%d blanks, error %v", blanks, err)
		}
		if err != nil {
			return
		}
		if acl.String() != text {
			t.Errorf("%q became %q", text, acl)
		}
		if acl.Allows(user, nil) && !acl.Allows(user, []string{group}) {
			t.Error("a group takes away what the user has")
		}
		if !acl.Allows(user, []string{group}) {
			return
		}
		users, groups, _ := strings.Cut(text, " ")
		if !strings.Contains(users, user) && !strings.Contains(groups, group) && users != "*" && groups != "*" {
			t.Errorf("%q grants user %q and group %q, whom it does not name", text, user, group)
		}
	})
}
