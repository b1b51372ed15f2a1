package decisions

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// The labels of SIG-Multicluster's PlacementDecisions, and their kind.
const (
	ProfileGroupVersion = "multicluster.x-k8s.io/v1alpha1"
	ProfileKind         = "PlacementDecision"
	// DecisionKeyLabel is the same on all pages of a Placement: its name.
	DecisionKeyLabel = "multicluster.x-k8s.io/decision-key"
	// DecisionIndexLabel numbers the pages of a Placement from 0.
	DecisionIndexLabel = "multicluster.x-k8s.io/decision-index"
)

// ProfilePage is a PlacementDecision of multicluster.x-k8s.io/v1alpha1. It has neither spec nor
// status.
type ProfilePage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Decisions are at most v1alpha1.MaxDecisionsPerPage, and never nil when Berth wrote them.
	Decisions     []ProfileDecision `json:"decisions"`
	SchedulerName string            `json:"schedulerName,omitempty"`
}

// ProfileDecision names one chosen cluster.
type ProfileDecision struct {
	ClusterProfileRef ProfileRef `json:"clusterProfileRef"`
	Reason            string     `json:"reason,omitempty"`
}

// ProfileRef is a ClusterProfile; without a namespace, it is in the page's.
type ProfileRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// Profiles writes pages of ClusterProfiles.
type Profiles struct {
	// Namespace has the ClusterProfiles, each named like its ManagedCluster; empty is the
	// Placement's own.
	Namespace string
	// Qualified is true if ManagedClusters are named NAMESPACE.NAME after their ClusterProfiles.
	// Then Namespace is empty.
	Qualified bool
	// SchedulerName is what pages say of their author.
	SchedulerName string
}

// ProfileWrite is one request. Page is the content after it; for Delete, the page to delete. A page
// may be written twice, as in a Write; UID and ResourceVersion are those of the published page.
type ProfileWrite struct {
	Op   Op
	Page ProfilePage
}

// Plan plans the writes that make the pages of ClusterProfiles list the same clusters as a plan's
// pages, with the same guarantees. It treats each page as a PlacementDecision in a group of its
// own, so the group index is the page index. Indexes stay dense from 0 and are unique in the end;
// while a page is being replaced, two pages may have the same index.
//
// A page keeps its clusters and its number regardless of the name of the page that it mirrors.
// Published pages are those with DecisionKeyLabel that no other object controls; the names of
// others are taken.
func (o Profiles) Plan(pl *v1alpha1.Placement, published []ProfilePage, wanted Plan) []ProfileWrite {
	pages := make([]*v1alpha1.PlacementDecision, len(published))
	for i := range published {
		pages[i] = o.read(pl, &published[i])
	}
	answer := Grouping{Queue: o.SchedulerName, onePage: true}
	for _, page := range wanted.Pages {
		key := groupKey(strconv.Itoa(page.GroupIndex), page.GroupName)
		if n := len(answer.Groups); len(page.Decisions) > 0 && (n == 0 || answer.Groups[n-1].GroupName != key) {
			answer.Groups = append(answer.Groups, GroupMembers{GroupName: key})
		}
		for i := range page.Decisions {
			members := &answer.Groups[len(answer.Groups)-1]
			members.Choices = append(members.Choices, len(answer.Choices))
			answer.Choices = append(answer.Choices, Choice{Name: page.Decisions[i].ClusterName})
		}
	}
	answer.Length = min(len(answer.Choices), v1alpha1.MaxDecisionsPerPage)
	plan := NewPlan(pl, pages, nil, answer)
	writes := make([]ProfileWrite, len(plan.Writes))
	for i, w := range plan.Writes {
		writes[i] = ProfileWrite{Op: w.Op, Page: o.written(pl, w.Page)}
	}
	return writes
}

// read converts a page for the planner. A page without DecisionKeyLabel counts as unfinished, and
// one with it as published. The planner writes a page without v1alpha1.PlacementLabel again, as if
// it had another author.
func (o Profiles) read(pl *v1alpha1.Placement, page *ProfilePage) *v1alpha1.PlacementDecision {
	pd := &v1alpha1.PlacementDecision{}
	page.DeepCopyInto(&pd.ObjectMeta)
	if pd.Labels == nil {
		pd.Labels = map[string]string{}
	}
	author := page.SchedulerName
	if page.Labels[v1alpha1.PlacementLabel] != pl.Name {
		author = ""
	}
	if pd.Labels[v1alpha1.PlacementLabel] = pl.Name; page.Labels[DecisionKeyLabel] != pl.Name {
		delete(pd.Labels, v1alpha1.PlacementLabel)
	}
	pd.Labels[v1alpha1.DecisionGroupNameLabel] = groupKey(page.Labels[v1alpha1.DecisionGroupIndexLabel], page.Labels[v1alpha1.DecisionGroupNameLabel])
	pd.Labels[v1alpha1.DecisionGroupIndexLabel] = page.Labels[DecisionIndexLabel]
	if pd.Annotations == nil {
		pd.Annotations = map[string]string{}
	}
	pd.Annotations[v1alpha1.QueueAnnotation] = author
	if page.Decisions != nil {
		pd.Status.Decisions = make([]v1alpha1.ClusterDecision, len(page.Decisions))
	}
	for i, d := range page.Decisions {
		pd.Status.Decisions[i] = v1alpha1.ClusterDecision{ClusterName: o.clusterOf(d.ClusterProfileRef), Reason: d.Reason}
	}
	return pd
}

// written converts a planned page for the hub.
func (o Profiles) written(pl *v1alpha1.Placement, page Page) ProfilePage {
	object := page.Object(pl)
	out := ProfilePage{ObjectMeta: object.ObjectMeta, SchedulerName: o.SchedulerName, Decisions: make([]ProfileDecision, len(page.Decisions))}
	out.APIVersion, out.Kind = ProfileGroupVersion, ProfileKind
	// For profile pages, the planner keeps the scheduler's name in the annotation of the queue.
	delete(out.Annotations, v1alpha1.QueueAnnotation)
	index, name := splitGroupKey(page.GroupName)
	out.Labels[DecisionKeyLabel] = pl.Name
	out.Labels[DecisionIndexLabel] = strconv.Itoa(page.GroupIndex)
	out.Labels[v1alpha1.DecisionGroupIndexLabel] = index
	out.Labels[v1alpha1.DecisionGroupNameLabel] = name
	for i, d := range page.Decisions {
		out.Decisions[i] = ProfileDecision{ClusterProfileRef: o.refOf(d.ClusterName), Reason: d.Reason}
	}
	return out
}

// clusterOf returns the name of a ClusterProfile's cluster, for refOf. A reference that Berth would
// write in another way gets a name that no cluster has, so that the planner rewrites the page.
func (o Profiles) clusterOf(ref ProfileRef) string {
	name := ref.Name
	if o.Qualified && ref.Namespace != "" {
		name = ref.Namespace + "." + name
	}
	if o.refOf(name) != ref {
		return ref.Namespace + "/" + ref.Name
	}
	return name
}

// refOf returns the ClusterProfile of a cluster, or of a name from clusterOf.
func (o Profiles) refOf(cluster string) ProfileRef {
	if namespace, name, elsewhere := strings.Cut(cluster, "/"); elsewhere {
		return ProfileRef{Name: name, Namespace: namespace}
	}
	if namespace, name, ok := strings.Cut(cluster, "."); ok && o.Qualified {
		return ProfileRef{Name: name, Namespace: namespace}
	}
	return ProfileRef{Name: cluster, Namespace: o.Namespace}
}

// groupKey identifies the decision group of a page by index and name. It is "" for an empty
// decision and for one with a single unnamed group.
func groupKey(index, name string) string {
	if index == "0" && name == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s", index, name)
}

func splitGroupKey(key string) (index, name string) {
	if key == "" {
		return "0", ""
	}
	index, name, _ = strings.Cut(key, "/")
	return index, name
}
