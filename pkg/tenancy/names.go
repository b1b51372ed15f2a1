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

// A queue's full name, wherever it comes from, is at most this long, root included.
const (
	MaxQueueLevels = 16
	MaxQueueLength = 512 // characters; only ASCII is legal

	maxLevel = 64 // characters of one level
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

// tooLong says in what a queue's name exceeds the bounds, and is empty for one within them.
func tooLong(name string) string {
	if len(name) > MaxQueueLength {
		return messagef("queue name %q is longer than %d characters", name, MaxQueueLength)
	}
	if levels := strings.Count(name, ".") + 1; levels > MaxQueueLevels {
		return messagef("queue name %q has %d levels, more than %d", name, levels, MaxQueueLevels)
	}
	return ""
}

// bounded returns an input for a record. One that is longer than a queue's name can be is cut: no
// rule makes a queue of it anyway.
func bounded(input string) string {
	if len(input) > MaxQueueLength {
		return Cut(input)
	}
	return input
}

// LegalQueueName says whether a name is that of a queue, written in full from root, of at most
// MaxQueueLevels levels and MaxQueueLength characters.
func LegalQueueName(name string) bool {
	return tooLong(name) == "" && qualified(name) && legalLevels(name)
}

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
