package tenancy

import (
	"regexp"
	"slices"
	"strings"
)

// Filter selects the users to which a rule applies. The zero Filter admits everyone. A Filter that
// denies, without users and groups, admits nobody.
type Filter struct {
	deny          bool
	users, groups *nameList // nil where there is no list
}

// NewFilter compiles a filter. It returns messages about unusable entries of users and of groups,
// by index. The kind deny, in any letter case, inverts it. instructions sums the sizes of all
// expressions.
func NewFilter(kind string, users, groups []string, instructions *int) (f Filter, unusable [2]map[int]string) {
	f.deny = strings.EqualFold(kind, "deny")
	f.users, unusable[0] = newNameList(users, plainUser, instructions)
	f.groups, unusable[1] = newNameList(groups, plainGroup, instructions)
	return f, unusable
}

// nameList matches names from a list, or by a regular expression. Without usable entries it matches
// no name.
type nameList struct {
	names   []string
	pattern *regexp.Regexp
}

// newNameList parses the entries of a filter's users or groups and returns messages about unusable
// ones by index. A single entry with a character that no name has is an unanchored regular
// expression; several entries must all be names.
func newNameList(entries []string, plain *regexp.Regexp, instructions *int) (list *nameList, unusable map[int]string) {
	if len(entries) == 0 {
		return nil, nil
	}
	list, unusable = &nameList{}, map[int]string{}
	for i, entry := range entries {
		switch {
		case plain.MatchString(entry):
			list.names = append(list.names, entry)
		case entry == "":
			unusable[i] = "the empty entry is ignored"
		case len(entries) > 1:
			unusable[i] = Messagef("%q is ignored: it is not a legal name, and a regular expression must be the only entry", entry)
		default:
			var err error
			if list.pattern, err = CompilePattern(entry, instructions); err != nil {
				unusable[i] = Messagef("%q is ignored: it is neither a legal name nor a regular expression: %v", entry, err)
			}
		}
	}
	return list, unusable
}

// matches is true if one of the names matches.
func (l *nameList) matches(names ...string) bool {
	return l != nil && slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(l.names, name) || l.pattern != nil && l.pattern.MatchString(name)
	})
}

// Admits is true if the rule applies to the user.
func (f Filter) Admits(user string, groups []string) bool {
	if f.users == nil && f.groups == nil {
		return !f.deny
	}
	return (f.users.matches(user) || f.groups.matches(groups...)) != f.deny
}
