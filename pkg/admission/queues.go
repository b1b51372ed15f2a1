package admission

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/tenancy"
)

// Queues keeps Placements in the queues that a ConfigMap describes: it turns objects into what pkg/tenancy decides on, and its
// verdicts into what the scheduler may decide. Controller and simulator share it.
type Queues struct {
	admission *tenancy.QueueAdmission
	published func(types.NamespacedName) (queue string, clusters int)
	access    atomic.Pointer[tenancy.AccessControl]

	configuring sync.Mutex
	data        map[string]string // of the ConfigMap that was read last
}

// QueuesOptions are all required but UserLabel.
type QueuesOptions struct {
	// UserLabel is the key of the label that names a user. Default tenancy.DefaultUserLabel.
	UserLabel string
	// Published returns the queue that a Placement's pages record, and how many clusters they list:
	// the pages that this very Placement controls.
	Published func(types.NamespacedName) (queue string, clusters int)
	// Wake is called for Placements that are to be decided anew.
	Wake func([]types.NamespacedName)
	Now  func() time.Time
}

// NewQueues begins without a configuration: no Placement is admitted, and what is published stays.
func NewQueues(o QueuesOptions) *Queues {
	q := &Queues{published: o.Published}
	q.access.Store(&tenancy.AccessControl{})
	q.admission = tenancy.NewQueueAdmission(tenancy.QueueAdmissionOptions{
		UserLabel: o.UserLabel, Now: o.Now,
		Published: func(key tenancy.Key) (string, int) { return o.Published(types.NamespacedName(key)) },
		Wake: func(keys []tenancy.Key) {
			woken := make([]types.NamespacedName, len(keys))
			for i, key := range keys {
				woken[i] = types.NamespacedName(key)
			}
			o.Wake(woken)
		},
	})
	return q
}

// Configure takes in the ConfigMap. Queues that are not valid leave those in force, which the error says; a setting that is not
// valid has its default, which the warnings say. What did not change says nothing.
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
	access, warnings := tenancy.ParseAccessControl(config.Data)
	q.access.Store(&access)
	problems, err := q.admission.Configure([]byte(config.Data[QueuesKey]))
	for _, p := range problems {
		warnings = append(warnings, p.String())
	}
	return warnings, err
}

// Unconfigured says why there is no ConfigMap. What was in force stays.
func (q *Queues) Unconfigured(why string) {
	q.configuring.Lock()
	q.data = nil
	q.configuring.Unlock()
	q.admission.Unconfigured(why)
}

// Access are the settings in force of who may name another submitter.
func (q *Queues) Access() tenancy.AccessControl { return *q.access.Load() }

// CheckQueues says what is wrong with a queue configuration, and what is legal and yet without effect.
func CheckQueues(text []byte) (warnings []string, err error) {
	_, problems, err := tenancy.Parse(text)
	for _, p := range problems {
		warnings = append(warnings, p.String())
	}
	return warnings, err
}

// Administers says whether somebody administers the queue that pages record.
func (q *Queues) Administers(record string, who tenancy.Identity) bool {
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
	submission := tenancy.Submission{
		Key: tenancy.Key{Namespace: pl.Namespace, Name: pl.Name}, Created: pl.CreationTimestamp.Time,
		Annotations: pl.Annotations, Labels: pl.Labels,
	}
	if c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionQueueAdmitted); c != nil && c.Status == metav1.ConditionTrue {
		submission.Admitted = c.Message
	}
	q.admission.Submit(submission)
}

// Delete takes in that a Placement is gone.
func (q *Queues) Delete(placement types.NamespacedName) { q.admission.Withdraw(tenancy.Key(placement)) }

// Seat narrows a snapshot to what the Placement's queue allows.
func (q *Queues) Seat(snapshot *framework.Snapshot) {
	key := tenancy.Key(snapshot.Subject.Key())
	wanted := -1
	if n := snapshot.Subject.Placement.Spec.NumberOfClusters; n != nil {
		wanted = int(*n)
	}
	verdict := q.admission.Resolve(key, wanted)
	_, listed := q.published(snapshot.Subject.Key())
	seat := &framework.QueueAdmission{
		Listed:   listed,
		Admitted: verdict.Admitted, Reason: verdict.Reason, Message: verdict.Message, Rejected: verdict.Rejected,
		Restricted: verdict.Restricted, LimitBy: verdict.LimitBy, Record: verdict.Record,
		Took: func(clusters int) { q.admission.Took(key, clusters) },
	}
	if verdict.RetryAfter > 0 {
		seat.RetryAt = snapshot.Now.Add(verdict.RetryAfter)
	}
	snapshot.Queue, snapshot.Limit = seat, verdict.Limit
	if verdict.Restricted {
		snapshot.Sets = slices.DeleteFunc(slices.Clone(snapshot.Sets), func(set *framework.ClusterSet) bool {
			return !slices.Contains(verdict.Sets, set.Name)
		})
	}
}
