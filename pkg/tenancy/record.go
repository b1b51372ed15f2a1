package tenancy

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxRecord bounds a record, in bytes.
const maxRecord = 64 << 10

// record is what QueueVerdict.Record holds. Requested, User and the values of Tags are bounded.
type record struct {
	Queue     string            `json:"queue"`
	Rule      string            `json:"rule"`
	User      string            `json:"user"`
	Requested string            `json:"requested,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	// Configured is the queue itself or the nearest one above it that is or was configured, other
	// than root: if it no longer is, it drains.
	Configured string `json:"configured,omitempty"`
}

// readRecord reads what is stored on a page, where anybody may have written it. It is false for
// what Berth would not have written.
func readRecord(stored string) (r record, ok bool) {
	if stored == "" || len(stored) > maxRecord || json.Unmarshal([]byte(stored), &r) != nil {
		return record{}, false
	}
	legal := LegalQueueName(r.Queue) && r.Queue == strings.ToLower(r.Queue) && slices.Contains(ruleKinds, r.Rule) &&
		(r.Configured == "" || r.Configured != rootName && (r.Configured == r.Queue || strings.HasPrefix(r.Queue, r.Configured+".")))
	return r, legal
}

func (r record) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

// placedMessage is what a Placement in its queue is told, and drainingMessage where the queue
// drains.
func (r record) placedMessage() string {
	return messagef("queue %s by rule %s for user %s", r.Queue, r.Rule, r.User)
}

func (r record) drainingMessage() string {
	return messagef("queue %s drains: it keeps its Placements and takes no others", r.Queue)
}
