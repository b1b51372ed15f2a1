package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Key names a Placement.
type Key = types.NamespacedName

// Options are the inventory's settings.
type Options struct {
	// FirstSeen returns the time at which a taint without timeAdded counts as added, when the
	// inventory first sees it. If nil, such taints count as added in the year 1.
	FirstSeen func() time.Time
	// Reads returns the properties of clusters that the plugins of a Placement's profile read,
	// beside those that its spec names. If nil, there are none. It is called with the inventory
	// locked.
	Reads func(*v1alpha1.Placement) framework.Reads
	// OnAffected is called with the Placements that a change made by Berth itself affects, because
	// of their SelectionPolicies. If nil, nothing is called. No lock of the inventory is held.
	OnAffected func([]Key)
	// Follows is true if another process publishes: what Berth published last is what its pages
	// list, whenever they change.
	Follows bool
	// AwaitsStart is true if no Placement is decided before Started, and then all are.
	AwaitsStart bool
	// CheckSettled makes attempts run that would be skipped, on Snapshots with Settled, so that
	// tests can compare the answers.
	CheckSettled bool
	// OnSettled is called with the number of attempts that an event did not start, because they
	// could not have changed the answer. It is called with the inventory locked. If nil, nothing
	// is called.
	OnSettled func(attempts int)
	// OnInput is called with every input, with the inventory locked; it must not block. If nil,
	// inputs are not numbered.
	OnInput func(Input)
}

// Inventory is the fleet in memory, updated by events. It is safe for concurrent use: every method
// takes its lock. Objects passed to it must not be changed afterwards.
type Inventory struct {
	options Options

	mu    sync.Mutex
	names nameTable
	order nameOrder

	clusters framework.Vector[*framework.Cluster]
	log      framework.ChangeLog
	sets     map[string]*clusterSet
	// bindings are by namespace, then name. Only bindings whose name equals their spec.clusterSet
	// are stored.
	bindings nested[string, string, bool]

	scores map[string]*scores

	placements map[Key]*placement
	// byNamespace holds the Placements of each namespace.
	byNamespace nested[string, Key, *placement]
	// readers are the Placements that may use a set, by the set's name, which need not exist, and
	// by readsKey.
	readers nested[string, readsKey, *readerGroup]

	pages   pageTable
	records recordTable
	// counts are the decisions that Placements have published or are publishing, and those on the
	// pages of no Placement. unread are Placements whose last published decision must be read from
	// their pages, because these changed.
	counts decisionCounts
	unread map[Key]struct{}
	// disruptionPolicies are by namespace, then name.
	disruptionPolicies nested[string, string, *disruptionPolicy]
	evictions          byOwner[*berthv1alpha1.PlacementEviction]
	// selections are the SelectionPolicies, holdings what decisions with such policies depend on.
	selections selectionTable
	holdings   holdings
	// readiness are the objects of readiness sources, by source.
	readiness map[string]*readinessSource

	// started is false during the initial listing, starting is true at its end.
	started, starting bool
	// sequence is the number of the last event that affected any Placement.
	sequence int64
	// events is the number of the last event, inputs that of the last input. survivors is a buffer
	// that each event uses again.
	events, inputs int64
	survivors      []*placement

	// announced are the writes of a status that have not returned yet.
	announced map[statusKey]struct{}
	// fleet is the last frozen Fleet; nil after a change.
	fleet       *framework.Fleet
	onPublished atomic.Pointer[func(Key)]
}

// New returns an empty inventory.
func New(options Options) *Inventory {
	return &Inventory{
		options:    options,
		names:      nameTable{index: map[string]int{}},
		sets:       map[string]*clusterSet{},
		scores:     map[string]*scores{},
		placements: map[Key]*placement{},
		pages:      pageTable{byIndex: map[int]few[*page]{}, deleted: map[types.UID]bool{}, announced: map[Key]*announcement{}},
		unread:     map[Key]struct{}{},
		announced:  map[statusKey]struct{}{},
		selections: selectionTable{dependent: map[string]int{}, naming: map[string]few[*selectionPolicy]{}},
		holdings: holdings{
			byPlacement: map[Key]*holding{}, changed: map[Key]struct{}{}, affinity: map[string]struct{}{},
			affinityCycles: map[string]map[Key]string{}, followers: map[string]followers{}, capacities: map[v1alpha1.ResourceName]*capacity{},
		},
		readiness: map[string]*readinessSource{},
	}
}

// Update processes an object that was added or changed. It returns the affected Placements, sorted.
func (inv *Inventory) Update(obj client.Object) []Key {
	return inv.Apply(Input{Kind: InputObject, Object: obj})
}

// Delete processes the deletion of an object. It returns the affected Placements, sorted.
func (inv *Inventory) Delete(obj client.Object) []Key {
	return inv.Apply(Input{Kind: InputDeleted, Object: obj})
}

// AssumePage processes a page that was just written or deleted, or read after its write failed,
// before or after its watch event.
func (inv *Inventory) AssumePage(page *v1alpha1.PlacementDecision, deleted bool) {
	inv.processOwn(func(e *event) {
		content := page
		if deleted {
			content = nil
			inv.assumeDeleted(page, e)
		} else {
			inv.assumeWritten(page, e)
		}
		if inv.pages.isExternal(nameOf(page), content) {
			inv.pageRead(ownerOf(page), e)
		}
	})
}

// read returns what a function returns of a Placement, with the inventory locked; nothing if there
// is no such Placement.
func read[T any](inv *Inventory, key Key, of func(p *placement) T) (none T) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if p := inv.placements[key]; p != nil {
		return of(p)
	}
	return none
}

// placementOf returns the Placement of a Subject; nil if it was deleted or replaced meanwhile.
func (inv *Inventory) placementOf(subject *framework.Subject) *placement {
	if p := inv.placements[subject.Key()]; p != nil && p.object.UID == subject.Placement.UID {
		return p
	}
	return nil
}

// Placement returns the latest known object of a key; nil if there is none.
func (inv *Inventory) Placement(key Key) *v1alpha1.Placement {
	return read(inv, key, func(p *placement) *v1alpha1.Placement { return p.object })
}

// Placements returns the keys of all Placements, sorted.
func (inv *Inventory) Placements() []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return sortedPlacements(inv.placements)
}

// Subject returns what is known of one Placement, without the fleet; nil if there is no such
// Placement.
func (inv *Inventory) Subject(key Key) *framework.Subject {
	return read(inv, key, func(p *placement) *framework.Subject {
		inv.loadLast(p)
		return inv.withRecords(p)
	})
}

// withRecords returns the Subject with the records of the Placement. They are not part of the
// cached Subject, because packed records need less memory.
func (inv *Inventory) withRecords(p *placement) *framework.Subject {
	subject, history := inv.subject(p), inv.historyOf(p)
	if len(history) == 0 {
		return subject
	}
	with := *subject
	with.Records = history
	return &with
}

// Snapshot returns the fleet as one Placement sees it, within what its queue allows (nil: no
// queues); nil if there is no such Placement. Its cost depends on the changes since the last one.
func (inv *Inventory) Snapshot(key Key, now time.Time, queue *framework.QueueAdmission) *framework.Snapshot {
	return read(inv, key, func(p *placement) *framework.Snapshot {
		inv.updateHoldings()
		inv.loadLast(p)
		snapshot := inv.snapshot(p, inv.withRecords(p), now, queue)
		snapshot.Cause = p.cause
		snapshot.Skippable = p.settledCheck && p.settled != nil && p.settled.StillApplies(inv.settledFleet(), queue)
		// Events after this Snapshot are not in it: they start an attempt.
		p.settled, p.settledCheck = nil, false
		snapshot.Sequence = inv.sequence
		return snapshot
	})
}

// SnapshotOfNew returns the fleet as a Placement would see it that does not exist: it has no pages
// and no records, whatever its name.
func (inv *Inventory) SnapshotOfNew(pl *v1alpha1.Placement, now time.Time, queue *framework.QueueAdmission) *framework.Snapshot {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.updateHoldings()
	p := &placement{key: nameOf(pl), object: pl}
	subject := &framework.Subject{Placement: pl, CapacityRequest: inv.capacityRequestOf(p)}
	inv.addPolicies(subject, p)
	return inv.snapshot(p, subject, now, queue)
}

// SnapshotOfEdited returns the Snapshot of a Placement as if it were the given object, after an
// edit of the known one; nil if there is no such Placement.
func (inv *Inventory) SnapshotOfEdited(pl *v1alpha1.Placement, now time.Time, queue *framework.QueueAdmission) *framework.Snapshot {
	return read(inv, nameOf(pl), func(p *placement) *framework.Snapshot {
		inv.updateHoldings()
		inv.loadLast(p)
		edited := *p
		edited.object, edited.subject, edited.disruption, edited.specBefore = pl, nil, nil, specBefore(p, pl)
		return inv.snapshot(&edited, inv.withRecords(&edited), now, queue)
	})
}

func (inv *Inventory) snapshot(p *placement, subject *framework.Subject, now time.Time, queue *framework.QueueAdmission) *framework.Snapshot {
	if inv.selections.affinityOf(p.key) != nil {
		with := *subject
		with.Peers, with.AffinityCycle = inv.peersOf(p), inv.holdings.affinityCycles[p.key.Namespace][p.key]
		subject = &with
	}
	subject = inv.addFollowers(subject, p.key)
	// Replay knows the time of day only, so decisions do not use the monotonic clock.
	now = now.Round(0)
	snapshot := &framework.Snapshot{Fleet: inv.freeze(), Now: now, Subject: subject, Queue: queue, Limit: -1, Input: inv.inputs}
	snapshot.NotReady, snapshot.Unknown = inv.notReady(p, subject.LastNames())
	if queue != nil {
		snapshot.Limit = queue.Limit
	}
	for _, name := range sortedKeys(inv.bindings[p.key.Namespace]) {
		set := inv.sets[name]
		if set == nil {
			continue
		}
		snapshot.BoundSets = append(snapshot.BoundSets, name)
		snapshot.Bound = append(snapshot.Bound, set.freeze())
		if p.wants(name) && queue.Allows(name) {
			snapshot.Sets = append(snapshot.Sets, set.freeze())
		}
	}
	return snapshot
}

// View returns the fleet, and all cluster sets, sorted by name.
func (inv *Inventory) View() (*framework.Fleet, []*framework.ClusterSet) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	sets := make([]*framework.ClusterSet, 0, len(inv.sets))
	for _, name := range sortedKeys(inv.sets) {
		sets = append(sets, inv.sets[name].freeze())
	}
	return inv.freeze(), sets
}

// freeze returns the part of a Snapshot that all Placements share.
func (inv *Inventory) freeze() *framework.Fleet {
	inv.readUnread()
	if inv.fleet != nil {
		return inv.fleet
	}
	all := make(map[string]*framework.Vector[*v1alpha1.AddOnPlacementScore], len(inv.scores))
	for name, v := range inv.scores {
		all[name] = v.Freeze()
	}
	ranks, sorted := inv.order.freeze(&inv.names)
	inv.fleet = &framework.Fleet{
		Clusters:         inv.clusters.Freeze(),
		Ranks:            ranks,
		Sorted:           sorted,
		Counts:           inv.counts.freeze(),
		Scores:           all,
		Log:              inv.log,
		Capacities:       inv.freezeCapacities(),
		CapacityRequests: inv.holdings.capacityRequests.Freeze(),
	}
	return inv.fleet
}

// subject returns the Placement's part of a Snapshot, without Records. It is cached until the
// Placement, its pages, its records, policies or evictions change.
func (inv *Inventory) subject(p *placement) *framework.Subject {
	if p.subject != nil {
		return p.subject
	}
	s := &framework.Subject{
		Placement: p.object, Last: p.last, Edits: p.edits, LastClusters: p.claim.listed,
		Taken: slices.Sorted(maps.Keys(inv.pages.taken[p.key])), SpecBefore: p.specBefore,
	}
	inv.addPolicies(s, p)
	for _, page := range inv.pages.of(p) {
		s.Pages = append(s.Pages, page.object)
	}
	s.Evictions = inv.evictionsOf(p)
	s.Entries.Clusters = p.claim.listed.Clone().Or(p.claim.reserved)
	s.Incumbents, s.Leaving = p.claim.incumbents(), p.claim.leaving
	if h := inv.holdings.byPlacement[p.key]; h != nil {
		s.Has, s.CapacityRequest = h.has, h.capacityRequest
	}
	p.subject = s
	return s
}

// logChange appends a change of cluster i to the log.
func (inv *Inventory) logChange(i int, selectable bool) {
	inv.fleet = nil
	inv.log.Append(framework.ClusterChange{Index: i, Selectable: selectable}, 4096+4*inv.clusters.Len())
}

// affectedSet collects the affected Placements of an event.
type affectedSet map[Key]struct{}

func (w affectedSet) add(key Key) { w[key] = struct{}{} }

func (w affectedSet) all(placements map[Key]*placement) {
	for key := range placements {
		w.add(key)
	}
}

// sortedPlacements returns the keys of a map; nil if it is empty.
func sortedPlacements[V any](m map[Key]V) []Key {
	if len(m) == 0 {
		return nil // as after most events
	}
	// One allocation: this runs for every event.
	keys := slices.AppendSeq(make([]Key, 0, len(m)), maps.Keys(m))
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return keys
}

func sortedKeys[V any](m map[string]V) []string {
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}
