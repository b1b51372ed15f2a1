package tenancy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// settle places who is to be placed: first those that have been placed already, as they make queues exist; then the others, oldest
// first. It returns who else may have got a place or more clusters by that.
func (a *QueueAdmission) settle() (woken []Key) {
	for a.config != nil && len(a.unseated) > 0 {
		var others []*seat
		moves := false
		for _, s := range a.unseated {
			if !a.stays(s) {
				others = append(others, s)
				moves = moves || s.app != nil
			}
		}
		var waited []Key
		if moves { // Those that wait may be older than others that want the same place.
			waited = slices.Collect(maps.Keys(a.limited))
			for key, s := range a.limited {
				if _, too := a.unseated[key]; !too && !s.admitted {
					others = append(others, s)
				}
			}
		}
		a.unseated = map[Key]*seat{} // clearing one that once held everybody would take as long as that
		slices.SortFunc(others, func(x, y *seat) int {
			return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
		left := false
		for _, s := range others {
			left = a.place(s) || left
		}
		if left {
			a.freed()
			woken = append(woken, waited...)
		}
	}
	slices.SortFunc(woken, compareKeys)
	return slices.Compact(woken)
}

// stays keeps a Placement in the queue it was placed in, if nothing speaks against it, and says so.
func (a *QueueAdmission) stays(s *seat) bool {
	if s.app == nil && !a.recall(s) {
		return false
	}
	identity, err := ReadIdentity(s.Annotations, s.Labels, a.options.UserLabel)
	holds := err == nil && s.record.User == identity.User && s.record.Requested == RequestedQueue(s.Annotations, s.Labels) && a.standing(s.record)
	tags := a.tags(s)
	for tag, value := range s.record.Tags {
		holds = holds && tags[tag] == value
	}
	if !holds {
		if !s.admitted && s.app.Clusters == 0 { // a record of nothing
			a.members.Remove(*s.app)
			s.app = nil
		}
		return false
	}
	s.admitted, s.retry = true, time.Time{}
	if s.app.Groups == nil {
		a.regroup(s, identity)
	}
	s.record.Configured = a.configured(s.record)
	for name := s.record.Configured; name != "" && a.config.Tree.Queue(name) == nil; name = above(name) {
		a.members.Drain(name)
	}
	return true
}

// recall takes in what is kept with the published decision, and says whether there is anything.
func (a *QueueAdmission) recall(s *seat) bool {
	stored, clusters := a.options.Published(s.Key)
	r := record{}
	if stored == "" || json.Unmarshal([]byte(stored), &r) != nil || !LegalQueueName(r.Queue) {
		return false
	}
	s.record = r
	s.app = &Application{Queue: r.Queue, User: r.User, Clusters: int64(clusters)}
	a.members.Add(*s.app)
	return true
}

// regroup finds the groups of one that was placed before. While they cannot be found it keeps its place all the same.
func (a *QueueAdmission) regroup(s *seat, identity Identity) {
	resolved, err := a.resolver.Resolve(identity)
	if err != nil {
		s.retry = a.options.Now().Add(resolverKeepsFailure)
		return
	}
	was := *s.app
	s.app.Groups = resolved.Groups
	a.members.replace(was, *s.app)
}

// standing says whether the queue of a record still is one: a configured one may drain, but must not have become a parent, and
// what was created must not be blocked by a leaf.
func (a *QueueAdmission) standing(r record) bool {
	if q := a.config.Tree.Queue(r.Queue); q != nil {
		return q.Leaf()
	}
	if r.Configured != "" && a.config.Tree.Queue(r.Configured) == nil {
		return true
	}
	return !a.config.Tree.nearest(r.Queue).Leaf()
}

// configured is what a record says under that key, now that there is the configuration in force.
func (a *QueueAdmission) configured(r record) string {
	if q := a.config.Tree.nearest(r.Queue); q.Name != rootName && len(q.Name) > len(r.Configured) {
		return q.Name
	}
	return r.Configured
}

// tags are a Placement's, as the rules read them.
func (a *QueueAdmission) tags(s *seat) map[string]string {
	return Tags(s.Annotations, s.Labels, map[string]string{"namespace": s.Namespace, "namespace.parentqueue": a.parents[s.Namespace]})
}

// request is the submission as the rules read it.
func (a *QueueAdmission) request(s *seat) (Request, error) {
	identity, err := ReadIdentity(s.Annotations, s.Labels, a.options.UserLabel)
	if err != nil {
		return Request{}, err
	}
	if identity, err = a.resolver.Resolve(identity); err != nil {
		return Request{}, err
	}
	return Request{User: identity.User, Groups: identity.Groups, Queue: RequestedQueue(s.Annotations, s.Labels), Tags: a.tags(s)}, nil
}

// place finds a Placement its queue, or says why it has none. It says whether the Placement left the queue it was in. One that has to wait
// keeps what is published, and so its place in that queue.
func (a *QueueAdmission) place(s *seat) (left bool) {
	old := s.app
	_, published := a.options.Published(s.Key)
	enter := func() {
		app, r, verdict := a.find(s, int64(published))
		s.verdict, s.admitted = verdict, app != nil
		switch {
		case app != nil:
			s.app, s.record = app, r
		case verdict.Rejected || published == 0:
			s.app = nil
		}
	}
	if old == nil {
		enter()
	} else {
		a.members.without(*old, enter)
	}
	if s.app != old {
		if s.app != nil {
			a.members.Add(*s.app)
		}
		if old != nil {
			a.members.Remove(*old)
			left = s.app == nil || s.app.Queue != old.Queue
		}
	}
	a.limit(s, s.verdict.Reason == ReasonQuotaExceeded)
	s.retry = time.Time{}
	if s.verdict.RetryAfter > 0 {
		s.retry = a.options.Now().Add(s.verdict.RetryAfter)
	}
	return left
}

// find asks the rules and the quotas. It returns an application and its record, or else the verdict that there is none.
func (a *QueueAdmission) find(s *seat, published int64) (*Application, record, QueueVerdict) {
	request, err := a.request(s)
	if err != nil {
		return nil, record{}, QueueVerdict{Reason: ReasonUserUnresolved, Message: err.Error(), Limit: -1, RetryAfter: resolverKeepsFailure}
	}
	placed, err := a.config.Tree.Place(request, a.members)
	if err != nil {
		verdict := QueueVerdict{Reason: ReasonNoRuleMatched, Message: err.Error(), Rejected: true, Limit: -1}
		if rejected := (*Rejected)(nil); errors.As(err, &rejected) {
			verdict.Message = strings.Join(rejected.Reasons, "; ")
		}
		return nil, record{}, verdict
	}
	if room := a.config.Tree.Room(a.members, placed.Queue, request.User, request.Groups); room.Applications < 1 {
		return nil, record{}, QueueVerdict{Reason: ReasonQuotaExceeded, Limit: -1,
			Message: fmt.Sprintf("queue %s is full: %s", placed.Queue, room.ApplicationsBy)}
	}
	r := record{Queue: placed.Queue, Rule: placed.Rule, User: request.User, Requested: request.Queue}
	r.Configured = a.configured(r)
	for _, tag := range a.config.Tree.usedTags() {
		if r.Tags == nil {
			r.Tags = map[string]string{}
		}
		r.Tags[tag] = request.Tags[tag]
	}
	return &Application{Queue: placed.Queue, User: request.User, Groups: request.Groups, Clusters: published}, r, QueueVerdict{}
}

// usedTags are the tags that the rules read, in lower case.
func (t *Tree) usedTags() (tags []string) {
	for _, r := range t.rules {
		for ; r != nil; r = r.parent {
			if r.kind == ruleTag {
				tags = append(tags, r.value)
			}
		}
	}
	return tags
}
