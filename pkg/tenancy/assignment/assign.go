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

// assignPending checks the pending Placements. First it keeps those that can stay in their queues,
// because members make dynamic queues exist; then it assigns the others, oldest first. It returns
// the other Placements that may have got a queue or more clusters by that.
func (a *Assignments) assignPending() (affected []Key) {
	for a.config != nil && len(a.pending) > 0 {
		others, moves, left := a.keepPending()
		var waited []Key
		if moves { // Limited Placements may be older than pending ones that need the same quota.
			waited = slices.Collect(maps.Keys(a.limited))
			for key, s := range a.limited {
				if _, too := a.pending[key]; !too && !s.admitted && !s.NotDecided {
					others = append(others, s)
				}
			}
		}
		a.pending = map[Key]*placement{} // clear() takes as long as the map was ever large
		slices.SortFunc(others, func(x, y *placement) int {
			return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
		for _, s := range others {
			left = a.assign(s) || left
		}
		if left {
			a.affectedByFreedQuota(true)
			affected = append(affected, waited...)
		}
	}
	slices.SortFunc(affected, compareKeys)
	return slices.Compact(affected)
}

// keepPending keeps the pending Placements that can stay in their queues. It returns the others,
// whether one of these has or had a queue, and whether one left its queue.
func (a *Assignments) keepPending() (others []*placement, moves, left bool) {
	for _, s := range a.pending {
		had := s.app != nil
		if !a.keepsQueue(s) {
			others = append(others, s)
			moves = moves || had || s.app != nil
		}
		left = left || had && s.app == nil
	}
	return others, moves, left
}

// keepsQueue is true if a Placement stays in its queue: its inputs are unchanged and its submitter
// may submit there. If the current configuration cannot say what the queue allows, the Placement is
// not admitted, and its published decision stays.
func (a *Assignments) keepsQueue(s *placement) bool {
	who, err := identity.Read(s.Annotations, s.Labels, a.options.UserLabel)
	if err == nil && !s.restored {
		a.restore(s, who)
	}
	if s.NotDecided {
		return a.staysAsItIs(s, who, err == nil)
	}
	if s.app == nil {
		return false
	}
	if err != nil || s.lostPlace || !a.unchanged(s, s.annotation, who) || !a.maySubmit(s, who) {
		if !s.admitted && s.app.Clusters == 0 { // it has no published clusters
			a.removeMember(s)
		}
		return false
	}
	s.admission = a.unusable(s)
	if s.admitted = s.admission.Reason == ""; !s.admitted {
		a.setLimited(s, false)
		s.admission.RetryAfter = a.retryAfter(s)
	}
	return true
}

// staysAsItIs is true if a Placement that is not decided stays in its queue, or has no clusters, so
// that it gets none. One with clusters but no queue is assigned, so that these count. Without
// clusters it leaves a queue to which its submitter, if known, may not submit any more.
func (a *Assignments) staysAsItIs(s *placement, who identity.Identity, known bool) bool {
	_, published, _ := a.options.Published(s.Key)
	may := s.app != nil && (!known || s.app.User != who.User || a.maySubmit(s, who) || !s.retry.IsZero())
	switch {
	case may || s.app != nil && published > 0:
		if admission := a.unusable(s); admission.Reason != "" || !WithoutQueue(s.admission.Reason) {
			s.admission = admission
		}
		s.admitted = s.admission.Reason == "" && (s.admitted || s.Waits == "") // It was admitted before the start.
		return true
	case published > 0:
		return false
	case s.app != nil:
		a.removeMember(s)
	}
	s.admission, s.admitted = Admission{}, false
	a.setLimited(s, false)
	return true
}

// unusable returns the reason and message of a Placement whose queue can hold no Placement under
// the current configuration, or drains with unknown settings; empty for other queues.
func (a *Assignments) unusable(s *placement) Admission {
	if why := cannotHold(a.config.Tree, s.annotation); why != "" {
		return Admission{Reason: ReasonConfigInvalid, Message: tenancy.Bound(why + ": the published decision stays"), Limit: -1}
	}
	s.annotation.Configured = a.configured(s.annotation)
	for name := s.annotation.Configured; name != "" && a.config.Tree.Queue(name) == nil; name = tenancy.ParentOf(name) {
		a.members.Drain(name)
	}
	if removed(a.config.Tree, s.annotation) && !a.members.KnowsRemoved(s.annotation.Configured) {
		return Admission{Reason: ReasonQueueDraining, Message: s.annotation.unknownMessage(), Limit: -1}
	}
	return Admission{}
}

// retryAfter returns when to check a Placement again although no input changed; 0 for never.
func (a *Assignments) retryAfter(s *placement) time.Duration {
	if s.retry.IsZero() {
		return 0
	}
	return max(s.retry.Sub(a.options.Now()), time.Second)
}

// unchanged is true if the inputs of a Placement are those in an annotation.
func (a *Assignments) unchanged(s *placement, r annotation, who identity.Identity) bool {
	if r.User != bounded(who.User) || !strings.EqualFold(r.Requested, bounded(tenancy.RequestedQueue(s.Annotations, s.Labels))) {
		return false
	}
	tags := a.tags(s)
	for tag, value := range r.Tags {
		if bounded(tags[tag]) != value {
			return false
		}
	}
	return true
}

// restore reads the queue that an earlier process published, once: later pages may have what other
// users wrote. The record of the last change counts; the pages do if there is none, or if inputs
// have changed since, because a move that changes no cluster has no record. A queue to which the
// submitter may not submit is ignored, and so is the queue that a Placement without clusters left
// before it had to wait.
func (a *Assignments) restore(s *placement, who identity.Identity) {
	s.restored = true
	_, clusters, _ := a.options.Published(s.Key)
	if s.Waits != "" && clusters == 0 {
		return
	}
	inRecord, onPages := a.options.Recorded(s.Key)
	recorded, ok := parseAnnotation(inRecord)
	r := recorded
	if page, legal := parseAnnotation(onPages); legal && (!ok || !a.unchanged(s, recorded, who) && a.unchanged(s, page, who)) {
		r, ok = page, true
	}
	if !ok || r.User != bounded(who.User) {
		return
	}
	s.confirmed = recorded.Queue == r.Queue && recorded.User == r.User
	if !s.confirmed && a.config.Tree.Queue(r.Configured) == nil {
		r.Configured = "" // Only the unconfirmed annotation says that it was configured.
	}
	s.annotation, s.before, s.lostPlace = r, r.Queue, strings.HasPrefix(s.Waits, isFull(r.Queue))
	if !a.maySubmit(s, who) && (!s.NotDecided || !s.confirmed) {
		s.restored = s.retry.IsZero() // Else the groups of the submitter are not known yet.
		return
	}
	groups, _ := a.groupsOf(s, who)
	s.app = &tenancy.Application{Namespace: s.Namespace, Name: s.Name, Queue: r.Queue, User: who.User, Groups: groups, Clusters: int64(clusters)}
	a.members.Add(*s.app)
}

// maySubmit is true if the current access lists permit the submitter to submit to the queue of the
// annotation. A confirmed Placement stays permitted while the queue drains, and while the
// submitter's groups are unknown.
func (a *Assignments) maySubmit(s *placement, who identity.Identity) bool {
	groups, known := a.groupsOf(s, who)
	if s.app != nil && known && !slices.Equal(groups, s.app.Groups) {
		was := *s.app
		s.app.Groups = groups
		a.members.Replace(was, *s.app)
	}
	drains := removed(a.config.Tree, s.annotation)
	if !a.config.Tree.SubmitAllowed(s.annotation.Queue, who.User, groups) {
		s.unauthorized = !s.confirmed || !drains && known
		return !s.unauthorized
	}
	s.unauthorized = false
	s.confirmed = s.confirmed || !drains
	return true
}

// groupsOf returns the groups of the submitter. If they cannot be resolved, it returns the last
// known ones, and the Placement is checked again later.
func (a *Assignments) groupsOf(s *placement, who identity.Identity) (groups []string, known bool) {
	resolved, err := a.resolver.Resolve(who)
	if err == nil {
		s.retry = time.Time{}
		return resolved.Groups, true
	}
	s.retry = a.options.Now().Add(identity.FailureTTL)
	if s.app != nil && s.app.Groups != nil {
		return s.app.Groups, true
	}
	return nil, false
}

// configured returns the Configured value of an annotation under the current configuration.
func (a *Assignments) configured(r annotation) string {
	if q := a.config.Tree.Nearest(r.Queue); q.Name != tenancy.RootName && len(q.Name) > len(r.Configured) {
		return q.Name
	}
	return r.Configured
}

// tags returns the tags of a Placement, with the reserved ones.
func (a *Assignments) tags(s *placement) map[string]string {
	return tenancy.Tags(s.Annotations, s.Labels, map[string]string{namespaceTag: s.Namespace, parentQueueTag: a.parents[s.Namespace]})
}

// request returns the input of the placement rules.
func (a *Assignments) request(s *placement) (tenancy.Request, error) {
	who, err := identity.Read(s.Annotations, s.Labels, a.options.UserLabel)
	if err != nil {
		return tenancy.Request{}, err
	}
	if who, err = a.resolver.Resolve(who); err != nil {
		return tenancy.Request{}, err
	}
	return tenancy.Request{User: who.User, Groups: who.Groups, Queue: tenancy.RequestedQueue(s.Annotations, s.Labels), Tags: a.tags(s)}, nil
}

// assign finds the queue of a Placement, or the reason why it has none. It returns true if the
// Placement left its old queue. A Placement that must wait keeps its published clusters, and so its
// entry in the old queue.
func (a *Assignments) assign(s *placement) (left bool) {
	old := s.app
	_, published, _ := a.options.Published(s.Key)
	enter := func() {
		app, r, admission := a.findQueue(s, int64(published))
		if s.unauthorized && published > 0 && admission.Reason == ReasonQuotaExceeded {
			admission.Rejected = true // It must not keep clusters of a queue to which its submitter may not submit.
		}
		s.admission, s.admitted = admission, app != nil
		switch {
		case app != nil:
			s.app, s.annotation, s.confirmed, s.unauthorized, s.lostPlace = app, r, true, false, false
		case admission.Rejected || published == 0:
			s.app = nil
		}
	}
	if old == nil {
		enter()
	} else {
		a.members.Without(*old, enter)
	}
	if s.app != old {
		if old != nil { // First, so that a draining queue that it was the last to use no longer drains.
			a.members.Remove(*old)
			a.left = true
			left = s.app == nil || s.app.Queue != old.Queue
			s.left = s.left || left
		}
		if s.app != nil {
			a.members.Add(*s.app)
		}
	}
	a.setLimited(s, s.admission.Reason == ReasonQuotaExceeded)
	s.retry = time.Time{}
	if s.admission.RetryAfter > 0 {
		s.retry = a.options.Now().Add(s.admission.RetryAfter)
	}
	return left
}

// isFull is how the message of a Placement begins that waits for a place in a queue.
func isFull(queue string) string { return fmt.Sprintf("queue %s is full: ", tenancy.Cut(queue)) }

// findQueue runs the rules and checks the quotas. It returns an application and its annotation, or
// an Admission with the reason why there is none.
func (a *Assignments) findQueue(s *placement, published int64) (*tenancy.Application, annotation, Admission) {
	request, err := a.request(s)
	if err != nil {
		return nil, annotation{}, Admission{Reason: ReasonUserUnresolved, Message: tenancy.Bound(err.Error()), Limit: -1, RetryAfter: identity.FailureTTL}
	}
	placed, err := a.config.Tree.Place(request, a.members)
	if err != nil {
		admission := Admission{Reason: ReasonNoRuleMatched, Rejected: true, Limit: -1}
		if rejected := (*tenancy.Rejected)(nil); errors.As(err, &rejected) {
			admission.Message = tenancy.Bound(strings.Join(rejected.Reasons, "; "))
		}
		return nil, annotation{}, admission
	}
	// A Placement that is in this queue already takes no other place in it.
	stays := s.app != nil && !s.lostPlace && s.app.Queue == placed.Queue && s.app.User == request.User && slices.Equal(s.app.Groups, request.Groups)
	if free := a.config.Tree.Remaining(a.members, placed.Queue, request.User, request.Groups); !stays && free.Applications < 1 {
		return nil, annotation{}, Admission{Reason: ReasonQuotaExceeded, Limit: -1,
			Message: tenancy.Bound(isFull(placed.Queue) + free.ApplicationsUsed(a.members, s.Namespace, s.Name))}
	}
	r := annotation{Queue: placed.Queue, Rule: placed.Rule, User: bounded(request.User), Requested: bounded(request.Queue)}
	r.Configured = a.configured(r)
	for _, tag := range a.config.Tree.UsedTags() {
		if r.Tags == nil {
			r.Tags = map[string]string{}
		}
		r.Tags[tag] = bounded(request.Tags[tag])
	}
	return &tenancy.Application{Namespace: s.Namespace, Name: s.Name, Queue: placed.Queue, User: request.User, Groups: request.Groups, Clusters: published}, r, Admission{}
}
