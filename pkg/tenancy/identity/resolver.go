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
	resolverTTL = 300 * time.Second
	// FailureTTL is how long a GroupResolver caches that it did not find a user.
	FailureTTL = 30 * time.Second
)

// GroupResolver looks up the groups of users whose identity does not contain them. It caches groups
// for 300 seconds and failures for 30 seconds. It is safe for concurrent use.
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
//	os              the groups of this machine: the primary one, then the others; by number if a
//	                group has no name
//	test            four test users, testuser1 to testuser4
//
// It returns an error for any other type.
func NewGroupResolver(kind string, now func() time.Time) (*GroupResolver, error) {
	lookup := resolverLookup(kind)
	if lookup == nil {
		return nil, errors.New(tenancy.Messagef("unknown usergroupresolver.type %q: it must be none, os or test", kind))
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

// Resolve returns the identity with its groups. It looks them up only if they are unknown, and
// returns an error if it does not find the user.
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
	// Remove expired entries, because clients can name any number of users.
	if now.Sub(r.swept) >= resolverTTL {
		for name, found := range r.known {
			if !now.Before(found.until) {
				delete(r.known, name)
			}
		}
		r.swept = now
	}
	found := resolved{until: now.Add(resolverTTL)}
	if found.groups, found.err = r.lookup(name); found.err != nil {
		found.until = now.Add(FailureTTL)
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
	// The primary group need not be first in the list.
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
