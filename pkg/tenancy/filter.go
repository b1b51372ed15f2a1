package tenancy

import (
	"regexp"
	"slices"
	"strings"
)

// filter says whom a rule is for. The zero filter admits everyone.
type filter struct {
	deny          bool
	users, groups *nameList // nil where there is no list
}

// newFilter compiles a filter and says which of its entries are not usable, users' and groups'.
// Instructions counts those of all expressions.
func newFilter(c *filterConfig, instructions *int) (f filter, unusable [2][]string) {
	f.deny = strings.EqualFold(c.kind.value, "deny")
	f.users, unusable[0] = newNameList(values(c.users), legalUser, instructions)
	f.groups, unusable[1] = newNameList(values(c.groups), legalGroup, instructions)
	return f, unusable
}

// nameList matches names: one of several, or a regular expression. One in which nothing is usable matches none.
type nameList struct {
	names   []string
	pattern *regexp.Regexp
}

// newNameList reads the entries of a filter's users or groups and says which of them are not usable. A single entry that is not a
// legal name is an unanchored regular expression; among several entries there are only names.
func newNameList(entries []string, legal *regexp.Regexp, instructions *int) (list *nameList, unusable []string) {
	if len(entries) == 0 {
		return nil, nil
	}
	list = &nameList{}
	for _, entry := range entries {
		switch {
		case legal.MatchString(entry):
			list.names = append(list.names, entry)
		case entry == "":
			unusable = append(unusable, "the empty entry is ignored")
		case len(entries) > 1:
			unusable = append(unusable, messagef("%q is ignored: it is not a legal name, and a regular expression must be the only entry", entry))
		default:
			var err error
			if list.pattern, err = compilePattern(entry, instructions); err != nil {
				unusable = append(unusable, messagef("%q is ignored: it is neither a legal name nor a regular expression: %v", entry, err))
			}
		}
	}
	return list, unusable
}

// matches looks at one name at a time: an expression never sees several groups joined.
func (l *nameList) matches(names ...string) bool {
	return l != nil && slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(l.names, name) || l.pattern != nil && l.pattern.MatchString(name)
	})
}

// admits says whether the rule is for the user.
func (f filter) admits(user string, groups []string) bool {
	if f.users == nil && f.groups == nil {
		return true
	}
	return (f.users.matches(user) || f.groups.matches(groups...)) != f.deny
}
