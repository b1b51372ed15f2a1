package tenancy

import (
	"fmt"
	"strings"
)

// Request is a submission. Groups must be resolved: Place does not look up groups of the user.
type Request struct {
	User   string
	Groups []string
	Queue  string            // as requested; may be empty, and need not begin at root
	Tags   map[string]string // names in any case
}

// Placed is the queue of a submission, and how it was found.
type Placed struct {
	Queue string // in full, in lower case
	Rule  string // provided, user, fixed or tag
	// Configured is false for a dynamic queue, which exists only while it has members.
	Configured bool
	// Reasons has, for each earlier rule in order, why it did not match.
	Reasons []string
}

// Rejected is the error for a submission that no rule matches. It is a valid result, not a failure.
type Rejected struct {
	Reasons []string // one for each rule, each at most MaxMessage bytes
}

func (r *Rejected) Error() string {
	return Bound("no placement rule matched: " + strings.Join(r.Reasons, "; "))
}

// Place returns the queue of a submission: of the first rule that yields a queue to which the user
// may submit. Dynamic queues exist if they have members. Place does not change the members: the
// caller must add the result before it places the next submission. The error is always a *Rejected.
func (t *Tree) Place(request Request, members *Members) (Placed, error) {
	a := &evaluation{t, members, request, Tags(request.Tags)}
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

// refusal returns why the user's submission cannot be placed in a queue; empty if it can.
func (a *evaluation) refusal(queue string) string {
	nearest := queue
	for !a.exists(nearest) {
		nearest = ParentOf(nearest)
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
