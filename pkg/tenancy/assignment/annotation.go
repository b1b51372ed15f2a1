package assignment

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/tenancy"
)

// maxAnnotation is the maximum length of the queue annotation, in bytes.
const maxAnnotation = 64 << 10

// annotation is the content of Admission.Annotation. Requested, User and the values of Tags are
// bounded.
type annotation struct {
	Queue     string            `json:"queue"`
	Rule      string            `json:"rule"`
	User      string            `json:"user"`
	Requested string            `json:"requested,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	// Configured is the queue or its nearest ancestor, other than root, that is or was configured.
	// If it is no longer configured, it drains.
	Configured string `json:"configured,omitempty"`
}

// parseAnnotation parses the queue annotation of a page, which other users may have written. ok is
// false for a value that Berth would not write.
func parseAnnotation(stored string) (r annotation, ok bool) {
	if stored == "" || len(stored) > maxAnnotation || json.Unmarshal([]byte(stored), &r) != nil {
		return annotation{}, false
	}
	legal := tenancy.LegalQueueName(r.Queue) && r.Queue == strings.ToLower(r.Queue) && slices.Contains(tenancy.RuleKinds(), r.Rule) &&
		(r.Configured == "" || r.Configured != tenancy.RootName && (r.Configured == r.Queue || strings.HasPrefix(r.Queue, r.Configured+".")))
	return r, legal
}

func (r annotation) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

// placedMessage is the message for a Placement in its queue; drainingMessage is that for a draining
// queue.
func (r annotation) placedMessage() string {
	return tenancy.Messagef("queue %s by rule %s for user %s", r.Queue, r.Rule, r.User)
}

func (r annotation) drainingMessage() string {
	return tenancy.Messagef("queue %s drains: it keeps its Placements and takes no others", r.Queue)
}

// unknownMessage is the message for a draining queue whose settings the controller does not know.
func (r annotation) unknownMessage() string {
	return tenancy.Messagef("queue %s drains since before the controller started, so its cluster sets and quotas are unknown: the published decision stays; configure %s again, or request another queue", r.Queue, r.Configured)
}

// Contradicts reports whether the reason and message of an Admission are of another queue than an
// Annotation, or of another user's Placement. Other reasons than Placed and QueueDraining
// contradict no Annotation.
func Contradicts(reason, message, stored string) bool {
	r, _ := parseAnnotation(stored)
	switch reason {
	case ReasonPlaced:
		return message != r.placedMessage()
	case ReasonQueueDraining:
		return message != r.drainingMessage() && message != r.unknownMessage()
	}
	return false
}

// bounded cuts an input that is longer than any queue name, because no rule can make a queue of it.
func bounded(input string) string {
	if len(input) > tenancy.MaxQueueLength {
		return tenancy.Cut(input)
	}
	return input
}
