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

// Reasons of an Admission.
const (
	ReasonPlaced         = "Placed"
	ReasonQueueDraining  = "QueueDraining"
	ReasonNoRuleMatched  = "NoRuleMatched"
	ReasonUserUnresolved = "UserUnresolved"
	ReasonConfigInvalid  = "ConfigInvalid"
	ReasonQuotaExceeded  = "QuotaExceeded"
)

// Reserved tags. A Placement cannot set them.
const (
	namespaceTag   = "namespace"
	parentQueueTag = "namespace.parentqueue"
)

// ParentQueueAnnotation is the key of the annotation that holds, on a Namespace, the value of the
// tag namespace.parentqueue of the Placements in it.
const ParentQueueAnnotation = "yunikorn.apache.org/parentqueue"

// Key names a Placement.
type Key struct{ Namespace, Name string }

// Submission has the fields of a Placement on which its queue depends.
type Submission struct {
	Key
	Created             time.Time
	Annotations, Labels map[string]string
	// Waits is the message of its condition QueueAdmitted if that says that it got no queue.
	Waits string
	// NotDecided is true if scheduling is disabled or the Placement is being deleted: it stays in
	// its queue, and without clusters gets none, because that place would be lost in a restart.
	NotDecided bool
}

// WithoutQueue is true if an Admission that is not admitted has a reason for which a Placement
// without clusters leaves its queue. With the other reasons it keeps its place.
func WithoutQueue(reason string) bool {
	return reason != ReasonConfigInvalid && reason != ReasonQueueDraining
}

// Admission is the result for one Placement: its queue and what the queue allows, or why it has no
// queue. Its texts have at most MaxMessage bytes.
type Admission struct {
	// Admitted is true if the Placement has a queue. Reason and Message explain it.
	Admitted        bool
	Reason, Message string
	// Rejected is true if no rule matched. It is final until an input changes, unlike the other
	// reasons not to be admitted.
	Rejected bool
	// Queue is the full name. Sets are the cluster sets that the queue owns, if Restricted.
	Queue      string
	Sets       []string
	Restricted bool
	// Limit is the maximum number of clusters that may be selected; -1 is no limit. LimitBy names
	// the quota that sets it.
	Limit   int
	LimitBy string
	// Annotation is the queue annotation to store on the pages. It keeps the Placement in its queue
	// after restarts and new configurations.
	Annotation string
	// RetryAfter is when to call Admit again; 0 for never.
	RetryAfter time.Duration
}

// Assignments keeps every Placement in its queue. A Placement is assigned again only if its
// submitter, its requested queue or a tag that a rule read changes, if its queue no longer exists,
// or if its submitter may no longer submit there. New Placements are assigned oldest first.
// It is safe for concurrent use.
type Assignments struct {
	options Options

	mu         sync.Mutex
	config     *queueconfig.Config
	problem    string // why there is no configuration
	resolver   *identity.GroupResolver
	refused    *configuration    // applied when it is no longer refused; nil for none
	left       bool              // a Placement has left its queue since refused was checked
	parents    map[string]string // the parent queue by namespace
	placements map[Key]*placement
	pending    map[Key]*placement // to be checked, and assigned if necessary
	limited    map[Key]*placement // those that get fewer clusters than they request because of quotas
	members    *tenancy.Members
}

// Options configure Assignments. All but UserLabel are required.
type Options struct {
	// UserLabel is the key of the label that names a user; default DefaultUserLabel.
	UserLabel string
	// Published returns the Annotation that this process published last, empty if none, how many
	// clusters are published, and how many of these are left after a change in progress.
	Published func(Key) (annotation string, clusters, kept int)
	// Recorded returns the Annotation in a Placement's last PlacementChange, which only the
	// controller writes, and that of the pages that the Placement (same UID) controls, which other
	// users can write. Each is empty if there is none.
	Recorded func(Key) (inRecord, onPages string)
	// OnAffected is called for Placements whose Admission may have changed, without a lock held.
	OnAffected func([]Key)
	Now        func() time.Time
}

// placement is one Placement and its queue.
type placement struct {
	Submission
	// app is its entry in members, nil for none, and annotation is its assignment. A Placement that
	// is not admitted still counts in its old queue while it has published clusters.
	app        *tenancy.Application
	annotation annotation
	admitted   bool
	// confirmed is true if the submitter was permitted to submit to the queue of the annotation
	// while that queue was configured. Then the Placement may stay in it while it drains.
	confirmed bool
	// unauthorized is true if the submitter may not submit to the queue of the annotation.
	unauthorized bool
	// restored is true if the queue that an earlier process published was read; before is its name.
	restored bool
	before   string
	// lostPlace is true if it waited for that queue then: it had left it.
	lostPlace bool
	// left is true from when it leaves a queue until its clusters fit in its new one: others may
	// have got the quota.
	left      bool
	admission Admission // why it is not admitted
	room      int64     // the clusters that quotas left for it when it was admitted last
	retry     time.Time // when to check it again although no input changed
}

// New returns Assignments without a configuration, which admit no Placement.
func New(o Options) *Assignments {
	o.UserLabel = cmp.Or(o.UserLabel, identity.DefaultUserLabel)
	return &Assignments{
		options: o, problem: "there is no queue configuration yet", parents: map[string]string{},
		placements: map[Key]*placement{}, pending: map[Key]*placement{}, limited: map[Key]*placement{}, members: tenancy.NewMembers(),
	}
}

// Namespace stores the annotations of a Namespace; nil after its deletion.
func (a *Assignments) Namespace(name string, annotations map[string]string) {
	a.update(func() (affected []Key) {
		parent := annotations[ParentQueueAnnotation]
		if a.parents[name] == parent {
			return nil
		}
		a.parents[name] = parent
		if parent == "" {
			delete(a.parents, name)
		}
		for key, s := range a.placements {
			if key.Namespace == name {
				a.pending[key] = s
				affected = append(affected, key)
			}
		}
		return affected
	})
}

// Submit stores a Placement that was created or changed.
func (a *Assignments) Submit(submission Submission) {
	a.update(func() []Key {
		s := a.placements[submission.Key]
		same := s != nil && maps.Equal(s.Annotations, submission.Annotations) && maps.Equal(s.Labels, submission.Labels) && s.Created.Equal(submission.Created) &&
			s.NotDecided == submission.NotDecided
		switch {
		case s == nil:
			s = &placement{}
			a.placements[submission.Key] = s
		case !s.restored: // Its present condition may say only that this process has no configuration yet.
			submission.Waits = s.Waits
		}
		// Keep the maps of the newest object, so that older objects can be freed.
		if s.Submission = submission; !same {
			a.pending[submission.Key] = s
		}
		return nil
	})
}

// Withdraw removes a deleted Placement.
func (a *Assignments) Withdraw(key Key) {
	a.update(func() []Key {
		s := a.placements[key]
		for _, placements := range []map[Key]*placement{a.placements, a.pending, a.limited} {
			delete(placements, key)
		}
		if s == nil || s.app == nil {
			return nil
		}
		a.removeMember(s)
		return a.affectedByFreedQuota(true)
	})
}

// removeMember removes a Placement from its queue.
func (a *Assignments) removeMember(s *placement) {
	a.members.Remove(*s.app)
	s.app, a.left = nil, true
}

// SetClusters stores how many clusters a Placement has, or is about to publish.
func (a *Assignments) SetClusters(key Key, clusters int) {
	a.update(func() []Key {
		s := a.placements[key]
		if s == nil || s.app == nil || s.app.Clusters == int64(clusters) {
			return nil
		}
		if clusters == 0 && !s.admitted { // it has no published clusters any more
			a.removeMember(s)
			return a.othersAffectedByFreedQuota(key, true)
		}
		was := *s.app
		s.app.Clusters = int64(clusters)
		a.members.Replace(was, *s.app)
		a.endLeft(s)
		if s.app.Clusters < was.Clusters {
			return a.othersAffectedByFreedQuota(key, false)
		}
		return nil
	})
}

// update runs do with the lock held, then calls OnAffected with the Placements that it returns.
func (a *Assignments) update(do func() []Key) {
	a.mu.Lock()
	affected := append(do(), a.applyRefused()...)
	a.mu.Unlock()
	if len(affected) > 0 {
		slices.SortFunc(affected, compareKeys)
		a.options.OnAffected(affected)
	}
}

func compareKeys(x, y Key) int {
	return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
}

// affectedByFreedQuota returns the limited Placements that may have more clusters after a quota got
// free capacity. If it is free for another Placement, those that are not admitted are checked
// again.
func (a *Assignments) affectedByFreedQuota(forPlacement bool) (affected []Key) {
	for key, s := range a.limited {
		switch {
		case s.admitted && a.remaining(s).Clusters > s.room:
			affected = append(affected, key)
		case !s.admitted && forPlacement:
			a.pending[key] = s
			affected = append(affected, key)
		}
	}
	return affected
}

// othersAffectedByFreedQuota is affectedByFreedQuota without the Placement that freed it.
func (a *Assignments) othersAffectedByFreedQuota(key Key, forPlacement bool) []Key {
	return slices.DeleteFunc(a.affectedByFreedQuota(forPlacement), func(k Key) bool { return k == key })
}

// setLimited stores whether quotas limit a Placement to less than it requests.
func (a *Assignments) setLimited(s *placement, limited bool) {
	if limited {
		a.limited[s.Key] = s
	} else {
		delete(a.limited, s.Key)
	}
}

// Administers is true if the adminacl of the queue in a stored annotation, or of a queue above it,
// grants the user access. Without an annotation it is false.
func (a *Assignments) Administers(stored string, who identity.Identity) bool {
	r, ok := parseAnnotation(stored)
	a.mu.Lock()
	defer a.mu.Unlock()
	return ok && a.config != nil && a.config.Tree.AdminAllowed(r.Queue, who.User, who.Groups)
}

// GuardedTags returns the tags, in lower case, on which a Placement's queue depends: those that the
// rules read and those in its stored annotation, without the reserved ones.
func (a *Assignments) GuardedTags(stored string) []string {
	r, _ := parseAnnotation(stored)
	tags := slices.Collect(maps.Keys(r.Tags))
	a.mu.Lock()
	if a.config != nil {
		tags = append(tags, a.config.Tree.UsedTags()...)
	}
	a.mu.Unlock()
	slices.Sort(tags)
	return slices.DeleteFunc(slices.Compact(tags), func(tag string) bool { return tag == namespaceTag || tag == parentQueueTag })
}

// Admit returns the Admission of a submitted Placement that requests a number of clusters; -1
// requests all.
func (a *Assignments) Admit(key Key, wanted int) (admission Admission) {
	a.update(func() (affected []Key) {
		if unknown := a.unknown(key); unknown != nil {
			admission = *unknown
			return nil
		}
		s := a.placements[key]
		if !s.retry.IsZero() && !a.options.Now().Before(s.retry) {
			a.pending[key] = s
		}
		affected = a.assignPending()
		if admission = s.admission; s.admitted {
			admission = a.admissionOf(s, wanted)
		}
		return slices.DeleteFunc(affected, func(other Key) bool { return other == key })
	})
	return admission
}

// admissionOf returns the Admission of a Placement that has a queue.
func (a *Assignments) admissionOf(s *placement, wanted int) Admission {
	free := a.remaining(s)
	v := a.admissionIn(s, wanted, free)
	a.endLeft(s)
	s.room = free.Clusters
	a.setLimited(s, v.limits(wanted))
	return v
}

// limits is true if a quota limits the Placement to less than it requests.
func (v Admission) limits(wanted int) bool {
	return v.Limit >= 0 && (wanted < 0 || wanted > v.Limit)
}

// PreviewNumber returns what Admit would return if a submitted Placement requested another number
// of clusters. It changes nothing.
func (a *Assignments) PreviewNumber(key Key, wanted int) Admission {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, unknown := a.placements[key], a.unknown(key)
	switch {
	case unknown != nil:
		return *unknown
	case s.app == nil && (s.NotDecided || s.admission.Reason == ""):
		return a.preview(s.Submission, wanted)
	case !s.admitted && s.admission.Reason != "":
		return s.admission
	}
	return a.admissionIn(s, wanted, a.remaining(s))
}

// unknown is the Admission if there is no configuration or no such Placement; nil otherwise.
func (a *Assignments) unknown(key Key) *Admission {
	switch {
	case a.config == nil:
		return &Admission{Reason: ReasonConfigInvalid, Message: a.problem, Limit: -1}
	case a.placements[key] == nil:
		return &Admission{Reason: ReasonConfigInvalid, Message: "the Placement is unknown", Limit: -1}
	}
	return nil
}

// Preview returns what Admit would return for a Placement that does not exist, if it were created
// now. It changes nothing. The key must have no name.
func (a *Assignments) Preview(submission Submission) Admission {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.config == nil {
		return Admission{Reason: ReasonConfigInvalid, Message: a.problem, Limit: -1}
	}
	return a.preview(submission, -1)
}

// preview returns what a Placement without a queue would get.
func (a *Assignments) preview(submission Submission, wanted int) Admission {
	s := &placement{Submission: submission}
	app, r, admission := a.findQueue(s, 0)
	if app == nil {
		return admission
	}
	s.app, s.annotation = app, r
	a.members.Add(*app)
	defer a.members.Remove(*app)
	return a.admissionIn(s, wanted, a.remaining(s))
}

// remaining is what the quotas of its queue leave for a Placement, with its own clusters.
func (a *Assignments) remaining(s *placement) (free tenancy.Remaining) {
	a.members.Without(*s.app, func() { free = a.config.Tree.Remaining(a.members, s.app.Queue, s.app.User, s.app.Groups) })
	return free
}

// endLeft ends left if the clusters of a Placement fit in its queue.
func (a *Assignments) endLeft(s *placement) {
	if s.left && s.app != nil {
		s.left = s.app.Clusters > a.remaining(s).Clusters
	}
}

// admissionIn is admissionOf without its effect on the Placements that quotas limit.
func (a *Assignments) admissionIn(s *placement, wanted int, free tenancy.Remaining) Admission {
	v := Admission{Admitted: true, Queue: s.app.Queue, Reason: ReasonPlaced, Limit: -1, Message: s.annotation.placedMessage()}
	if a.members.Draining(s.app.Queue) {
		v.Reason, v.Message = ReasonQueueDraining, s.annotation.drainingMessage()
	}
	v.RetryAfter = a.retryAfter(s)
	v.Sets, v.Restricted = a.config.Tree.ClusterSets(a.members, s.app.Queue)
	if free.Clusters < tenancy.Unlimited {
		published, _, kept := a.options.Published(s.Key)
		queue := s.before
		if r, ok := parseAnnotation(published); ok {
			queue = r.Queue
		}
		if s.left || queue != "" && queue != s.app.Queue {
			kept = 0 // clusters that it got in another queue, or before it left this one, do not count here
		}
		// A lowered quota removes no published clusters.
		v.Limit, v.LimitBy = int(max(free.Clusters, int64(kept))), free.ClustersBy
		if v.limits(wanted) {
			v.LimitBy = tenancy.Bound(free.ClustersUsed(a.members, s.Namespace, s.Name))
		}
	}
	v.Annotation = s.annotation.String()
	return v
}
