package assignment

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
)

// Reasons of a Verdict.
const (
	ReasonPlaced         = "Placed"
	ReasonQueueDraining  = "QueueDraining"
	ReasonNoRuleMatched  = "NoRuleMatched"
	ReasonUserUnresolved = "UserUnresolved"
	ReasonConfigInvalid  = "ConfigInvalid"
	ReasonQuotaExceeded  = "QuotaExceeded"
)

// The tags that are not a Placement's to set.
const (
	namespaceTag   = "namespace"
	parentQueueTag = "namespace.parentqueue"
)

// ParentQueueAnnotation is the key of the annotation that holds, on a Namespace, the value of the
// tag namespace.parentqueue of the Placements in it.
const ParentQueueAnnotation = "yunikorn.apache.org/parentqueue"

// Key names a Placement.
type Key struct{ Namespace, Name string }

// Submission is a Placement, as far as its queue depends on it.
type Submission struct {
	Key
	Created             time.Time
	Annotations, Labels map[string]string
}

// Verdict is what its queue means for a Placement. Its texts have at most MaxMessage bytes,
// Record is of bounded size.
type Verdict struct {
	// Reason and Message say how it came to the queue, or why to none. Admitted is false then.
	Admitted        bool
	Reason, Message string
	// Rejected says that no rule matched: an answer, unlike the other reasons not to be admitted.
	Rejected bool
	// Queue is in full. Sets are the cluster sets that it owns, if Restricted.
	Queue      string
	Sets       []string
	Restricted bool
	// Limit caps the clusters that may be selected, for the quotas that LimitBy names; -1 is no
	// cap.
	Limit   int
	LimitBy string
	// Record is to be kept with the published decision: it keeps the Placement in its queue over
	// restarts and new configurations.
	Record string
	// RetryAfter asks for another try; 0 for none.
	RetryAfter time.Duration
}

// Assignments keeps every Placement in its queue. A Placement is placed once: again only when
// its submitter, the queue it asks for or a tag that counted changes, when its queue is gone, or
// when its submitter may no longer submit there. Those that are not placed yet are, oldest first.
// It is safe for concurrent use.
type Assignments struct {
	options Options

	mu       sync.Mutex
	config   *queueconfig.Config
	problem  string // why there is no configuration
	resolver *identity.GroupResolver
	parents  map[string]string // the parent queue by namespace
	seats    map[Key]*seat
	unseated map[Key]*seat // those to be looked at
	limited  map[Key]*seat // those that quotas leave less than they want, or nothing
	members  *tenancy.Members
}

// Options are all required but UserLabel.
type Options struct {
	// UserLabel is the key of the label that names a user; default DefaultUserLabel.
	UserLabel string
	// Published returns what is kept with the published decision of a Placement, and how many
	// clusters it has: on the pages that this very Placement controls.
	Published func(Key) (record string, clusters int)
	// Recorded returns what the last change of a Placement recorded of its queue, where nobody but
	// the controller writes it; empty if nothing is known. It confirms what Published returns.
	Recorded func(Key) string
	// Wake is called, never while Published is, for Placements whose verdict may have changed.
	Wake func([]Key)
	Now  func() time.Time
}

// seat is one Placement.
type seat struct {
	Submission
	// app is what it counts as, nil for nothing, and record says how it came there. One that is not
	// admitted may still count where it was: it has what is published.
	app      *tenancy.Application
	record   record
	admitted bool
	// proven says that the submitter was let into the queue of the record while that was
	// configured: it may drain.
	proven bool
	// lost says that the submitter has no right to be in the queue of the record.
	lost    bool
	verdict Verdict   // why it is not admitted
	retry   time.Time // when to look at it again although nothing changed
}

// New begins without a configuration: nothing is admitted.
func New(o Options) *Assignments {
	o.UserLabel = cmp.Or(o.UserLabel, identity.DefaultUserLabel)
	return &Assignments{
		options: o, problem: "there is no queue configuration yet", parents: map[string]string{},
		seats: map[Key]*seat{}, unseated: map[Key]*seat{}, limited: map[Key]*seat{}, members: tenancy.NewMembers(),
	}
}

// Configure applies a configuration in one step. An invalid one changes nothing if there is one
// already. Otherwise its error becomes the reason why no Placement is admitted.
func (a *Assignments) Configure(text []byte) (warnings []queueconfig.Problem, err error) {
	config, warnings, err := queueconfig.Parse(text)
	var resolver *identity.GroupResolver
	if err == nil {
		resolver, err = identity.NewGroupResolver(config.Resolver, a.options.Now)
	}
	a.change(func() []Key {
		if err != nil {
			if a.config != nil {
				return nil
			}
			a.problem = tenancy.Bound(err.Error())
			return slices.Collect(maps.Keys(a.seats))
		}
		// Which queues drain follows from the records, as it does after a restart.
		a.members.Reconfigure(nil, config.Tree)
		a.config, a.problem, a.resolver = config, "", resolver
		maps.Copy(a.unseated, a.seats)
		return slices.Collect(maps.Keys(a.seats))
	})
	return warnings, err
}

// Unconfigured records why there is no configuration. An earlier valid configuration stays.
func (a *Assignments) Unconfigured(why string) {
	a.change(func() []Key {
		if a.config != nil || a.problem == why {
			return nil
		}
		a.problem = why
		return slices.Collect(maps.Keys(a.seats))
	})
}

// Namespace takes in the annotations of a Namespace; nil when it is gone.
func (a *Assignments) Namespace(name string, annotations map[string]string) {
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
func (a *Assignments) Submit(submission Submission) {
	a.change(func() []Key {
		s := a.seats[submission.Key]
		same := s != nil && maps.Equal(s.Annotations, submission.Annotations) && maps.Equal(s.Labels, submission.Labels) && s.Created.Equal(submission.Created)
		if s == nil {
			s = &seat{}
			a.seats[submission.Key] = s
		}
		// The texts are those of the newest object: older ones are not kept in memory.
		if s.Submission = submission; !same {
			a.unseated[submission.Key] = s
		}
		return nil
	})
}

// Withdraw takes in that a Placement is gone.
func (a *Assignments) Withdraw(key Key) {
	a.change(func() []Key {
		s := a.seats[key]
		for _, seats := range []map[Key]*seat{a.seats, a.unseated, a.limited} {
			delete(seats, key)
		}
		if s == nil || s.app == nil {
			return nil
		}
		a.members.Remove(*s.app)
		return a.freed()
	})
}

// Took notes how many clusters a Placement has, or is about to have.
func (a *Assignments) Took(key Key, clusters int) {
	a.change(func() []Key {
		s := a.seats[key]
		if s == nil || s.app == nil || s.app.Clusters == int64(clusters) {
			return nil
		}
		was := *s.app
		if clusters == 0 && !s.admitted { // nothing is left of what it had
			s.app = nil
			a.members.Remove(was)
			return a.freed()
		}
		s.app.Clusters = int64(clusters)
		a.members.Replace(was, *s.app)
		if s.app.Clusters < was.Clusters {
			return a.freed()
		}
		return nil
	})
}

// change changes something and wakes whom that concerns.
func (a *Assignments) change(what func() []Key) {
	a.mu.Lock()
	woken := what()
	a.mu.Unlock()
	if len(woken) > 0 {
		slices.SortFunc(woken, compareKeys)
		a.options.Wake(woken)
	}
}

func compareKeys(x, y Key) int {
	return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
}

// freed returns whom quotas keep from what they want, now that there is more for them. Those that
// wait for a place are looked at again.
func (a *Assignments) freed() []Key {
	for key, s := range a.limited {
		if !s.admitted {
			a.unseated[key] = s
		}
	}
	return slices.Collect(maps.Keys(a.limited))
}

// limit notes whether quotas keep a Placement from what it wants.
func (a *Assignments) limit(s *seat, limited bool) {
	if limited {
		a.limited[s.Key] = s
	} else {
		delete(a.limited, s.Key)
	}
}

// Administers is true if the adminacl of a recorded queue, or of a queue above it, grants the user
// access. Without a record it is false.
func (a *Assignments) Administers(stored string, who identity.Identity) bool {
	r, ok := readRecord(stored)
	a.mu.Lock()
	defer a.mu.Unlock()
	return ok && a.config != nil && a.config.Tree.AdminAllowed(r.Queue, who.User, who.Groups)
}

// GuardedTags are the tags of a Placement, in lower case, on which its queue depends: those that
// the rules read, and those that its stored record holds. The reserved ones, which are not the
// Placement's, are left out.
func (a *Assignments) GuardedTags(stored string) []string {
	r, _ := readRecord(stored)
	tags := slices.Collect(maps.Keys(r.Tags))
	a.mu.Lock()
	if a.config != nil {
		tags = append(tags, a.config.Tree.UsedTags()...)
	}
	a.mu.Unlock()
	slices.Sort(tags)
	return slices.DeleteFunc(slices.Compact(tags), func(tag string) bool { return tag == namespaceTag || tag == parentQueueTag })
}

// Resolve says what its queue means for a Placement that was submitted and wants a number of
// clusters; -1 is all it can get.
func (a *Assignments) Resolve(key Key, wanted int) (verdict Verdict) {
	a.change(func() (woken []Key) {
		s := a.seats[key]
		switch {
		case a.config == nil:
			verdict = Verdict{Reason: ReasonConfigInvalid, Message: a.problem, Limit: -1}
			return nil
		case s == nil:
			verdict = Verdict{Reason: ReasonConfigInvalid, Message: "the Placement was not submitted", Limit: -1}
			return nil
		}
		if !s.retry.IsZero() && !a.options.Now().Before(s.retry) {
			a.unseated[key] = s
		}
		woken = a.placeUnplaced()
		if verdict = s.verdict; s.admitted {
			verdict = a.admit(s, wanted)
		}
		return slices.DeleteFunc(woken, func(other Key) bool { return other == key })
	})
	return verdict
}

// admit says what its queue means for a Placement that has one.
func (a *Assignments) admit(s *seat, wanted int) Verdict {
	v := Verdict{Admitted: true, Queue: s.app.Queue, Reason: ReasonPlaced, Limit: -1, Message: s.record.placedMessage()}
	if a.members.Draining(s.app.Queue) {
		v.Reason, v.Message = ReasonQueueDraining, s.record.drainingMessage()
	}
	v.Sets, v.Restricted = a.config.Tree.ClusterSets(s.app.Queue)
	var room tenancy.Room
	a.members.Without(*s.app, func() { room = a.config.Tree.Room(a.members, s.app.Queue, s.app.User, s.app.Groups) })
	if room.Clusters < tenancy.Unlimited {
		stored, published := a.options.Published(s.Key)
		if r, ok := readRecord(stored); ok && r.Queue != s.app.Queue {
			published = 0 // it moved, and what it had elsewhere gives it nothing here
		}
		// A lowered quota removes no clusters that are published.
		v.Limit, v.LimitBy = int(max(room.Clusters, int64(published))), room.ClustersBy
	}
	a.limit(s, v.Limit >= 0 && (wanted < 0 || wanted > v.Limit))
	v.Record = s.record.String()
	return v
}
