package tenancy

import (
	"regexp"
	"slices"
	"strings"
)

// The syntax of names. Filters, access lists and limits use the same syntax for users and groups;
// it includes service accounts.
var (
	legalLevel = regexp.MustCompile(`^[a-zA-Z0-9_:#/@-]{1,64}$`)
	legalUser  = regexp.MustCompile(`^[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?$`)
	legalGroup = regexp.MustCompile(`^[_a-zA-Z0-9][a-zA-Z0-9:_.-]*$`)
	// Names in filters: a text of these characters is no expression, even if no user has that name.
	plainUser  = regexp.MustCompile(`^[a-zA-Z0-9:#/_.@-]+[$]?$`)
	plainGroup = regexp.MustCompile(`^[a-zA-Z0-9:_.-]+$`)
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

// LegalLevel is true for a legal level of a queue's name.
func LegalLevel(name string) bool { return legalLevel.MatchString(name) }

// LegalUser is true for a legal user in filters, access lists and limits.
func LegalUser(name string) bool { return legalUser.MatchString(name) }

// LegalGroup is true for a legal group in filters, access lists and limits.
func LegalGroup(name string) bool { return legalGroup.MatchString(name) }

// Qualified is true if a queue's name begins at root.
func Qualified(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return strings.EqualFold(first, RootName)
}

// LegalLevels is true if every level of a name is legal.
func LegalLevels(name string) bool {
	for level := range strings.SplitSeq(name, ".") {
		if !legalLevel.MatchString(level) {
			return false
		}
	}
	return true
}

// TooLong returns how a queue's name exceeds the bounds; empty if it does not.
func TooLong(name string) string {
	if len(name) > MaxQueueLength {
		return Messagef("queue name %q is longer than %d characters", name, MaxQueueLength)
	}
	if levels := strings.Count(name, ".") + 1; levels > MaxQueueLevels {
		return Messagef("queue name %q has %d levels, more than %d", name, levels, MaxQueueLevels)
	}
	for level := range strings.SplitSeq(name, ".") {
		if len(level) > maxLevel {
			return Messagef("invalid queue name %q: a level has %d characters, more than %d", name, len(level), maxLevel)
		}
	}
	return ""
}

// LegalQueueName is true for the full name of a queue, from root, with at most MaxQueueLevels
// levels and MaxQueueLength characters.
func LegalQueueName(name string) bool {
	return TooLong(name) == "" && Qualified(name) && LegalLevels(name)
}

// ParentOf returns the name of the parent queue, "" for root.
func ParentOf(name string) string {
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)]
}

// PathTo returns the names of all ancestors of a queue and its own name, root first.
func PathTo(name string) []string {
	var names []string
	for ; name != ""; name = ParentOf(name) {
		names = append(names, name)
	}
	slices.Reverse(names)
	return names
}

// Tags merges layers of tags: later layers override earlier ones. Keys are converted to lower case;
// if two keys of a layer become equal, the bytewise first one is used.
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

// RequestedQueue returns the queue that a Placement with these annotations and labels requests;
// empty for none.
func RequestedQueue(annotations, labels map[string]string) string {
	for _, queue := range []string{labels[queueKey], annotations[queueKey], labels[legacyQueueKey]} {
		if queue != "" {
			return queue
		}
	}
	return ""
}
