package decisions

import (
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Page is one PlacementDecision of a plan.
type Page struct {
	Name       string
	GroupName  string
	GroupIndex int // from 0, dense over the pages of a Placement
	// Decisions are at most v1alpha1.MaxDecisionsPerPage and never nil. They may share memory with
	// Current: do not change them.
	Decisions []v1alpha1.ClusterDecision
	// Queue is the value of the queue annotation; empty leaves the annotation unchanged.
	Queue string
	// Revision is that of the change that writes the page; 0 leaves it unchanged.
	Revision int64
	// Current is the published object; nil if there is none.
	Current *v1alpha1.PlacementDecision
}

// Object returns the object to write. It keeps labels, annotations, finalizers and owners of others
// on Current, and has its uid and resourceVersion.
func (p Page) Object(pl *v1alpha1.Placement) *v1alpha1.PlacementDecision {
	out := &v1alpha1.PlacementDecision{}
	if p.Current != nil {
		p.Current.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
		out.ManagedFields = nil
	}
	out.Name, out.Namespace = p.Name, pl.Namespace
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	maps.Copy(out.Labels, p.labels(pl))
	annotate := func(key, value string) {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[key] = value
	}
	if p.Queue != "" {
		annotate(v1alpha1.QueueAnnotation, p.Queue)
	}
	if p.Revision != 0 {
		annotate(berthv1alpha1.RevisionAnnotation, strconv.FormatInt(p.Revision, 10))
	}
	if owner := ownerReference(pl); !slices.ContainsFunc(out.OwnerReferences, func(r metav1.OwnerReference) bool { return sameReference(r, owner) }) {
		out.OwnerReferences = slices.DeleteFunc(out.OwnerReferences, func(r metav1.OwnerReference) bool { return pl.IsReferredToBy(r) })
		out.OwnerReferences = append(out.OwnerReferences, owner)
	}
	out.Status.Decisions = make([]v1alpha1.ClusterDecision, len(p.Decisions))
	for i := range p.Decisions {
		p.Decisions[i].DeepCopyInto(&out.Status.Decisions[i])
	}
	return out
}

func (p Page) labels(pl *v1alpha1.Placement) map[string]string {
	return map[string]string{
		v1alpha1.PlacementLabel:          pl.Name,
		v1alpha1.DecisionGroupNameLabel:  p.GroupName,
		v1alpha1.DecisionGroupIndexLabel: strconv.Itoa(p.GroupIndex),
	}
}

// hasMetadata reports whether Current has the labels, the queue and the owner of Object.
func (p Page) hasMetadata(pl *v1alpha1.Placement) bool {
	have := p.Current.Labels
	if p.Queue != "" && p.Current.Annotations[v1alpha1.QueueAnnotation] != p.Queue {
		return false
	}
	for key, value := range p.labels(pl) {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	owner := ownerReference(pl)
	return slices.ContainsFunc(p.Current.OwnerReferences, func(r metav1.OwnerReference) bool { return sameReference(r, owner) })
}

// ownerReference makes the garbage collector delete the page with its Placement. It uses v1beta1,
// the version that every hub serves.
func ownerReference(pl *v1alpha1.Placement) metav1.OwnerReference {
	return *metav1.NewControllerRef(pl, v1alpha1.GroupVersionV1Beta1.WithKind("Placement"))
}

func sameReference(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		isTrue(a.Controller) && isTrue(a.BlockOwnerDeletion)
}

func isTrue(b *bool) bool { return b != nil && *b }
