package decisions

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/readers"
)

func testPlacement() *v1alpha1.Placement {
	return &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "uid-p"}}
}

// world is an API server's memory of the pages in one namespace.
type world struct {
	placement *v1alpha1.Placement
	pages     map[string]*v1alpha1.PlacementDecision
}

func newWorld() *world {
	return &world{placement: testPlacement(), pages: map[string]*v1alpha1.PlacementDecision{}}
}

func (w *world) published() []*v1alpha1.PlacementDecision {
	var out []*v1alpha1.PlacementDecision
	for _, name := range slices.Sorted(maps.Keys(w.pages)) {
		out = append(out, w.pages[name].DeepCopy())
	}
	return out
}

func (w *world) plan(a Grouping) Plan { return NewPlan(w.placement, w.published(), nil, a) }

// apply carries out one write as the publisher does.
func (w *world) apply(write Write) error {
	current, exists := w.pages[write.Page.Name]
	if exists != (write.Op != Create) {
		return fmt.Errorf("%s of page %s, which exists: %t", write.Op, write.Page.Name, exists)
	}
	if exists && w.placement.RelationOf(current) != v1alpha1.PageOwn && w.placement.RelationOf(current) != v1alpha1.PageUnfinished {
		return fmt.Errorf("%s of page %s, which is not ours", write.Op, write.Page.Name)
	}
	if write.Op == Delete {
		delete(w.pages, write.Page.Name)
		return nil
	}
	page := write.Page
	if page.GroupIndex < 0 {
		return fmt.Errorf("%s of page %s in group %d", write.Op, page.Name, page.GroupIndex)
	}
	page.Current = current
	w.pages[page.Name] = page.Object(w.placement)
	return nil
}

// visible is what readers see on the pages that are the Placement's own to keep: all clusters, and
// those that a reader of groups sees in any case.
func (w *world) visible() (clusters, byGroups map[string]bool, broken string) {
	var pages []readers.Page
	without := "" // a page without content, which may only be alone
	names := map[int]map[string]bool{}
	for _, pd := range w.pages {
		if w.placement.RelationOf(pd) != v1alpha1.PageOwn {
			continue
		}
		if pd.Status.Decisions == nil {
			without = pd.Name
		}
		if len(pd.Status.Decisions) > v1alpha1.MaxDecisionsPerPage {
			broken = "page over the limit: " + pd.Name
		}
		index := indexOf(pd.Labels[v1alpha1.DecisionGroupIndexLabel])
		if names[index] == nil {
			names[index] = map[string]bool{}
		}
		names[index][pd.Labels[v1alpha1.DecisionGroupNameLabel]] = true
		pages = append(pages, readers.PageOf(pd))
	}
	for i := range len(names) {
		if len(names[i]) != 1 {
			broken = fmt.Sprintf("group indexes not dense, or with several names: %v", names)
		}
	}
	if without != "" && len(pages) > 1 {
		broken = "page without content: " + without
	}
	return readers.Union(pages), readers.ByGroups(pages), broken
}

// page makes a published page of clusters separated by spaces.
func page(name, groupName, groupIndex, clusters string, change ...func(*v1alpha1.PlacementDecision)) *v1alpha1.PlacementDecision {
	pd := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns",
		Labels: map[string]string{
			v1alpha1.PlacementLabel:          "p",
			v1alpha1.DecisionGroupNameLabel:  groupName,
			v1alpha1.DecisionGroupIndexLabel: groupIndex,
		},
		OwnerReferences: []metav1.OwnerReference{ownerReference(testPlacement())},
	}}
	pd.Status.Decisions = []v1alpha1.ClusterDecision{}
	for c := range strings.FieldsSeq(clusters) {
		pd.Status.Decisions = append(pd.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: c})
	}
	for _, f := range change {
		f(pd)
	}
	return pd
}

func controlledBy(uid types.UID) func(*v1alpha1.PlacementDecision) {
	return func(pd *v1alpha1.PlacementDecision) {
		owner := ownerReference(testPlacement())
		owner.UID = uid
		pd.OwnerReferences = []metav1.OwnerReference{owner}
	}
}

func withoutOwner(pd *v1alpha1.PlacementDecision) { pd.OwnerReferences = nil }

func withoutLabel(key string) func(*v1alpha1.PlacementDecision) {
	return func(pd *v1alpha1.PlacementDecision) { delete(pd.Labels, key) }
}

// show renders pages as "name group/index: clusters".
func show(name, groupName string, groupIndex int, decisions []v1alpha1.ClusterDecision) string {
	var b strings.Builder
	b.WriteString(name + " " + groupName + "/" + strconv.Itoa(groupIndex) + ":")
	for _, d := range decisions {
		b.WriteString(" " + d.ClusterName)
		if d.Score != nil {
			fmt.Fprintf(&b, "=%d", *d.Score)
		}
	}
	return b.String()
}

func showPages(pages []Page) []string {
	var out []string
	for _, p := range pages {
		out = append(out, show(p.Name, p.GroupName, p.GroupIndex, p.Decisions))
	}
	return out
}

func showWrites(writes []Write) []string {
	var out []string
	for _, w := range writes {
		text := string(w.Op) + " " + w.Page.Name
		if w.Op != Delete {
			text = string(w.Op) + " " + show(w.Page.Name, w.Page.GroupName, w.Page.GroupIndex, w.Page.Decisions)
		}
		if !w.DecisionsChanged {
			text += " (silent)"
		}
		out = append(out, text)
	}
	return out
}
