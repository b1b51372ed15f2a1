package tenancy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Reasons of a QueueVerdict.
const (
	ReasonPlaced         = "Placed"
	ReasonQueueDraining  = "QueueDraining"
	ReasonNoRuleMatched  = "NoRuleMatched"
	ReasonUserUnresolved = "UserUnresolved"
	ReasonConfigInvalid  = "ConfigInvalid"
	ReasonQuotaExceeded  = "QuotaExceeded"
)

// ParentQueueAnnotation, on a Namespace, is the value of the tag namespace.parentqueue of the Placements in it.
const ParentQueueAnnotation = "yunikorn.apache.org/parentqueue"

// Key names a Placement.
type Key struct{ Namespace, Name string }

// Submission is a Placement, as far as its queue depends on it.
type Submission struct {
	Key
	Created             time.Time
	Annotations, Labels map[string]string
}

// QueueVerdict is what its queue means for a Placement.
type QueueVerdict struct {
	// Reason and Message say how it came to the queue, or why to none. Admitted is false then.
	Admitted        bool
	Reason, Message string
	// Rejected says that no rule matched: an answer, unlike the other reasons not to be admitted.
	Rejected bool
	// Queue is in full. Sets are the cluster sets that it owns, if Restricted.
	Queue      string
	Sets       []string
	Restricted bool
	// Limit caps the clusters that may be selected, for the quotas that LimitBy names; -1 is no cap.
	Limit   int
	LimitBy string
	// Record is to be kept with the published decision: it keeps the Placement in its queue over restarts and new configurations.
	Record string
	// RetryAfter asks for another try; 0 for none.
	RetryAfter time.Duration
}

// QueueAdmission keeps every Placement in its queue. A Placement is placed once: again only when its submitter, the queue it asks for
// or a tag that counted changes, or its queue is gone. Those that are not placed yet are, oldest first. It is safe for
// concurrent use.
type QueueAdmission struct {
	options QueueAdmissionOptions

	mu       sync.Mutex
	config   *Config
	problem  string // why there is no configuration
	resolver *GroupResolver
	parents  map[string]string // the parent queue by namespace
	seats    map[Key]*seat
	unseated map[Key]*seat // those to be looked at
	members  *Members
}

// QueueAdmissionOptions are all required but UserLabel.
type QueueAdmissionOptions struct {
	// UserLabel is the key of the label that names a user; default DefaultUserLabel.
	UserLabel string
	// Published returns what is kept with the published decision of a Placement, and how many clusters it has.
	Published func(Key) (record string, clusters int)
	// Wake is called, never while Published is, for Placements whose verdict may have changed.
	Wake func([]Key)
	Now  func() time.Time
}

// seat is one Placement.
type seat struct {
	Submission
	app     *Application // nil while it is not admitted
	record  record
	verdict QueueVerdict // why it is not admitted
	limited bool         // the quotas left it less than it wanted, or nothing
}

// record is what QueueVerdict.Record holds.
type record struct {
	Queue      string            `json:"queue"`
	Rule       string            `json:"rule"`
	User       string            `json:"user"`
	Requested  string            `json:"requested,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
	Configured bool              `json:"configured,omitempty"`
}

// NewQueueAdmission begins without a configuration: nothing is admitted.
func NewQueueAdmission(o QueueAdmissionOptions) *QueueAdmission {
	o.UserLabel = cmp.Or(o.UserLabel, DefaultUserLabel)
	return &QueueAdmission{
		options: o, problem: "there is no queue configuration yet", parents: map[string]string{},
		seats: map[Key]*seat{}, unseated: map[Key]*seat{}, members: NewMembers(),
	}
}

// Configure puts a configuration in force, in one step. One that is not valid changes nothing but the reason why nothing is
// admitted, if there was none before.
func (a *QueueAdmission) Configure(text []byte) (warnings []Problem, err error) {
	config, warnings, err := Parse(text)
	var resolver *GroupResolver
	if err == nil {
		resolver, err = NewGroupResolver(config.Resolver, a.options.Now)
	}
	a.change(func() []Key {
		if err != nil {
			if a.config != nil {
				return nil
			}
			a.problem = err.Error()
			return slices.Collect(maps.Keys(a.seats))
		}
		var old *Tree
		if a.config != nil {
			old = a.config.Tree
		}
		a.members.Reconfigure(old, config.Tree)
		a.config, a.problem, a.resolver = config, "", resolver
		maps.Copy(a.unseated, a.seats)
		return slices.Collect(maps.Keys(a.seats))
	})
	return warnings, err
}

// Unconfigured says why there is no configuration; one that was in force stays.
func (a *QueueAdmission) Unconfigured(why string) {
	a.change(func() []Key {
		if a.config != nil || a.problem == why {
			return nil
		}
		a.problem = why
		return slices.Collect(maps.Keys(a.seats))
	})
}

// Namespace takes in the annotations of a Namespace; nil when it is gone.
func (a *QueueAdmission) Namespace(name string, annotations map[string]string) {
	a.change(func() (woken []Key) {
		parent := annotations[ParentQueueAnnotation]
		if a.parents[name] == parent {
			return nil
		}
		a.parents[name] = parent
		if parent == "" {
			delete(a.parents, name)
		}
		for key, s := range a.seats {
			if key.Namespace == name {
				a.unseated[key] = s
				woken = append(woken, key)
			}
		}
		return woken
	})
}

// Submit takes in a Placement that came or changed.
func (a *QueueAdmission) Submit(submission Submission) {
	a.change(func() []Key {
		s := a.seats[submission.Key]
		if s != nil && maps.Equal(s.Annotations, submission.Annotations) && maps.Equal(s.Labels, submission.Labels) && s.Created.Equal(submission.Created) {
			return nil
		}
		if s == nil {
			s = &seat{}
			a.seats[submission.Key] = s
		}
		s.Submission = submission
		a.unseated[submission.Key] = s
		return nil
	})
}

// Withdraw takes in that a Placement is gone.
func (a *QueueAdmission) Withdraw(key Key) {
	a.change(func() []Key {
		s := a.seats[key]
		delete(a.seats, key)
		delete(a.unseated, key)
		if s == nil || s.app == nil {
			return nil
		}
		a.members.Remove(*s.app)
		return a.limited()
	})
}

// Took notes how many clusters a Placement has, or is about to have.
func (a *QueueAdmission) Took(key Key, clusters int) {
	a.change(func() []Key {
		s := a.seats[key]
		if s == nil || s.app == nil || s.app.Clusters == int64(clusters) {
			return nil
		}
		less := int64(clusters) < s.app.Clusters
		a.members.Remove(*s.app)
		s.app.Clusters = int64(clusters)
		a.members.Add(*s.app)
		if less {
			return a.limited()
		}
		return nil
	})
}

// change changes something and wakes whom that concerns.
func (a *QueueAdmission) change(what func() []Key) {
	a.mu.Lock()
	woken := what()
	a.mu.Unlock()
	if len(woken) > 0 {
		slices.SortFunc(woken, func(x, y Key) int { return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name)) })
		a.options.Wake(woken)
	}
}

// limited are the Placements that quotas keep from what they want. Those that wait for a place are looked at again.
func (a *QueueAdmission) limited() (keys []Key) {
	for key, s := range a.seats {
		if !s.limited {
			continue
		}
		if s.app == nil {
			a.unseated[key] = s
		}
		keys = append(keys, key)
	}
	return keys
}

// Administers says whether the adminacl of a recorded queue, or of one above it, grants somebody. Without a record it grants nobody.
func (a *QueueAdmission) Administers(stored string, who Identity) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	var r record
	if a.config == nil || json.Unmarshal([]byte(stored), &r) != nil || r.Queue == "" {
		return false
	}
	return a.config.Tree.AdminAllowed(r.Queue, who.User, who.Groups)
}

// Resolve says what its queue means for a Placement that was submitted and wants a number of clusters; -1 is all it can get.
func (a *QueueAdmission) Resolve(key Key, wanted int) QueueVerdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.seats[key]
	switch {
	case a.config == nil:
		return QueueVerdict{Reason: ReasonConfigInvalid, Message: a.problem, Limit: -1}
	case s == nil:
		return QueueVerdict{Reason: ReasonConfigInvalid, Message: "the Placement was not submitted", Limit: -1}
	}
	a.settle()
	if s.app == nil {
		return s.verdict
	}
	v := QueueVerdict{Admitted: true, Queue: s.app.Queue, Reason: ReasonPlaced, Limit: -1,
		Message: fmt.Sprintf("queue %s by rule %s for user %s", s.record.Queue, s.record.Rule, s.record.User)}
	if a.members.Draining(s.app.Queue) {
		v.Reason = ReasonQueueDraining
		v.Message = fmt.Sprintf("queue %s drains: it keeps its Placements and takes no others", s.app.Queue)
	}
	v.Sets, v.Restricted = a.config.Tree.ClusterSets(s.app.Queue)
	a.members.Remove(*s.app)
	room := a.config.Tree.Room(a.members, s.app.Queue, s.app.User, s.app.Groups)
	a.members.Add(*s.app)
	_, published := a.options.Published(key)
	if room.Clusters < Unlimited {
		// A quota that was lowered evicts nobody.
		v.Limit, v.LimitBy = int(max(room.Clusters, int64(published))), room.ClustersBy
	}
	s.limited = v.Limit >= 0 && (wanted < 0 || wanted > v.Limit)
	if text, err := json.Marshal(s.record); err == nil {
		v.Record = string(text)
	}
	return v
}

// settle places who is to be placed: first those that have been placed already, as they make queues exist; then the others, oldest
// first.
func (a *QueueAdmission) settle() {
	if a.config == nil || len(a.unseated) == 0 {
		return
	}
	var others []*seat
	for _, s := range a.unseated {
		if !a.stays(s) {
			others = append(others, s)
		}
	}
	clear(a.unseated)
	slices.SortFunc(others, func(x, y *seat) int {
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	for _, s := range others {
		a.place(s)
	}
}

// stays keeps a Placement in the queue it was placed in, if nothing speaks against it, and says so.
func (a *QueueAdmission) stays(s *seat) bool {
	stored, clusters := a.options.Published(s.Key)
	if s.app == nil {
		s.record = record{}
		if stored == "" || json.Unmarshal([]byte(stored), &s.record) != nil {
			return false
		}
	}
	request, groupless, err := a.request(s)
	holds := err == nil && s.record.User == groupless.User && s.record.Requested == request.Queue && a.standing(s.record)
	for tag, value := range s.record.Tags {
		holds = holds && request.Tags[tag] == value
	}
	if !holds {
		if s.app != nil {
			a.members.Remove(*s.app)
			s.app = nil
		}
		return false
	}
	if s.app == nil {
		s.app = &Application{Queue: s.record.Queue, User: request.User, Groups: request.Groups, Clusters: int64(clusters)}
		a.members.Add(*s.app)
		if s.record.Configured && a.config.Tree.Queue(s.record.Queue) == nil {
			a.members.Drain(s.record.Queue)
		}
	}
	return true
}

// standing says whether the queue of a record still is one: a configured one may drain, but must not have become a parent, and
// what was created must not be blocked by a leaf.
func (a *QueueAdmission) standing(r record) bool {
	if q := a.config.Tree.Queue(r.Queue); q != nil {
		return q.Leaf()
	}
	if r.Configured {
		return true
	}
	for name := above(strings.ToLower(r.Queue)); name != ""; name = above(name) {
		if q := a.config.Tree.Queue(name); q != nil {
			return !q.Leaf()
		}
	}
	return false
}

// request is the submission as the rules read it; identity has the groups that it was submitted with.
func (a *QueueAdmission) request(s *seat) (Request, Identity, error) {
	identity, err := ReadIdentity(s.Annotations, s.Labels, a.options.UserLabel)
	if err != nil {
		return Request{}, identity, err
	}
	resolved, err := a.resolver.Resolve(identity)
	if err != nil {
		return Request{}, identity, err
	}
	return Request{
		User: resolved.User, Groups: resolved.Groups, Queue: RequestedQueue(s.Annotations, s.Labels),
		Tags: Tags(s.Annotations, s.Labels, map[string]string{"namespace": s.Namespace, "namespace.parentqueue": a.parents[s.Namespace]}),
	}, identity, nil
}

// place finds a Placement its queue, or says why it has none.
func (a *QueueAdmission) place(s *seat) {
	s.limited = false
	request, _, err := a.request(s)
	if err != nil {
		s.verdict = QueueVerdict{Reason: ReasonUserUnresolved, Message: err.Error(), Limit: -1, RetryAfter: resolverKeepsFailure}
		a.unseated[s.Key] = s
		return
	}
	placed, err := a.config.Tree.Place(request, a.members)
	if err != nil {
		s.verdict = QueueVerdict{Reason: ReasonNoRuleMatched, Message: err.Error(), Rejected: true, Limit: -1}
		if rejected := (*Rejected)(nil); errors.As(err, &rejected) {
			s.verdict.Message = strings.Join(rejected.Reasons, "; ")
		}
		return
	}
	if room := a.config.Tree.Room(a.members, placed.Queue, request.User, request.Groups); room.Applications < 1 {
		s.limited = true
		s.verdict = QueueVerdict{Reason: ReasonQuotaExceeded, Limit: -1,
			Message: fmt.Sprintf("queue %s is full: %s", placed.Queue, room.ApplicationsBy)}
		return
	}
	_, clusters := a.options.Published(s.Key)
	s.app = &Application{Queue: placed.Queue, User: request.User, Groups: request.Groups, Clusters: int64(clusters)}
	a.members.Add(*s.app)
	s.record = record{Queue: placed.Queue, Rule: placed.Rule, User: request.User, Requested: request.Queue, Configured: placed.Configured}
	for _, tag := range a.config.Tree.usedTags() {
		if s.record.Tags == nil {
			s.record.Tags = map[string]string{}
		}
		s.record.Tags[tag] = request.Tags[tag]
	}
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
