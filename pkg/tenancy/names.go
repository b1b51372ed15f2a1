package tenancy

import (
	"regexp"
	"slices"
	"strings"
)

// The alphabets of names. Users and groups have the same ones in filters, access lists and limits: they must hold service accounts.
var (
	legalLevel = regexp.MustCompile(`^[a-zA-Z0-9_:#/@-]{1,64}$`)
	legalUser  = regexp.MustCompile(`^[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?$`)
	legalGroup = regexp.MustCompile(`^[_a-zA-Z][a-zA-Z0-9:_.-]*$`)
	legalRule  = regexp.MustCompile(`^[_a-zA-Z][a-zA-Z0-9_]*$`)
)

const (
	rootName = "root"
	wildcard = "*"
	// dot stands for "." where a name becomes one level of a queue's name.
	dot = "_dot_"
)

// qualified says whether a queue's name begins at root.
func qualified(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return strings.EqualFold(first, rootName)
}

// legalLevels says whether every level of a name is legal.
func legalLevels(name string) bool {
	for level := range strings.SplitSeq(name, ".") {
		if !legalLevel.MatchString(level) {
			return false
		}
	}
	return true
}

// LegalQueueName says whether a name is that of a queue, written in full from root.
func LegalQueueName(name string) bool { return qualified(name) && legalLevels(name) }

// above returns the name of the queue that holds the named one, "" above root.
func above(name string) string {
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)]
}

// lineage returns the names of all the queue's ancestors and its own, root first.
func lineage(name string) []string {
	var names []string
	for ; name != ""; name = above(name) {
		names = append(names, name)
	}
	slices.Reverse(names)
	return names
}

// Tags merges layers of tags, of which a later one overlays those before it. Keys become lower-case; of keys that only then are
// equal, the bytewise first in its layer counts.
func Tags(layers ...map[string]string) map[string]string {
	tags := map[string]string{}
	for _, layer := range layers {
		keys := make([]string, 0, len(layer))
		for key := range layer {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range slices.Backward(keys) {
			tags[strings.ToLower(key)] = layer[key]
		}
	}
	return tags
}
