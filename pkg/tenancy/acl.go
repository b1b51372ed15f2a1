package tenancy

import (
	"errors"
	"slices"
	"strings"
)

// ACL is an access list: users and groups by name, or everyone. The zero ACL is unset.
type ACL struct {
	text     string
	everyone bool
	users    []string
	groups   []string
}

// ParseACL parses "users groups": two comma-separated lists with one blank between them. Each may
// be empty. The list "*" means everyone. The empty text is an unset list; one blank is a list that
// grants no user. Illegal names grant nothing and are returned in dropped.
func ParseACL(text string) (acl ACL, dropped []string, err error) {
	fields := strings.Split(text, " ")
	if len(fields) > 2 {
		return ACL{}, nil, errors.New(Messagef("multiple spaces found in the access list %q: exactly one space must separate the users from the groups", text))
	}
	acl.text = text
	acl.everyone = slices.Contains(fields, Wildcard)
	for i, field := range fields {
		for name := range strings.SplitSeq(field, ",") {
			switch {
			case name == "" || field == Wildcard:
			case i == 0 && legalUser.MatchString(name):
				acl.users = append(acl.users, name)
			case i == 1 && legalGroup.MatchString(name):
				acl.groups = append(acl.groups, name)
			default:
				dropped = append(dropped, name)
			}
		}
	}
	return acl, dropped, nil
}

// IsSet is true if the list was written, even if it grants no user access.
func (a ACL) IsSet() bool { return a.text != "" }

// String is the list as written.
func (a ACL) String() string { return a.text }

// Allows is true if the list grants the user, by name or by a group. Names are case-sensitive.
func (a ACL) Allows(user string, groups []string) bool {
	return a.everyone || slices.Contains(a.users, user) ||
		slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(a.groups, group) })
}
