package admission

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
)

// Queues keeps Placements in the queues that a ConfigMap describes: it turns objects into what
// pkg/tenancy decides on, and its verdicts into what the scheduler may decide. Controller and
// simulator share it.
type Queues struct {
	admission *assignment.Assignments
	published func(types.NamespacedName) (queue string, clusters int)
	access    atomic.Pointer[identity.AccessControl]

	configuring sync.Mutex
	data        map[string]string // of the ConfigMap that was read last
}

// QueuesOptions are all required but UserLabel.
type QueuesOptions struct {
	// UserLabel is the key of the label that names a user. Default identity.DefaultUserLabel.
	UserLabel string
	// Published returns the queue that a Placement's pages record, and how many clusters they list:
	// the pages that this very Placement controls.
	Published func(types.NamespacedName) (queue string, clusters int)
	// Recorded returns the queue that the last change of a Placement recorded, which nobody but the
	// controller writes.
	Recorded func(types.NamespacedName) (queue string)
	// Wake is called with the Placements that must be decided again.
	Wake func([]types.NamespacedName)
	Now  func() time.Time
}

// NewQueues begins without a configuration: no Placement is admitted, and what is published stays.
func NewQueues(o QueuesOptions) *Queues {
	q := &Queues{published: o.Published}
	q.access.Store(&identity.AccessControl{})
	q.admission = assignment.New(assignment.Options{
		UserLabel: o.UserLabel, Now: o.Now,
		Published: func(key assignment.Key) (string, int) { return o.Published(types.NamespacedName(key)) },
		Recorded:  func(key assignment.Key) string { return o.Recorded(types.NamespacedName(key)) },
		Wake: func(keys []assignment.Key) {
			woken := make([]types.NamespacedName, len(keys))
			for i, key := range keys {
				woken[i] = types.NamespacedName(key)
			}
			o.Wake(woken)
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
	problems, err := q.admission.Configure([]byte(config.Data[QueuesKey]))
	for _, p := range problems {
		warnings = append(warnings, p.String())
	}
	return warnings, err
}

// Unconfigured records why there is no ConfigMap. The last valid configuration stays.
func (q *Queues) Unconfigured(why string) {
	q.configuring.Lock()
	q.data = nil
	q.configuring.Unlock()
	q.admission.Unconfigured(why)
}

// Access returns the current settings that decide which users may name another submitter.
func (q *Queues) Access() identity.AccessControl { return *q.access.Load() }

// CheckQueues says what is wrong with a queue configuration, and what is legal and yet without
// effect.
func CheckQueues(text []byte) (warnings []string, err error) {
	_, problems, err := queueconfig.Parse(text)
	for _, p := range problems {
		warnings = append(warnings, p.String())
	}
	return warnings, err
}

// Administers is true if the user may administer the recorded queue.
func (q *Queues) Administers(record string, who identity.Identity) bool {
	return q.admission.Administers(record, who)
}

// GuardedTags are the tags of a Placement with this record, in lower case, on which its queue
// depends.
func (q *Queues) GuardedTags(record string) []string { return q.admission.GuardedTags(record) }

// Namespace takes in the annotations of a Namespace; nil when it is gone.
func (q *Queues) Namespace(name string, annotations map[string]string) {
	q.admission.Namespace(name, annotations)
}

// Update takes in a Placement that came or changed.
func (q *Queues) Update(pl *v1alpha1.Placement) {
	q.admission.Submit(assignment.Submission{
		Key: assignment.Key{Namespace: pl.Namespace, Name: pl.Name}, Created: pl.CreationTimestamp.Time,
		Annotations: pl.Annotations, Labels: pl.Labels,
	})
}

// Delete takes in that a Placement is gone.
func (q *Queues) Delete(placement types.NamespacedName) {
	q.admission.Withdraw(assignment.Key(placement))
}

// Admission is what its queue means for a Placement now.
func (q *Queues) Admission(pl *v1alpha1.Placement, now time.Time) *framework.QueueAdmission {
	name := types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
	wanted := -1
	if n := pl.Spec.NumberOfClusters; n != nil {
		wanted = int(*n)
	}
	verdict := q.admission.Resolve(assignment.Key(name), wanted)
	_, listed := q.published(name)
	queue := &framework.QueueAdmission{
		Admitted: verdict.Admitted, Reason: verdict.Reason, Message: verdict.Message, Rejected: verdict.Rejected,
		Restricted: verdict.Restricted, Sets: verdict.Sets, Limit: verdict.Limit, LimitBy: verdict.LimitBy,
		Record: verdict.Record, Listed: listed,
	}
	if verdict.RetryAfter > 0 {
		queue.RetryAt = now.Add(verdict.RetryAfter)
	}
	return queue
}

// Count takes in how many clusters a Placement has, or is about to have.
func (q *Queues) Count(placement types.NamespacedName, clusters int) {
	q.admission.Took(assignment.Key(placement), clusters)
}
