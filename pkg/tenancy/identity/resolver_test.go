package identity

import (
	"errors"
	"os/user"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGroupResolver(t *testing.T) {
	for name, tc := range map[string]struct {
		kind    string
		who     Identity
		want    []string
		wantErr bool
	}{
		"none by default":         {who: Identity{User: "dave"}, want: []string{"dave"}},
		"none":                    {kind: "none", who: Identity{User: "dave"}, want: []string{"dave"}},
		"groups that are known":   {kind: "none", who: Identity{User: "dave", Groups: []string{"dev"}}, want: []string{"dev"}},
		"no groups, and known":    {kind: "test", who: Identity{User: "testuser1", Groups: []string{}}, want: []string{}},
		"test 1":                  {kind: "test", who: Identity{User: "testuser1"}, want: []string{"group1000", "group1001"}},
		"test 2":                  {kind: "test", who: Identity{User: "testuser2"}, want: []string{"100", "group1001", "group1002"}},
		"test 3":                  {kind: "test", who: Identity{User: "testuser3"}, want: []string{"group1001", "group1002", "group1003", "group1004"}},
		"test 4":                  {kind: "test", who: Identity{User: "testuser4"}, want: []string{"901", "902"}},
		"test, unknown user":      {kind: "test", who: Identity{User: "dave"}, wantErr: true},
		"os, unknown user":        {kind: "os", who: Identity{User: "no such user: at all"}, wantErr: true},
		"os, unknown user, known": {kind: "os", who: Identity{User: "no such user", Groups: []string{"dev"}}, want: []string{"dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			resolver, err := NewGroupResolver(tc.kind, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			got, err := resolver.Resolve(tc.who)
			if (err != nil) != tc.wantErr {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, got.Groups); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGroupResolverKinds(t *testing.T) {
	for kind, want := range map[string]bool{"": true, "none": true, "os": true, "test": true, "ldap": false, "OS": false} {
		_, err := NewGroupResolver(kind, time.Now)
		if (err == nil) != want || KnownGroupResolver(kind) != want {
			t.Errorf("%q: known %t, error %v; want known %t", kind, KnownGroupResolver(kind), err, want)
		}
	}
}

func TestGroupResolverAsksTheMachine(t *testing.T) {
	account, err := user.Lookup("root")
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := NewGroupResolver("os", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := resolver.Resolve(Identity{User: "root"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Groups) == 0 || got.Groups[0] != groupName(account.Gid) {
		t.Errorf("groups %q do not begin with the primary one, %q", got.Groups, groupName(account.Gid))
	}
	if got := groupName("4000000001"); got != "4000000001" {
		t.Errorf("a group without a name is called %q", got)
	}
}

func TestGroupResolverRemembers(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	asked := map[string]int{}
	resolver, err := NewGroupResolver("none", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	resolver.lookup = func(name string) ([]string, error) {
		asked[name]++
		if name == "stranger" {
			return nil, errors.New("unknown")
		}
		return []string{name}, nil
	}
	for _, step := range []struct {
		later                    time.Duration
		wantFriend, wantStranger int
	}{
		{0, 1, 1}, {29 * time.Second, 1, 1}, {time.Second, 1, 2}, {269 * time.Second, 1, 3}, {time.Second, 2, 3},
	} {
		now = now.Add(step.later)
		if got, err := resolver.Resolve(Identity{User: "friend"}); err != nil || !cmp.Equal(got.Groups, []string{"friend"}) {
			t.Fatalf("got %v and %v", got, err)
		}
		if _, err := resolver.Resolve(Identity{User: "stranger"}); err == nil {
			t.Fatal("a stranger was resolved")
		}
		if asked["friend"] != step.wantFriend || asked["stranger"] != step.wantStranger {
			t.Errorf("after %s: asked %v, want %d and %d", step.later, asked, step.wantFriend, step.wantStranger)
		}
	}
	now = now.Add(time.Hour)
	if _, err := resolver.Resolve(Identity{User: "other"}); err != nil {
		t.Fatal(err)
	}
	if len(resolver.known) != 1 {
		t.Errorf("%d users are remembered after an hour, want 1", len(resolver.known))
	}
}
