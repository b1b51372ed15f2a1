package admission

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
)

// Submitted has the objects of a hub on which the queues of its Placements depend.
type Submitted struct {
	Placements []*v1alpha1.Placement
	Pages      []*v1alpha1.PlacementDecision
	Namespaces []metav1.Object
}

// maxExceeded is how many exceeded quotas the warnings name.
const maxExceeded = 10

// CheckQueuesFor is CheckQueues for a hub with these objects. It also returns an error if queues
// with Placements could hold none, and warnings: with the number of Placements for which no rule
// finds a queue, and about quotas that Placements exceed already. userLabel is the key of the label
// that names a user; empty for the default.
func CheckQueuesFor(text []byte, userLabel string, hub Submitted) (warnings []string, err error) {
	if warnings, err = CheckQueues(text); err != nil {
		return warnings, err
	}
	published := hub.publishedQueues()
	queues := NewQueues(QueuesOptions{
		UserLabel: userLabel, Now: time.Now, OnAffected: func([]types.NamespacedName) {},
		Published: func(placement types.NamespacedName) (string, int, int) {
			return "", published[placement].clusters, published[placement].clusters
		},
		// The status, which only the controller writes, does not contradict it.
		Recorded: func(placement types.NamespacedName) (string, string) { return published[placement].annotation, "" },
	})
	for _, namespace := range hub.Namespaces {
		queues.Namespace(namespace.GetName(), namespace.GetAnnotations())
	}
	for _, pl := range hub.Placements {
		queues.Update(pl)
	}
	if _, err := queues.Configure(&corev1.ConfigMap{Data: map[string]string{QueuesKey: string(text)}}); err != nil {
		return warnings, err
	}
	effect := queues.assignments.Effect()
	if effect.Unplaced > 0 {
		warnings = append(warnings, tenancy.Bound(fmt.Sprintf("no rule finds a queue for %d of the %d Placements, so they get no cluster; the first is %s/%s: %s",
			effect.Unplaced, effect.Placements, effect.First.Namespace, effect.First.Name, effect.Reason)))
	}
	for _, exceeded := range effect.Exceeded[:min(len(effect.Exceeded), maxExceeded)] {
		warnings = append(warnings, tenancy.Bound(exceeded+": its Placements keep their clusters and get no more"))
	}
	if more := len(effect.Exceeded) - maxExceeded; more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more quotas are exceeded", more))
	}
	return warnings, effect.Blocked
}

// publishedQueue is the queue annotation of a Placement's pages, and how many clusters they list.
type publishedQueue struct {
	annotation string
	clusters   int
}

func (s Submitted) publishedQueues() map[types.NamespacedName]publishedQueue {
	placements := make(map[types.NamespacedName]*v1alpha1.Placement, len(s.Placements))
	for _, pl := range s.Placements {
		placements[types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}] = pl
	}
	published := map[types.NamespacedName]publishedQueue{}
	for _, page := range s.Pages {
		key := types.NamespacedName{Namespace: page.Namespace, Name: page.PlacementName()}
		pl := placements[key]
		if pl == nil || !pl.Controls(page) {
			continue
		}
		p := published[key]
		if p.annotation == "" && !contradicts(pl.Status.Conditions, page.Annotations[v1alpha1.QueueAnnotation]) {
			p.annotation = page.Annotations[v1alpha1.QueueAnnotation]
		}
		p.clusters += len(page.Status.Decisions)
		published[key] = p
	}
	return published
}

// contradicts reports whether the conditions of a Placement, which only the controller writes, say
// that it is in another queue than an annotation of its pages.
func contradicts(conditions []metav1.Condition, annotation string) bool {
	admitted := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionQueueAdmitted)
	return admitted != nil && assignment.Contradicts(admitted.Reason, admitted.Message, annotation)
}

// WarnOfUnplaced returns a warning if a valid configuration has no queue for Placements without an
// identity that request none, as all Placements are before queues exist.
func WarnOfUnplaced(config *queueconfig.Config) (warning string) {
	_, err := config.Tree.Place(tenancy.Request{User: identity.Nobody, Groups: []string{identity.Nobody}}, tenancy.NewMembers())
	if rejected := (*tenancy.Rejected)(nil); errors.As(err, &rejected) {
		return tenancy.Bound(fmt.Sprintf("no rule finds a queue for a Placement of user %s that requests none, so it gets no cluster: %s", identity.Nobody, strings.Join(rejected.Reasons, "; ")))
	}
	return ""
}
