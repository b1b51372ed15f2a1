package tenancy

import (
	"cmp"
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
	identity, err := ReadIdentity(s.Annotations, s.Labels, a.options.UserLabel)
	if err == nil && s.app == nil {
		a.recall(s, identity)
	}
	if s.app == nil {
		return false
	}
	if err != nil || !a.unchanged(s, identity) || !a.standing(s.record) || !a.entitled(s, identity) {
		if !s.admitted && s.app.Clusters == 0 { // a record of nothing
			a.members.Remove(*s.app)
			s.app = nil
		}
		return false
	}
	s.admitted = true
	s.record.Configured = a.configured(s.record)
	for name := s.record.Configured; name != "" && a.config.Tree.Queue(name) == nil; name = above(name) {
		a.members.Drain(name)
	}
	return true
}

// unchanged says whether a Placement asks for what its record says.
func (a *QueueAdmission) unchanged(s *seat, identity Identity) bool {
	if s.record.User != bounded(identity.User) || !strings.EqualFold(s.record.Requested, bounded(RequestedQueue(s.Annotations, s.Labels))) {
		return false
	}
	tags := a.tags(s)
	for tag, value := range s.record.Tags {
		if bounded(tags[tag]) != value {
			return false
		}
	}
	return true
}

// recall takes in what is kept with the published decision. A record that the submitter has no
// right to counts for nothing, not even until the Placement is placed: others may write records.
func (a *QueueAdmission) recall(s *seat, identity Identity) {
	stored, clusters := a.options.Published(s.Key)
	r, ok := readRecord(stored)
	if !ok || r.User != bounded(identity.User) {
		return
	}
	s.proven = s.Admitted != "" && (s.Admitted == r.placedMessage() || s.Admitted == r.drainingMessage())
	if !s.proven && a.config.Tree.Queue(r.Configured) == nil {
		r.Configured = "" // Nothing but the record says that it was.
	}
	s.record = r
	if a.entitled(s, identity) {
		groups, _ := a.groups(s, identity)
		s.app = &Application{Queue: r.Queue, User: identity.User, Groups: groups, Clusters: int64(clusters)}
		a.members.Add(*s.app)
	}
}

// entitled says whether the submitter may be in the queue of the record, by the access lists in
// force. It is enough to have been let in before: for a queue that drains since, and while the
// submitter's groups cannot be found.
func (a *QueueAdmission) entitled(s *seat, identity Identity) bool {
	groups, known := a.groups(s, identity)
	if s.app != nil && known && !slices.Equal(groups, s.app.Groups) {
		was := *s.app
		s.app.Groups = groups
		a.members.replace(was, *s.app)
	}
	drains := s.record.Configured != "" && a.config.Tree.Queue(s.record.Configured) == nil
	if !a.config.Tree.SubmitAllowed(s.record.Queue, identity.User, groups) {
		s.lost = !s.proven || !drains && known
		return !s.lost
	}
	s.lost = false
	s.proven = s.proven || !drains
	return true
}

// groups returns those of the submitter. If they cannot be found it is tried again later, and until
// then they are those that are known from before, if there are any.
func (a *QueueAdmission) groups(s *seat, identity Identity) (groups []string, known bool) {
	resolved, err := a.resolver.Resolve(identity)
	if err == nil {
		s.retry = time.Time{}
		return resolved.Groups, true
	}
	s.retry = a.options.Now().Add(resolverKeepsFailure)
	if s.app != nil && s.app.Groups != nil {
		return s.app.Groups, true
	}
	return nil, false
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
	return Tags(s.Annotations, s.Labels, map[string]string{namespaceTag: s.Namespace, parentQueueTag: a.parents[s.Namespace]})
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
		if s.lost && published > 0 && verdict.Reason == ReasonQuotaExceeded {
			verdict.Rejected = true // While it waits it must not keep what it has from a queue where it has no right to be.
		}
		s.verdict, s.admitted = verdict, app != nil
		switch {
		case app != nil:
			s.app, s.record, s.proven, s.lost = app, r, true, false
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
		return nil, record{}, QueueVerdict{Reason: ReasonUserUnresolved, Message: Bound(err.Error()), Limit: -1, RetryAfter: resolverKeepsFailure}
	}
	placed, err := a.config.Tree.Place(request, a.members)
	if err != nil {
		verdict := QueueVerdict{Reason: ReasonNoRuleMatched, Rejected: true, Limit: -1}
		if rejected := (*Rejected)(nil); errors.As(err, &rejected) {
			verdict.Message = Bound(strings.Join(rejected.Reasons, "; "))
		}
		return nil, record{}, verdict
	}
	if room := a.config.Tree.Room(a.members, placed.Queue, request.User, request.Groups); room.Applications < 1 {
		return nil, record{}, QueueVerdict{Reason: ReasonQuotaExceeded, Limit: -1,
			Message: Bound(fmt.Sprintf("queue %s is full: %s", Cut(placed.Queue), room.ApplicationsBy))}
	}
	r := record{Queue: placed.Queue, Rule: placed.Rule, User: bounded(request.User), Requested: bounded(request.Queue)}
	r.Configured = a.configured(r)
	for _, tag := range a.config.Tree.usedTags() {
		if r.Tags == nil {
			r.Tags = map[string]string{}
		}
		r.Tags[tag] = bounded(request.Tags[tag])
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
