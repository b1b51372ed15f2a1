package tenancy

import (
	"regexp"
	"slices"
	"strings"
)

// The alphabets of names. Users and groups have the same ones in filters, access lists and limits:
// they must hold service accounts.
var (
	legalLevel = regexp.MustCompile(`^[a-zA-Z0-9_:#/@-]{1,64}$`)
	legalUser  = regexp.MustCompile(`^[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?$`)
	legalGroup = regexp.MustCompile(`^[_a-zA-Z][a-zA-Z0-9:_.-]*$`)
)

// A queue's full name, wherever it comes from, is at most this long, root included.
const (
	MaxQueueLevels = 16
	MaxQueueLength = 512 // characters; only ASCII is legal

	maxLevel = 64 // characters of one level
)

const (
	// RootName is the queue above all others.
	RootName = "root"
	// Wildcard stands for every user or group.
	Wildcard = "*"
	// queueKey is the key of the label or annotation that names the requested queue; legacyQueueKey
	// that of the label alone.
	queueKey       = "yunikorn.apache.org/queue"
	legacyQueueKey = "queue"
	// dot stands for "." where a name becomes one level of a queue's name.
	dot = "_dot_"
)

// LegalLevel says whether a name is one level of a queue's name.
func LegalLevel(name string) bool { return legalLevel.MatchString(name) }

// LegalUser says whether a user may be named in filters, access lists and limits.
func LegalUser(name string) bool { return legalUser.MatchString(name) }

// LegalGroup says whether a group may be named in filters, access lists and limits.
func LegalGroup(name string) bool { return legalGroup.MatchString(name) }

// Qualified says whether a queue's name begins at root.
func Qualified(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return strings.EqualFold(first, RootName)
}

// LegalLevels says whether every level of a name is legal.
func LegalLevels(name string) bool {
	for level := range strings.SplitSeq(name, ".") {
		if !legalLevel.MatchString(level) {
			return false
		}
	}
	return true
}

// TooLong says in what a queue's name exceeds the bounds, and is empty for one within them.
func TooLong(name string) string {
	if len(name) > MaxQueueLength {
		return Messagef("queue name %q is longer than %d characters", name, MaxQueueLength)
	}
	if levels := strings.Count(name, ".") + 1; levels > MaxQueueLevels {
		return Messagef("queue name %q has %d levels, more than %d", name, levels, MaxQueueLevels)
	}
	return ""
}

// LegalQueueName says whether a name is that of a queue, written in full from root, of at most
// MaxQueueLevels levels and MaxQueueLength characters.
func LegalQueueName(name string) bool {
	return TooLong(name) == "" && Qualified(name) && LegalLevels(name)
}

// Above returns the name of the queue that holds the named one, "" above root.
func Above(name string) string {
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)]
}

// Lineage returns the names of all the queue's ancestors and its own, root first.
func Lineage(name string) []string {
	var names []string
	for ; name != ""; name = Above(name) {
		names = append(names, name)
	}
	slices.Reverse(names)
	return names
}

// Tags merges layers of tags, of which a later one overlays those before it. Keys become
// lower-case; of keys that only then are equal, the bytewise first in its layer counts.
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

// RequestedQueue is the queue that a Placement with these annotations and labels asks for, empty
// for none.
func RequestedQueue(annotations, labels map[string]string) string {
	for _, queue := range []string{labels[queueKey], annotations[queueKey], labels[legacyQueueKey]} {
		if queue != "" {
			return queue
		}
	}
	return ""
}
