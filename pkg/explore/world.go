package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// errUnknown is the error for an object that does not exist.
var errUnknown = errors.New("not found")

// decider decides Placements of a world. Decisions are not published.
type decider interface {
	// begin takes the state for the decision of one Placement. The world is locked.
	begin(key types.NamespacedName) (taken, error)
}

// taken decides one Placement, without the lock of the world.
type taken interface {
	// outline decides without verdicts, explain with the one on a cluster.
	outline(ctx context.Context) (*simulator.Report, error)
	explain(ctx context.Context, cluster string) (*simulator.Report, error)
}

// attempter is taken by a decider with an engine of its own.
type attempter interface {
	attempt(ctx context.Context, visit func(*scheduler.Attempt)) (skipped string, err error)
}

// world is one state of a hub: now, at an earlier time, or after the edits of a what-if. Its owner
// locks it.
type world struct {
	inventory *inventory.Inventory
	decider   decider
	// isWhatIf is true after the edits of a what-if: then the engine decides what would change.
	// Otherwise records do.
	isWhatIf bool
	// lacksPages is true if the viewer may not list pages.
	lacksPages bool
	// now returns the time of the state.
	now func() time.Time
	// notRecorded returns why the spec of a Placement is unknown; nil except in the past.
	notRecorded func(types.NamespacedName) string
	// published are the clusters of each Placement that countPublished counted. onPages is the
	// number of published decisions of each cluster, also of one that is known by its name only.
	published map[types.NamespacedName][]string
	onPages   map[string]int
	// plugins are those that excluded a cluster in a column.
	plugins []string
	// columns are the cells that were computed, by Placement. Their order is that of names.
	columns map[types.NamespacedName]*columnEntry
	names   []string
	// rows are the positions in names by the index of the cluster.
	rows []int32
}

func newWorld(inv *inventory.Inventory, d decider, now func() time.Time) *world {
	w := &world{inventory: inv, decider: d, now: now, plugins: []string{}, columns: map[types.NamespacedName]*columnEntry{}}
	w.countAllPublished()
	return w
}

func (w *world) countAllPublished() {
	w.published, w.onPages = map[types.NamespacedName][]string{}, map[string]int{}
	for _, key := range w.inventory.Placements() {
		w.countPublished(key)
	}
}

// countPublished counts the decision of a Placement after it or its pages changed. It returns the
// clusters that it has more or less than before.
func (w *world) countPublished(key types.NamespacedName) []string {
	var names []string
	if subject := w.inventory.Subject(key); subject != nil {
		names = published(subject)
	}
	added, removed := changes.Minus(names, w.published[key]), changes.Minus(w.published[key], names)
	for _, name := range added {
		w.onPages[name]++
	}
	for _, name := range removed {
		if w.onPages[name]--; w.onPages[name] == 0 {
			delete(w.onPages, name)
		}
	}
	if w.published[key] = names; len(names) == 0 {
		delete(w.published, key)
	}
	return append(added, removed...)
}

// simulated decides with the engine.
type simulated struct{ *simulator.Simulator }

func (s simulated) begin(key types.NamespacedName) (taken, error) {
	t, err := s.Take(key)
	return simulatedOne{t}, err
}

type simulatedOne struct{ *simulator.Taken }

func (s simulatedOne) outline(ctx context.Context) (*simulator.Report, error) { return s.Outline(ctx) }

func (s simulatedOne) explain(ctx context.Context, cluster string) (*simulator.Report, error) {
	return s.Explain(ctx, cluster)
}

func (s simulatedOne) attempt(ctx context.Context, visit func(*scheduler.Attempt)) (string, error) {
	return s.Attempt(ctx, visit)
}

// clusterNames returns the names of all clusters, sorted.
func (w *world) clusterNames() []string {
	fleet, _ := w.inventory.View()
	names := make([]string, 0, len(fleet.Sorted))
	for _, i := range fleet.Sorted {
		names = append(names, fleet.Clusters.Get(int(i)).Name)
	}
	more := maps.Clone(w.onPages)
	if r, ok := w.decider.(*remote); ok {
		for name := range r.names() {
			more[name] = 0
		}
	}
	for name := range more {
		if fleet.Cluster(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// setNames sets the order of the cells. It returns true if it changed; then no column is known.
func (w *world) setNames() bool {
	names := w.clusterNames()
	same := slices.Equal(names, w.names)
	w.names = names
	fleet, _ := w.inventory.View()
	// Decisions of columns may still use the last ones.
	w.rows = nil
	for row, name := range names {
		if c := fleet.Cluster(name); c != nil {
			for len(w.rows) <= c.Index {
				w.rows = append(w.rows, -1)
			}
			w.rows[c.Index] = int32(row)
		}
	}
	if !same {
		clear(w.columns)
	}
	return !same
}

// clusterRows returns the rows of all clusters.
func (w *world) clusterRows() []ClusterRow {
	fleet, sets := w.inventory.View()
	rows := make([]ClusterRow, 0, len(w.names))
	for _, name := range w.names {
		rows = append(rows, w.clusterRow(fleet, sets, name))
	}
	return rows
}

func (w *world) clusterRow(fleet *framework.Fleet, sets []*framework.ClusterSet, name string) ClusterRow {
	row := ClusterRow{Name: name, Decisions: w.onPages[name]}
	c := fleet.Cluster(name)
	if c == nil {
		return row
	}
	row.Labels, row.Drained, row.Taints, row.Version = c.Labels, c.Drained(), len(c.Spec.Taints), c.Status.Version.Kubernetes
	row.Sets = setsOf(sets, c)
	for _, name := range []v1alpha1.ResourceName{v1alpha1.ResourceCPU, v1alpha1.ResourceMemory} {
		if r := resourceOf(fleet, c, name); r.Allocatable != "" || r.Requested != "" {
			row.Usage = append(row.Usage, Resource{Name: r.Name, Allocatable: r.Allocatable, Requested: r.Requested})
		}
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == v1alpha1.ManagedClusterConditionAvailable {
			row.Available = string(condition.Status)
		}
	}
	return row
}

// setsOf returns the names of the sets that have a cluster, in the order of ClusterRow.Sets.
func setsOf(sets []*framework.ClusterSet, c *framework.Cluster) []string {
	rank := func(set *framework.ClusterSet) int {
		switch {
		case set.Name == v1alpha1.GlobalManagedClusterSetName:
			return 3
		case set.Name == v1alpha1.DefaultManagedClusterSetName:
			return 2
		case set.Selector != nil:
			return 1
		}
		return 0
	}
	var having []*framework.ClusterSet
	for _, set := range sets {
		if set.Members.Has(c.Index) {
			having = append(having, set)
		}
	}
	slices.SortFunc(having, func(a, b *framework.ClusterSet) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	var names []string
	for _, set := range having {
		names = append(names, set.Name)
	}
	return names
}

// placementRow returns the row of one Placement; false if it does not exist.
func (w *world) placementRow(key types.NamespacedName) (PlacementRow, bool) {
	subject := w.inventory.Subject(key)
	if subject == nil {
		return PlacementRow{}, false
	}
	if w.notRecorded != nil {
		if why := w.notRecorded(key); why != "" {
			return PlacementRow{Placement: key.String(), Selected: len(published(subject)), States: []changes.StateName{changes.StateUndecided}, Message: why}, true
		}
	}
	pl := subject.Placement
	row := PlacementRow{Placement: key.String(), Wanted: pl.Spec.NumberOfClusters, Selected: len(published(subject))}
	if w.lacksPages {
		row.Selected = int(pl.Status.NumberOfSelectedClusters)
	}
	history := changes.History(subject.Records)
	states := changes.StateInput{
		Placement: pl, History: history, DisruptionPolicies: subject.DisruptionPolicies, SelectionPolicies: subject.SelectionPolicies,
	}.States()
	row.Message, row.Since = states[0].Message, states[0].Since
	for _, state := range states {
		row.States = append(row.States, state.Name)
	}
	// A record without a phase is that of a change that is being published.
	if record := history.Open(); record != nil && record.Status.Phase != "" {
		row.Change = new(changeRow(record))
	}
	if snapshot := w.inventory.Snapshot(key, w.now(), nil); snapshot != nil {
		for _, set := range snapshot.Sets {
			row.Sets = append(row.Sets, set.Name)
		}
	}
	return row, true
}

// placementRows returns the rows of all Placements, in order of namespace and name.
func (w *world) placementRows() []PlacementRow {
	rows := []PlacementRow{}
	for _, key := range w.inventory.Placements() {
		if row, ok := w.placementRow(key); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// maxChanges is how many changes the overview shows.
const maxChanges = 50

// changeRows returns the newest changes of all Placements.
func (w *world) changeRows() []ChangeRow {
	records := w.inventory.Records()
	slices.SortFunc(records, func(a, b *berthv1alpha1.PlacementChange) int { return changes.Began(b).Compare(changes.Began(a)) })
	rows := make([]ChangeRow, 0, min(len(records), maxChanges))
	for _, record := range records[:min(len(records), maxChanges)] {
		rows = append(rows, changeRow(record))
	}
	return rows
}

func changeRow(record *berthv1alpha1.PlacementChange) ChangeRow {
	view := changes.ViewOf(record)
	row := ChangeRow{
		Placement: view.Placement, Name: record.Name, Revision: view.Revision, Time: view.Time, Phase: view.Phase,
		Added: view.AddedCount, Removed: view.RemovedCount, Cause: view.Cause, Message: view.Message,
	}
	if left := view.Remaining; left != nil {
		row.RemainingAdded, row.RemainingRemoved = &left.Added, &left.Removed
	}
	return row
}

// fleet returns the whole state, without the fields of a live one.
func (w *world) fleet() *Fleet {
	w.setNames()
	return &Fleet{At: w.now(), Clusters: w.clusterRows(), Placements: w.placementRows(), Changes: w.changeRows()}
}

// published returns the clusters on the pages of a Placement, sorted.
func published(subject *framework.Subject) []string {
	var names []string
	for _, page := range subject.OwnPages() {
		for _, decision := range page.Status.Decisions {
			names = append(names, decision.ClusterName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// subject returns a Placement by its name; an error if it does not exist.
func (w *world) subject(placement string) (*framework.Subject, error) {
	namespace, name, _ := strings.Cut(placement, "/")
	subject := w.inventory.Subject(types.NamespacedName{Namespace: namespace, Name: name})
	if subject == nil {
		return nil, fmt.Errorf("the Placement %q: %w", placement, errUnknown)
	}
	return subject, nil
}
