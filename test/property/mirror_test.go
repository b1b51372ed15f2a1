package property

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// mirror is an inventory that gets only the recorded inputs of another one, as text. restored is
// one that began with the contents of the other one at some time.
type mirror struct {
	lines              [][]byte
	inv, restored      *inventory.Inventory
	decoder, afterward *recording.Decoder
	encoder            *recording.Encoder
	checks             int
}

func newMirror() *mirror {
	return &mirror{inv: inventory.New(inventory.Options{}), decoder: recording.NewDecoder(), encoder: recording.NewEncoder()}
}

// record is inventory.Options.OnInput.
func (m *mirror) record(in inventory.Input) { m.lines = append(m.lines, m.lineOf(in)) }

func (m *mirror) lineOf(in inventory.Input) []byte {
	e, err := m.encoder.Encode(in)
	if err != nil {
		panic(err)
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return line
}

// check applies the inputs since the last check. At each fifth one, restored begins again.
func (m *mirror) check(t *rapid.T, source *inventory.Inventory) {
	m.apply(t, source)
	if m.checks++; m.checks%5 != 1 {
		return
	}
	var contents [][]byte
	m.encoder = recording.NewEncoder()
	source.Contents(func(_ int64, all []inventory.Input) {
		for _, in := range all {
			contents = append(contents, m.lineOf(in))
		}
	})
	m.restored, m.afterward = inventory.New(inventory.Options{}), recording.NewDecoder()
	for _, line := range contents {
		applyLine(t, m.restored, m.afterward, line)
	}
}

func (m *mirror) apply(t *rapid.T, source *inventory.Inventory) {
	// A Snapshot may add inputs: the decision that the pages show.
	for _, key := range source.Placements() {
		source.Snapshot(key, fixture.Now, nil)
	}
	for _, line := range m.lines {
		applyLine(t, m.inv, m.decoder, line)
		if m.restored != nil {
			applyLine(t, m.restored, m.afterward, line)
		}
	}
	m.lines = nil
}

func applyLine(t *rapid.T, inv *inventory.Inventory, d *recording.Decoder, line []byte) {
	var e recording.Entry
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	in, ok, err := d.Input(&e)
	if err != nil || !ok {
		t.Fatalf("%s: %t, %v", line, ok, err)
	}
	inv.Apply(in)
}

// compare compares what the inventories know about a Placement.
func (m *mirror) compare(t *rapid.T, source *inventory.Inventory, key inventory.Key) {
	m.apply(t, source)
	want := exactViewOf(source.Snapshot(key, fixture.Now, nil))
	for name, inv := range map[string]*inventory.Inventory{"all inputs": m.inv, "contents and later inputs": m.restored} {
		if diff := cmp.Diff(want, exactViewOf(inv.Snapshot(key, fixture.Now, nil)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("snapshot of %s from %s (-source +replayed):\n%s", key, name, diff)
		}
	}
}

// exactView is a view with what memory of earlier decisions adds.
type exactView struct {
	View               view
	Last               *framework.Published
	NotReady           map[string]string
	Has, Leaving       []string
	Peers, Selections  []string
	Request            string
	Requested          []string
	AffinityCycle      string
	Counted, SetErrors []string
}

func exactViewOf(s *framework.Snapshot) exactView {
	if s == nil {
		return exactView{}
	}
	names := func(set framework.Bitset) (all []string) {
		for i := range set.All {
			if c := s.Clusters.Get(i); c != nil {
				all = append(all, c.Name)
			}
		}
		slices.Sort(all)
		return all
	}
	v := exactView{
		View: viewOf(s), Last: s.Subject.Last, NotReady: s.NotReady, Has: names(s.Subject.Has), Leaving: names(s.Subject.Leaving),
		AffinityCycle: s.Subject.AffinityCycle, Counted: names(s.Subject.Entries.Clusters),
	}
	// A write that changes nothing that decisions depend on is no input, so versions may differ.
	v.View.Clusters, v.View.Scores, v.View.Pages = nil, nil, nil
	for i := range s.Clusters.Len() {
		c := s.Clusters.Get(i)
		if c == nil {
			continue
		}
		v.View.Clusters = append(v.View.Clusters, fmt.Sprint(c.Name, c.Labels, c.Claims, c.TaintTimes, c.CPU, c.Memory))
		for _, resource := range scoreNames {
			if o := s.Scores[resource].Get(i); o != nil {
				v.View.Scores = append(v.View.Scores, fmt.Sprint(o.Namespace, o.Name, o.Status.Scores, o.Status.ValidUntil))
			}
		}
	}
	slices.Sort(v.View.Clusters)
	slices.Sort(v.View.Scores)
	for _, p := range s.Subject.Pages {
		v.View.Pages = append(v.View.Pages, fmt.Sprint(p.Name, framework.ContentHash(p)))
	}
	for _, p := range s.Subject.SelectionPolicies {
		v.Selections = append(v.Selections, p.Name+" "+p.ResourceVersion)
	}
	for _, p := range s.Subject.Peers {
		v.Peers = append(v.Peers, fmt.Sprint(p.Name, p.With, p.ApartFrom, p.Mutual, p.Older, names(p.Clusters)))
	}
	if s.Subject.CapacityRequest != nil {
		v.Request = fmt.Sprint(s.Subject.CapacityRequest.Amounts)
	}
	for _, resource := range slices.Sorted(maps.Keys(s.Capacities)) {
		for i := range s.Clusters.Len() {
			if c := s.Clusters.Get(i); c != nil {
				v.Requested = append(v.Requested, fmt.Sprint(resource, c.Name, s.Capacities[resource].Allocatable.Get(i), s.Capacities[resource].Requested.Get(i)))
			}
		}
	}
	slices.Sort(v.Requested)
	return v
}
