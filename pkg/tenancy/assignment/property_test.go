package assignment_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
	"github.com/berth-dev/berth/test/fixture"
)

// configs are configurations that a hub gets one after the other. Their rules read the same tag.
var configs = []string{
	fixture.Partition(`
queues: [{name: a, maxapplications: 2}, {name: b, resources: {max: {clusters: 5}}}, {name: p, queues: [{name: x}]}]
placementrules: [{name: provided, create: true}, {name: tag, value: team, create: true, parent: {name: fixed, value: p}}]`),
	fixture.Partition(`
queues: [{name: b, resources: {max: {clusters: 2}}}, {name: p, parent: true, resources: {max: {clusters: 4}}}]
placementrules: [{name: tag, value: team, create: true}, {name: user, create: true, parent: {name: fixed, value: p}}]`),
	fixture.Partition(`
queues: [{name: a}, {name: dyn, maxapplications: 1}]
limits: [{users: [ann], maxapplications: 3, maxresources: {clusters: 6}}, {groups: [team-bob, team-cid], maxapplications: 4}]
placementrules: [{name: provided}, {name: user, create: true}]`),
	broken,
}

// quotasOf returns the most that each configuration lets a queue's members have; queues without one
// are left out.
func quotasOf(config string) map[string]tenancy.Quota {
	parsed, _, err := queueconfig.Parse([]byte(config))
	if err != nil {
		return nil
	}
	most := map[string]tenancy.Quota{}
	for _, name := range []string{"root", "root.a", "root.b", "root.p", "root.dyn"} {
		if q := parsed.Tree.Queue(name); q != nil {
			most[name] = q.Quota
		}
	}
	return most
}

// used adds up what is admitted to a queue and below it.
func (d *testQueues) used(queue string) (used tenancy.Quota) {
	for name := range d.placements {
		in := d.queueOf(name)
		if d.admissions[name].Admitted && (in == queue || len(in) > len(queue) && in[:len(queue)+1] == queue+".") {
			used.Applications++
			used.Clusters += int64(d.pages[name].clusters)
		}
	}
	return used
}

// TestQueuesAreKept changes Placements and configurations and restarts controllers. No reload and
// no restart moves a Placement or takes its clusters, no quota becomes exceeded, and a restarted
// controller gives the same answers.
func TestQueuesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newTestQueues(configs[0])
		active, stored, edited, waited := configs[0], configs[0], map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			before, pages, was := d.state(), maps.Clone(d.pages), map[string]tenancy.Quota{}
			for queue := range quotasOf(active) {
				was[queue] = d.used(queue)
			}
			touched := ""
			kind := rapid.SampledFrom([]string{"add", "add", "add", "edit", "edit", "disable", "remove", "configure", "restart"}).Draw(t, "what")
			names := slices.Sorted(maps.Keys(d.placements))
			if len(names) == 0 && (kind == "edit" || kind == "disable" || kind == "remove") {
				kind = "add"
			}
			reloaded := false
			switch kind {
			case "add":
				touched = fmt.Sprintf("p%d", rapid.IntRange(0, 9).Draw(t, "name"))
				if d.placements[touched] != nil {
					d.remove(touched)
					before, pages = d.state(), maps.Clone(d.pages)
				}
				d.add(touched, drawUser(t), drawQueue(t), rapid.IntRange(0, 5).Draw(t, "wanted"), labelled("team", drawTeam(t)),
					func(p *placement) {
						p.Created = epoch.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "age")) * time.Minute)
					})
			case "edit":
				touched = rapid.SampledFrom(names).Draw(t, "name")
				d.edit(touched, labelled("queue", drawQueue(t)), labelled("team", drawTeam(t)), func(p *placement) { p.wanted = rapid.IntRange(0, 5).Draw(t, "wanted") })
			case "disable":
				touched = rapid.SampledFrom(names).Draw(t, "name")
				d.edit(touched, func(p *placement) { p.NotDecided = !p.NotDecided })
			case "remove":
				touched = rapid.SampledFrom(names).Draw(t, "name")
				d.remove(touched)
			case "configure":
				stored = rapid.SampledFrom(configs).Draw(t, "config")
			case "restart":
				d.config, active, reloaded = stored, stored, true
				d.restart(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)))
			}
			// A refused configuration is applied when Placements have left their queues.
			if (kind == "configure" || stored != active) && d.configure(stored) == nil {
				active, reloaded = stored, true
			}
			d.config = active
			edited[touched] = true
			maps.DeleteFunc(pages, func(name string, _ page) bool { return edited[name] })
			maps.DeleteFunc(edited, func(name string, _ bool) bool { return d.admissions[name].Reason != assignment.ReasonConfigInvalid })
			d.check(t, kind, touched, active, reloaded, before, pages, was, waited)
			for name, v := range d.admissions { // Without a configuration the reason does not say it.
				waited[name] = v.Reason == assignment.ReasonQuotaExceeded || v.Reason == assignment.ReasonConfigInvalid && waited[name]
			}
		}
	})
}

func drawUser(t *rapid.T) string {
	return rapid.SampledFrom([]string{"ann", "bob", "cid", ""}).Draw(t, "user")
}
func drawTeam(t *rapid.T) string { return rapid.SampledFrom([]string{"", "web", "db"}).Draw(t, "team") }
func drawQueue(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "a", "b", "b", "root.p.x", "root.p.y", "root.dyn", "root.dyn.deep", "nowhere"}).Draw(t, "queue")
}

func (d *testQueues) check(t *rapid.T, kind, touched, active string, reloaded bool, before map[string]string, pages map[string]page, was map[string]tenancy.Quota, waited map[string]bool) {
	for name, old := range pages {
		if d.placements[name] == nil || old.record == "" {
			continue
		}
		rejected := d.admissions[name].Rejected
		// Who waits for a place elsewhere may get it.
		if !waited[name] && (d.queueOf(name) != queueIn(old) || rejected) {
			t.Fatalf("%s moved %s: %s, then %s", kind, name, before[name], d.state()[name])
		}
		// A Placement that waited since an edit gets fewer clusters if it wants fewer since then.
		if now := d.pages[name].clusters; now < min(old.clusters, d.placements[name].wanted) && d.queueOf(name) == queueIn(old) {
			t.Fatalf("%s took clusters from %s: %d, then %d", kind, name, old.clusters, now)
		}
	}
	if !reloaded {
		for queue, quota := range quotasOf(active) {
			used := d.used(queue)
			if used.Applications > max(quota.Applications, was[queue].Applications) || used.Clusters > max(quota.Clusters, was[queue].Clusters) {
				t.Fatalf("%s lets %s have %+v of %+v, where it had %+v: %v", kind, queue, used, quota, was[queue], d.state())
			}
		}
	}
	// A restarted controller gives the same answers and writes nothing. A rejected Placement may
	// find that its queue exists by now.
	again := &testQueues{now: d.now, config: active, namespaces: d.namespaces, placements: maps.Clone(d.placements), pages: maps.Clone(d.pages), recorded: maps.Clone(d.recorded), waits: maps.Clone(d.waits), admissions: maps.Clone(d.admissions)}
	again.restart(rand.New(rand.NewPCG(1, 2)))
	want, got := d.state(), again.state()
	for name := range want {
		if d.admissions[name].Rejected {
			delete(want, name)
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("after %s %s a new controller says otherwise (-want +got):\n%s", kind, touched, diff)
	}
}

func queueIn(p page) string {
	d := &testQueues{pages: map[string]page{"": p}}
	return d.queueOf("")
}
