package tenancy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func makeFilter(kind string, users, groups []string) Filter {
	f, _ := NewFilter(kind, users, groups, new(int))
	return f
}

func TestFilter(t *testing.T) {
	for name, tc := range map[string]struct {
		kind          string
		users, groups []string
		want          []string // of these users, each in the group of the same name, who is let through
	}{
		"no lists, allow":            {kind: "allow", want: []string{"ann", "bob", "bobby", "svc$"}},
		"no lists, deny":             {kind: "deny"},
		"one name is no pattern":     {users: []string{"bob"}, want: []string{"bob"}},
		"one pattern, unanchored":    {users: []string{"bob*"}, want: []string{"bob", "bobby"}},
		"denied":                     {kind: "DENY", users: []string{"bob*"}, want: []string{"ann", "svc$"}},
		"several names":              {users: []string{"bob", "ann", "bob"}, want: []string{"ann", "bob"}},
		"no pattern among names":     {users: []string{"ann", "bo.*"}, want: []string{"ann"}},
		"a pattern written twice":    {users: []string{"bo.*", "bo.*"}},
		"nothing usable, denied":     {kind: "deny", users: []string{"bo[", "an["}, want: []string{"ann", "bob", "bobby", "svc$"}},
		"no regular expression":      {users: []string{"bo["}},
		"the empty name":             {users: []string{""}},
		"users or groups":            {users: []string{"ann"}, groups: []string{"^bobb"}, want: []string{"ann", "bobby"}},
		"a name that ends in dollar": {users: []string{"svc$"}, want: []string{"svc$"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := makeFilter(tc.kind, tc.users, tc.groups)
			var got []string
			for _, user := range []string{"ann", "bob", "bobby", "svc$"} {
				if f.Admits(user, []string{"other", user}) {
					got = append(got, user)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFilterEntryThatBeginsWithADigit is compared as a whole: in filters of users and of groups,
// alone and among others.
func TestFilterEntryThatBeginsWithADigit(t *testing.T) {
	for name, tc := range map[string]struct {
		users, groups []string
		want          []string // the users, each in the group of the same name, to whom the rule applies
	}{
		"a number of a group":                  {groups: []string{"100"}, want: []string{"100"}},
		"numbers of groups":                    {groups: []string{"100", "1001"}, want: []string{"100", "1001"}},
		"a GUID of a group":                    {groups: []string{"9b9b5c4e-0a4d-4e60-9a5e-0242ac120002"}, want: []string{"9b9b5c4e-0a4d-4e60-9a5e-0242ac120002"}},
		"a number of a user":                   {users: []string{"100"}, want: []string{"100"}},
		"a text of characters that names have": {groups: []string{".1"}},
		"an expression with a digit":           {groups: []string{"^100"}, want: []string{"100", "1001"}},
		"an expression of digits":              {groups: []string{"1001*"}, want: []string{"100", "1001", "group1001"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := makeFilter("", tc.users, tc.groups)
			var got []string
			for _, user := range []string{"100", "1001", "group1001", "9b9b5c4e-0a4d-4e60-9a5e-0242ac120002", "x9b9b5c4e-0a4d-4e60-9a5e-0242ac120002"} {
				if f.Admits(user, []string{user}) {
					got = append(got, user)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzFilter(f *testing.F) {
	f.Add("ann", "dev*", "ann", "dev")
	f.Add("ann\nbob", "", "svc$", "dev")
	f.Add("(", "a{1000}{1000}", "a", "b")
	f.Fuzz(func(t *testing.T, userLines, groupLines, user, group string) {
		entries := func(lines string) []string {
			return slices.DeleteFunc(strings.Split(lines, "\n"), func(entry string) bool { return entry == "" })
		}
		users, groups := entries(userLines), entries(groupLines)
		allowed := makeFilter("allow", users, groups).Admits(user, []string{group})
		denied := !makeFilter("deny", users, groups).Admits(user, []string{group})
		if len(users)+len(groups) > 0 && allowed != denied {
			t.Errorf("allow %t, deny %t", allowed, denied)
		}
		if legalUser.MatchString(user) && slices.Contains(users, user) && !allowed {
			t.Error("a user who is listed is not allowed")
		}
		if allowed && !makeFilter("", users, groups).Admits(user, []string{"other", group}) {
			t.Error("another group takes away what a group gives")
		}
		if len(users) < 2 {
			return
		}
		again := makeFilter("allow", append(users, users...), groups).Admits(user, []string{group})
		if again != allowed {
			t.Error("duplicates matter")
		}
	})
}
