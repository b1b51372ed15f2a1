package assignment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// settle places who is to be placed: first those that have been placed already, as they make queues
// exist; then the others, oldest first. It returns who else may have got a place or more clusters
// by that.
func (a *Assignments) placeUnplaced() (woken []Key) {
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
func (a *Assignments) stays(s *seat) bool {
	who, err := identity.Read(s.Annotations, s.Labels, a.options.UserLabel)
	if err == nil && s.app == nil {
		a.recall(s, who)
	}
	if s.app == nil {
		return false
	}
	if err != nil || !a.unchanged(s, who) || !a.standing(s.record) || !a.entitled(s, who) {
		if !s.admitted && s.app.Clusters == 0 { // a record of nothing
			a.members.Remove(*s.app)
			s.app = nil
		}
		return false
	}
	s.admitted = true
	s.record.Configured = a.configured(s.record)
	for name := s.record.Configured; name != "" && a.config.Tree.Queue(name) == nil; name = tenancy.Above(name) {
		a.members.Drain(name)
	}
	return true
}

// unchanged says whether a Placement asks for what its record says.
func (a *Assignments) unchanged(s *seat, who identity.Identity) bool {
	if s.record.User != bounded(who.User) || !strings.EqualFold(s.record.Requested, bounded(tenancy.RequestedQueue(s.Annotations, s.Labels))) {
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
func (a *Assignments) recall(s *seat, who identity.Identity) {
	stored, clusters := a.options.Published(s.Key)
	r, ok := readRecord(stored)
	if !ok || r.User != bounded(who.User) {
		return
	}
	recorded, ok := readRecord(a.options.Recorded(s.Key))
	s.proven = ok && recorded.Queue == r.Queue && recorded.User == r.User
	if !s.proven && a.config.Tree.Queue(r.Configured) == nil {
		r.Configured = "" // Nothing but the record says that it was.
	}
	s.record = r
	if a.entitled(s, who) {
		groups, _ := a.groups(s, who)
		s.app = &tenancy.Application{Queue: r.Queue, User: who.User, Groups: groups, Clusters: int64(clusters)}
		a.members.Add(*s.app)
	}
}

// entitled says whether the submitter may be in the queue of the record, by the access lists in
// force. It is enough to have been let in before: for a queue that drains since, and while the
// submitter's groups cannot be found.
func (a *Assignments) entitled(s *seat, who identity.Identity) bool {
	groups, known := a.groups(s, who)
	if s.app != nil && known && !slices.Equal(groups, s.app.Groups) {
		was := *s.app
		s.app.Groups = groups
		a.members.Replace(was, *s.app)
	}
	drains := s.record.Configured != "" && a.config.Tree.Queue(s.record.Configured) == nil
	if !a.config.Tree.SubmitAllowed(s.record.Queue, who.User, groups) {
		s.lost = !s.proven || !drains && known
		return !s.lost
	}
	s.lost = false
	s.proven = s.proven || !drains
	return true
}

// groups returns those of the submitter. If they cannot be found it is tried again later, and until
// then they are those that are known from before, if there are any.
func (a *Assignments) groups(s *seat, who identity.Identity) (groups []string, known bool) {
	resolved, err := a.resolver.Resolve(who)
	if err == nil {
		s.retry = time.Time{}
		return resolved.Groups, true
	}
	s.retry = a.options.Now().Add(identity.FailureKept)
	if s.app != nil && s.app.Groups != nil {
		return s.app.Groups, true
	}
	return nil, false
}

// standing says whether the queue of a record still is one: a configured one may drain, but must
// not have become a parent, and what was created must not be blocked by a leaf.
func (a *Assignments) standing(r record) bool {
	if q := a.config.Tree.Queue(r.Queue); q != nil {
		return q.Leaf()
	}
	if r.Configured != "" && a.config.Tree.Queue(r.Configured) == nil {
		return true
	}
	return !a.config.Tree.Nearest(r.Queue).Leaf()
}

// configured returns the Configured value of a record under the current configuration.
func (a *Assignments) configured(r record) string {
	if q := a.config.Tree.Nearest(r.Queue); q.Name != tenancy.RootName && len(q.Name) > len(r.Configured) {
		return q.Name
	}
	return r.Configured
}

// tags are a Placement's, as the rules read them.
func (a *Assignments) tags(s *seat) map[string]string {
	return tenancy.Tags(s.Annotations, s.Labels, map[string]string{namespaceTag: s.Namespace, parentQueueTag: a.parents[s.Namespace]})
}

// request is the submission as the rules read it.
func (a *Assignments) request(s *seat) (tenancy.Request, error) {
	who, err := identity.Read(s.Annotations, s.Labels, a.options.UserLabel)
	if err != nil {
		return tenancy.Request{}, err
	}
	if who, err = a.resolver.Resolve(who); err != nil {
		return tenancy.Request{}, err
	}
	return tenancy.Request{User: who.User, Groups: who.Groups, Queue: tenancy.RequestedQueue(s.Annotations, s.Labels), Tags: a.tags(s)}, nil
}

// place finds a Placement its queue, or says why it has none. It says whether the Placement left
// the queue it was in. One that has to wait keeps what is published, and so its place in that
// queue.
func (a *Assignments) place(s *seat) (left bool) {
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
		a.members.Without(*old, enter)
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

// find asks the rules and the quotas. It returns an application and its record, or else the verdict
// that there is none.
func (a *Assignments) find(s *seat, published int64) (*tenancy.Application, record, Verdict) {
	request, err := a.request(s)
	if err != nil {
		return nil, record{}, Verdict{Reason: ReasonUserUnresolved, Message: tenancy.Bound(err.Error()), Limit: -1, RetryAfter: identity.FailureKept}
	}
	placed, err := a.config.Tree.Place(request, a.members)
	if err != nil {
		verdict := Verdict{Reason: ReasonNoRuleMatched, Rejected: true, Limit: -1}
		if rejected := (*tenancy.Rejected)(nil); errors.As(err, &rejected) {
			verdict.Message = tenancy.Bound(strings.Join(rejected.Reasons, "; "))
		}
		return nil, record{}, verdict
	}
	if room := a.config.Tree.Room(a.members, placed.Queue, request.User, request.Groups); room.Applications < 1 {
		return nil, record{}, Verdict{Reason: ReasonQuotaExceeded, Limit: -1,
			Message: tenancy.Bound(fmt.Sprintf("queue %s is full: %s", tenancy.Cut(placed.Queue), room.ApplicationsBy))}
	}
	r := record{Queue: placed.Queue, Rule: placed.Rule, User: bounded(request.User), Requested: bounded(request.Queue)}
	r.Configured = a.configured(r)
	for _, tag := range a.config.Tree.UsedTags() {
		if r.Tags == nil {
			r.Tags = map[string]string{}
		}
		r.Tags[tag] = bounded(request.Tags[tag])
	}
	return &tenancy.Application{Queue: placed.Queue, User: request.User, Groups: request.Groups, Clusters: published}, r, Verdict{}
}
