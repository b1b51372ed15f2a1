package admission

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
)

// Queues assigns Placements to the queues in a ConfigMap. It converts objects to the input of
// pkg/tenancy/assignment, and its Admissions to those of the scheduler. The controller and the
// simulator use it.
type Queues struct {
	assignments *assignment.Assignments
	userLabel   string
	published   func(types.NamespacedName) (queue string, clusters, kept int)
	clusters    func() int
	access      atomic.Pointer[identity.AccessControl]

	configuring sync.Mutex
	data        map[string]string // of the ConfigMap that was read last
}

// QueuesOptions configure Queues. All but UserLabel and Clusters are required.
type QueuesOptions struct {
	// UserLabel is the key of the label that names a user. Default identity.DefaultUserLabel.
	UserLabel string
	// Published returns the queue annotation that this process published last, how many clusters
	// are published, and how many of these are left after a change in progress.
	Published func(types.NamespacedName) (queue string, clusters, kept int)
	// Recorded returns the queue annotation in a Placement's last PlacementChange, and that of the
	// pages that the Placement (same UID) controls.
	Recorded func(types.NamespacedName) (inRecord, onPages string)
	// OnAffected is called with the Placements that must be decided again.
	OnAffected func([]types.NamespacedName)
	Now        func() time.Time
	// Clusters returns an upper bound of the number of clusters: a quota that leaves as many limits
	// no Placement. Without it, each quota limits the Placements that request all.
	Clusters func() int
}

// NewQueues returns Queues without a configuration: they admit no Placement, and published
// decisions stay.
func NewQueues(o QueuesOptions) *Queues {
	q := &Queues{published: o.Published, clusters: o.Clusters, userLabel: cmp.Or(o.UserLabel, identity.DefaultUserLabel)}
	q.access.Store(&identity.AccessControl{})
	q.assignments = assignment.New(assignment.Options{
		UserLabel: o.UserLabel, Now: o.Now,
		Published: func(key assignment.Key) (string, int, int) { return o.Published(types.NamespacedName(key)) },
		Recorded:  func(key assignment.Key) (string, string) { return o.Recorded(types.NamespacedName(key)) },
		OnAffected: func(keys []assignment.Key) {
			affected := make([]types.NamespacedName, len(keys))
			for i, key := range keys {
				affected[i] = types.NamespacedName(key)
			}
			o.OnAffected(affected)
		},
	})
	return q
}

// Configure applies the ConfigMap. It returns an error for invalid queues and keeps the last
// valid ones. An invalid setting gets its default and a warning. Unchanged data gives neither.
func (q *Queues) Configure(config *corev1.ConfigMap) (warnings []string, err error) {
	q.configuring.Lock()
	defer q.configuring.Unlock()
	if q.data != nil && maps.Equal(q.data, config.Data) {
		return nil, nil
	}
	q.data = maps.Clone(config.Data)
	if q.data == nil {
		q.data = map[string]string{}
	}
	access, warnings := identity.ParseAccessControl(config.Data)
	q.access.Store(&access)
	text, err := queuesIn(config)
	if err != nil {
		q.assignments.Unconfigured(err.Error())
		return warnings, err
	}
	problems, err := q.assignments.Configure(text)
	for _, p := range problems {
		warnings = append(warnings, p.String())
	}
	return warnings, err
}

// Unconfigured stores why there is no ConfigMap. The last valid configuration stays.
func (q *Queues) Unconfigured(why string) {
	q.configuring.Lock()
	q.data = nil
	q.configuring.Unlock()
	q.assignments.Unconfigured(why)
}

// Access returns the current settings that decide which users may name another submitter.
func (q *Queues) Access() identity.AccessControl { return *q.access.Load() }

// CheckQueues validates a queue configuration. Warnings are about legal settings without effect.
func CheckQueues(text []byte) (warnings []string, err error) {
	_, problems, err := queueconfig.Parse(text)
	for _, p := range problems {
		warnings = append(warnings, p.String())
	}
	return warnings, err
}

// Administers is true if the user may administer the queue in a queue annotation.
func (q *Queues) Administers(annotation string, who identity.Identity) bool {
	return q.assignments.Administers(annotation, who)
}

// GuardedTags returns the tags, in lower case, on which the queue of a Placement with this queue
// annotation depends.
func (q *Queues) GuardedTags(annotation string) []string {
	return q.assignments.GuardedTags(annotation)
}

// Namespace stores the annotations of a Namespace; nil after its deletion.
func (q *Queues) Namespace(name string, annotations map[string]string) {
	q.assignments.Namespace(name, annotations)
}

// Update stores a Placement that was created or changed.
func (q *Queues) Update(pl *v1alpha1.Placement) {
	admitted := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionQueueAdmitted)
	waits := ""
	if admitted != nil && admitted.Status == metav1.ConditionFalse && assignment.WithoutQueue(admitted.Reason) {
		waits = cmp.Or(admitted.Message, admitted.Reason)
	}
	q.assignments.Submit(assignment.Submission{
		Key: assignment.Key{Namespace: pl.Namespace, Name: pl.Name}, Created: pl.CreationTimestamp.Time,
		Annotations: pl.Annotations, Labels: pl.Labels,
		Waits: waits, NotDecided: framework.WhyNotDecided(pl) != "",
	})
}

// Delete removes a deleted Placement.
func (q *Queues) Delete(placement types.NamespacedName) {
	q.assignments.Withdraw(assignment.Key(placement))
}

// Admission returns the current admission of a Placement: its queue and what the queue allows.
func (q *Queues) Admission(pl *v1alpha1.Placement, now time.Time) *framework.QueueAdmission {
	return q.admission(pl, now, q.assignments.Admit)
}

// PreviewEdited is what Admission would return for a Placement, also after an edit, in its present
// queue. It changes nothing.
func (q *Queues) PreviewEdited(pl *v1alpha1.Placement, now time.Time) *framework.QueueAdmission {
	return q.admission(pl, now, q.assignments.PreviewNumber)
}

func (q *Queues) admission(
	pl *v1alpha1.Placement, now time.Time, admit func(key assignment.Key, wanted int) assignment.Admission,
) *framework.QueueAdmission {
	name := types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
	wanted := -1
	switch n := pl.Spec.NumberOfClusters; {
	case n != nil:
		wanted = int(*n)
	case q.clusters != nil:
		wanted = q.clusters()
	}
	admission := admit(assignment.Key(name), wanted)
	_, listed, _ := q.published(name)
	return admissionOf(admission, listed, now)
}

// Preview is what Admission would return for a Placement that does not exist, if the submitter of
// an object created it now. The object's identity annotation and user label count, not those of the
// Placement.
func (q *Queues) Preview(pl *v1alpha1.Placement, submitted metav1.Object, now time.Time) *framework.QueueAdmission {
	s := assignment.Submission{
		Key: assignment.Key{Namespace: pl.Namespace}, Created: now,
		Annotations: withKey(pl.Annotations, submitted.GetAnnotations(), identity.UserInfoAnnotation),
		Labels:      withKey(pl.Labels, submitted.GetLabels(), q.userLabel),
	}
	return admissionOf(q.assignments.Preview(s), 0, now)
}

// withKey returns a copy of values in which a key has the value that it has in from, or is missing
// as it is there.
func withKey(values, from map[string]string, key string) map[string]string {
	with := maps.Clone(values)
	delete(with, key)
	if value, ok := from[key]; ok {
		if with == nil {
			with = map[string]string{}
		}
		with[key] = value
	}
	return with
}

// admissionOf returns an Admission as the scheduler reads it. listed is the number of published
// clusters.
func admissionOf(admission assignment.Admission, listed int, now time.Time) *framework.QueueAdmission {
	queue := &framework.QueueAdmission{
		Admitted: admission.Admitted, Reason: admission.Reason, Message: admission.Message, Rejected: admission.Rejected,
		Restricted: admission.Restricted, Sets: admission.Sets, Limit: admission.Limit, LimitBy: admission.LimitBy,
		Annotation: admission.Annotation, Listed: listed,
	}
	if admission.RetryAfter > 0 {
		queue.RetryAt = now.Add(admission.RetryAfter)
	}
	return queue
}

// SetClusters stores how many clusters a Placement has, or is about to publish.
func (q *Queues) SetClusters(placement types.NamespacedName, clusters int) {
	q.assignments.SetClusters(assignment.Key(placement), clusters)
}
