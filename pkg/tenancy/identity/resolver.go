package identity

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/pkg/tenancy"
)

const (
	resolverKeeps = 300 * time.Second
	// FailureKept is how long a GroupResolver remembers that it did not find a user.
	FailureKept = 30 * time.Second
)

// GroupResolver finds the groups of users whose identity does not say them, and remembers what it
// found for 300 seconds and that it found nothing for 30. Its methods may be called from any
// goroutine.
type GroupResolver struct {
	lookup func(user string) ([]string, error)
	now    func() time.Time

	mu    sync.Mutex
	known map[string]resolved
	swept time.Time
}

type resolved struct {
	groups []string
	err    error
	until  time.Time
}

// KnownGroupResolver is true if usergroupresolver.type of a partition may have this value.
func KnownGroupResolver(kind string) bool { return resolverLookup(kind) != nil }

// NewGroupResolver builds the resolver that a partition's usergroupresolver.type names:
//
//	(empty), none   a user is in the one group of the user's own name
//	os              the groups of this machine: the primary one, then the others; by number where it has no name
//	test            four made-up users, testuser1 to testuser4
//
// It returns an error for any other type.
func NewGroupResolver(kind string, now func() time.Time) (*GroupResolver, error) {
	lookup := resolverLookup(kind)
	if lookup == nil {
		return nil, errors.New(tenancy.Messagef("unknown user group resolver %q: there are none, os and test", kind))
	}
	return &GroupResolver{lookup: lookup, now: now, known: map[string]resolved{}}, nil
}

func resolverLookup(kind string) func(string) ([]string, error) {
	switch kind {
	case "", "none":
		return func(name string) ([]string, error) { return []string{name}, nil }
	case "os":
		return osGroups
	case "test":
		return testGroups
	}
	return nil
}

// Resolve returns the identity with its groups, which it looks up only where the identity does not
// say them. It returns an error for a user that the resolver does not know.
func (r *GroupResolver) Resolve(identity Identity) (Identity, error) {
	if identity.Groups != nil {
		return identity, nil
	}
	found := r.find(identity.User)
	if found.err != nil {
		return Identity{}, fmt.Errorf("finding the groups of user %s: %w", tenancy.Quote(identity.User), found.err)
	}
	identity.Groups = slices.Clone(found.groups)
	return identity, nil
}

func (r *GroupResolver) find(name string) resolved {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if found, ok := r.known[name]; ok && now.Before(found.until) {
		return found
	}
	// Anybody can name users that are never asked for again.
	if now.Sub(r.swept) >= resolverKeeps {
		for name, found := range r.known {
			if !now.Before(found.until) {
				delete(r.known, name)
			}
		}
		r.swept = now
	}
	found := resolved{until: now.Add(resolverKeeps)}
	if found.groups, found.err = r.lookup(name); found.err != nil {
		found.until = now.Add(FailureKept)
	}
	r.known[name] = found
	return found
}

func osGroups(name string) ([]string, error) {
	account, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	ids, err := account.GroupIds()
	if err != nil {
		return nil, err
	}
	// The primary group is where the account says, and need not be first among all.
	groups := []string{groupName(account.Gid)}
	for _, id := range ids {
		if id != account.Gid {
			groups = append(groups, groupName(id))
		}
	}
	return groups, nil
}

func groupName(id string) string {
	group, err := user.LookupGroupId(id)
	if err != nil {
		return id
	}
	return group.Name
}

func testGroups(name string) ([]string, error) {
	switch name {
	case "testuser1":
		return []string{"group1000", "group1001"}, nil
	case "testuser2":
		return []string{"100", "group1001", "group1002"}, nil
	case "testuser3":
		return []string{"group1001", "group1002", "group1003", "group1004"}, nil
	case "testuser4":
		return []string{"901", "902"}, nil
	}
	return nil, errors.New("the user is unknown")
}
