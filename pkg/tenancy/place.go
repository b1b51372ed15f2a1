package tenancy

import (
	"fmt"
	"strings"
)

// Request is a submission. Groups are used as they are: who has none must be given some by the
// configuration's Resolver first.
type Request struct {
	User   string
	Groups []string
	Queue  string            // as requested; may be empty, and need not begin at root
	Tags   map[string]string // names in any case
}

// Placed says where a submission belongs.
type Placed struct {
	Queue string // in full, in lower case
	Rule  string // provided, user, fixed or tag
	// Configured is false for a dynamic queue: one that exists through its members alone, the first
	// of which this may be.
	Configured bool
	// Reasons says for each rule before it, in their order, why it did not match.
	Reasons []string
}

// Rejected is the error of a submission that matches no rule. It is an answer: nothing went wrong.
type Rejected struct {
	Reasons []string // one for each rule, each at most MaxMessage bytes
}

func (r *Rejected) Error() string {
	return Bound("no placement rule matched: " + strings.Join(r.Reasons, "; "))
}

// Place finds the queue of a submission: that of the first rule which yields one the user may
// submit to. The members say which queues exist beyond the configuration; they are not changed, so
// the answer must be added before the next submission is placed. The error is always a *Rejected.
func (t *Tree) Place(request Request, members *Members) (Placed, error) {
	a := &attempt{t, members, request, Tags(request.Tags)}
	var reasons []string
	for i, r := range t.rules {
		queue, reason := a.eval(r)
		if queue != "" {
			reason = a.refusal(queue)
		}
		if reason == "" {
			return Placed{queue, r.Kind, t.Queue(queue) != nil, reasons}, nil
		}
		reasons = append(reasons, Bound(fmt.Sprintf("rule %d (%s): %s", i+1, r.Kind, reason)))
	}
	return Placed{}, &Rejected{reasons}
}

// refusal says why nothing of this user may be placed in the queue that a rule yielded; it is empty
// if it may.
func (a *attempt) refusal(queue string) string {
	nearest := queue
	for !a.exists(nearest) {
		nearest = Above(nearest)
	}
	switch {
	case !a.tree.SubmitAllowed(nearest, a.request.User, a.request.Groups):
		return Messagef("user %s may not submit to %s", a.request.User, queue)
	case a.members.Draining(nearest):
		return Messagef("queue %s is draining", nearest)
	case nearest == queue && !a.leaf(queue):
		return Messagef("queue %s is not a leaf", queue)
	case nearest != queue && a.leaf(nearest):
		return Messagef("queue %s cannot be created: %s is a leaf", queue, nearest)
	}
	return ""
}
