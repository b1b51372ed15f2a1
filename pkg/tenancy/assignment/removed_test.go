package assignment_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRemovedQueuesDrainWithTheirSettings: a queue that leaves the configuration keeps its cluster
// sets, quotas and limits, and those of the queues that leave with it.
func TestRemovedQueuesDrainWithTheirSettings(t *testing.T) {
	const others = "queues: [{name: other}]" + provided
	type want = map[string]string
	for name, tc := range map[string]struct {
		before, after string // of the partition
		queue         string
		want          want
	}{
		"sets": {
			before: "queues: [{name: a, properties: {clustersets: x}}]", after: others, queue: "root.a",
			want: want{"p": "true [x] -1 ", "q": "true [x] -1 "},
		},
		"no set": {
			before: "queues: [{name: a, properties: {clustersets: ''}}]", after: others, queue: "root.a",
			want: want{"p": "true [] -1 ", "q": "true [] -1 "},
		},
		"inherited sets": {
			before: "queues: [{name: root, properties: {clustersets: x}, queues: [{name: a}]}]", after: others, queue: "root.a",
			want: want{"p": "true [x] -1 ", "q": "true [x] -1 "},
		},
		"sets of a parent that is renamed": {
			before: "queues: [{name: a, properties: {clustersets: x}, queues: [{name: b}]}]", after: "queues: [{name: c, properties: {clustersets: x}, queues: [{name: b}]}]", queue: "root.a.b",
			want: want{"p": "true [x] -1 ", "q": "true [x] -1 "},
		},
		"sets of a template": {
			before: "queues: [{name: a, parent: true, childtemplate: {properties: {clustersets: x}, resources: {max: {clusters: 5}}}}]" + provided, after: others, queue: "root.a.dyn",
			want: want{"p": "true [x] 3 root.a.dyn clusters 5", "q": "true [x] 2 root.a.dyn clusters 5"},
		},
		"a quota": {
			before: "queues: [{name: a, resources: {max: {clusters: 5}}}]", after: others, queue: "root.a",
			want: want{"p": "false [] 3 root.a clusters 5", "q": "false [] 2 root.a clusters 5"},
		},
		"a quota of a parent": {
			before: "queues: [{name: a, resources: {max: {clusters: 5}}, queues: [{name: b}]}]", after: others, queue: "root.a.b",
			want: want{"p": "false [] 3 root.a clusters 5", "q": "false [] 2 root.a clusters 5"},
		},
		"limits": {
			before: "queues: [{name: a, limits: [{users: [ann], maxresources: {clusters: 4}}, {groups: [team-bob], maxresources: {clusters: 1}}]}]", after: others, queue: "root.a",
			want: want{"p": "false [] 4 root.a user ann clusters 4", "q": "false [] 1 root.a group team-bob clusters 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestQueues(fixture.Partition(tc.before))
			d.add("p", "ann", tc.queue, 3)
			d.add("q", "bob", tc.queue, 3)
			for range 2 { // A second reload, too.
				if err := d.configure(fixture.Partition(tc.after)); err != nil {
					t.Fatal(err)
				}
				got := want{}
				for name, v := range d.admissions {
					by, _, _ := strings.Cut(v.LimitBy, " (")
					got[name] = fmt.Sprint(v.Restricted, " ", v.Sets, " ", v.Limit, " ", by)
					if v.Reason != assignment.ReasonQueueDraining || !v.Admitted {
						t.Errorf("%s: %+v", name, v)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			d.remove("p")
			d.remove("q")
			d.add("new", "ann", "root.a", 9)
			if v := d.admissions["new"]; v.Restricted || v.Limit != -1 {
				t.Errorf("a queue that was created again: %+v", v)
			}
		})
	}
}

// TestReloadsKeepDecisions: neither a reload nor a restart changes or empties a decision, unless a
// user lost access or the Placement itself changed.
func TestReloadsKeepDecisions(t *testing.T) {
	const (
		before = "queues: [{name: a, properties: {clustersets: x}}, {name: p, parent: true, queues: [{name: b}]}, {name: last}]\nplacementrules: [{name: provided, create: true}, {name: fixed, value: root.last}]"
		rules  = "\nplacementrules: [{name: provided, create: true}, {name: fixed, value: root.last}]"
	)
	for name, tc := range map[string]struct {
		after        string
		refused      string // a part of the error; empty if the configuration is applied
		afterRestart string // the reasons of the Placements then
	}{
		"no partition default":        {after: "partitions: [{name: other, queues: [{name: a}]}]", refused: "partition default", afterRestart: "ConfigInvalid ConfigInvalid ConfigInvalid"},
		"an empty text":               {after: "", refused: "not set", afterRestart: "ConfigInvalid ConfigInvalid ConfigInvalid"},
		"no partitions":               {after: "partitions: []", refused: "not set", afterRestart: "ConfigInvalid ConfigInvalid ConfigInvalid"},
		"a leaf that gets a child":    {after: fixture.Partition("queues: [{name: a, queues: [{name: c}]}, {name: p, parent: true, queues: [{name: b}]}, {name: last}]" + rules), refused: "root.a is a parent", afterRestart: "ConfigInvalid Placed Placed"},
		"a leaf that is a parent":     {after: fixture.Partition("queues: [{name: a, parent: true}, {name: p, parent: true, queues: [{name: b}]}, {name: last}]" + rules), refused: "root.a is a parent", afterRestart: "ConfigInvalid Placed Placed"},
		"a parent that is a leaf":     {after: fixture.Partition("queues: [{name: a}, {name: p}, {name: last}]" + rules), refused: "root.p is a leaf", afterRestart: "Placed ConfigInvalid QueueDraining"},
		"a dynamic queue is a parent": {after: fixture.Partition("queues: [{name: a}, {name: p, queues: [{name: b}, {name: dyn, parent: true}]}, {name: last}]" + rules), refused: "root.p.dyn is a parent", afterRestart: "Placed ConfigInvalid Placed"},
		"a renamed queue":             {after: fixture.Partition("queues: [{name: a2, properties: {clustersets: x}}, {name: p, parent: true, queues: [{name: b}]}, {name: last}]" + rules), afterRestart: "QueueDraining Placed Placed"},
		"a renamed parent":            {after: fixture.Partition("queues: [{name: a}, {name: p2, parent: true, queues: [{name: b}]}, {name: last}]" + rules), afterRestart: "Placed QueueDraining QueueDraining"},
		"no queue":                    {after: fixture.Partition("queues: []"), afterRestart: "QueueDraining QueueDraining QueueDraining"},
		"other rules":                 {after: fixture.Partition("queues: [{name: a}, {name: p, parent: true, queues: [{name: b}]}, {name: last}]\nplacementrules: [{name: fixed, value: root.last}]"), afterRestart: "Placed Placed Placed"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestQueues(fixture.Partition(before))
			d.add("in-a", "ann", "root.a", 3)
			d.add("in-dyn", "ann", "root.p.dyn", 3)
			d.add("in-p", "ann", "root.p.b", 3)
			pages := fmt.Sprint(d.clusters())
			err := d.configure(tc.after)
			if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("got %v, want %q", err, tc.refused)
			}
			for name, v := range d.admissions {
				if !v.Admitted || err != nil && v.Reason != assignment.ReasonPlaced {
					t.Errorf("%s: %+v", name, v)
				}
			}
			d.restart(rand.New(rand.NewPCG(1, 1)))
			got := ""
			for _, name := range []string{"in-a", "in-dyn", "in-p"} {
				v := d.admissions[name]
				got += " " + v.Reason
				if v.Rejected || v.Admitted != (v.Reason == assignment.ReasonPlaced) || v.Message == "" {
					t.Errorf("%s: %+v", name, v)
				}
			}
			if diff := cmp.Diff(tc.afterRestart, got[1:]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(pages, fmt.Sprint(d.clusters())); diff != "" {
				t.Errorf("published clusters (-want +got):\n%s", diff)
			}
			if err := d.configure(fixture.Partition(before)); err != nil {
				t.Fatal(err)
			}
			for name, v := range d.admissions {
				if v.Reason != assignment.ReasonPlaced {
					t.Errorf("with the old configuration, %s: %+v", name, v)
				}
			}
		})
	}
}

// clusters returns how many clusters each Placement has, and in which queue.
func (d *testQueues) clusters() map[string]string {
	all := map[string]string{}
	for name, p := range d.pages {
		all[name] = fmt.Sprint(d.queueOf(name), " ", p.clusters)
	}
	return all
}

// TestRefusedConfigurationIsAppliedLater: it is applied when the Placements that it was refused for
// have left their queues.
func TestRefusedConfigurationIsAppliedLater(t *testing.T) {
	parent := fixture.Partition("queues: [{name: a, queues: [{name: c}]}, {name: b}]")
	for name, vacate := range map[string]func(d *testQueues){
		"deleted": func(d *testQueues) { d.remove("p") },
		"moved":   func(d *testQueues) { d.edit("p", labelled("queue", "root.b")) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestQueues(fixture.Partition("queues: [{name: a}, {name: b}]"))
			d.add("p", "ann", "root.a", 1)
			if err := d.configure(parent); err == nil || !strings.Contains(err.Error(), "1") {
				t.Fatalf("got %v", err)
			}
			d.add("q", "ann", "root.a.c", 1)
			if got := d.admissions["q"].Reason; got != assignment.ReasonNoRuleMatched {
				t.Errorf("before: %s", got)
			}
			vacate(d)
			d.edit("q", labelled("any", "thing"))
			if got := d.state()["q"]; got != "Placed root.a.c 1" {
				t.Errorf("after: %s", got)
			}
		})
	}
}

// TestUnusableQueueIsLeftOnRequest: a Placement whose queue left the configuration before a restart
// moves when it requests another queue.
func TestUnusableQueueIsLeftOnRequest(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a}, {name: b}]"))
	d.add("p", "ann", "root.a", 1)
	if err := d.configure(fixture.Partition("queues: [{name: b}]")); err != nil {
		t.Fatal(err)
	}
	d.restart(rand.New(rand.NewPCG(1, 1)))
	d.edit("p", func(p *placement) { p.wanted = 5 })
	if got := d.state()["p"]; got != "QueueDraining root.a 1" {
		t.Errorf("in a queue whose sets are unknown: %s", got)
	}
	d.edit("p", labelled("queue", "root.b"))
	if got := d.state()["p"]; got != "Placed root.b 5" {
		t.Errorf("after the request: %s", got)
	}
}

// TestFollowerKnowsRemovedQueues: a replica that begins to lead while a queue drains knows its
// settings, if it has read the configuration before.
func TestFollowerKnowsRemovedQueues(t *testing.T) {
	before, after := fixture.Partition("queues: [{name: a, properties: {clustersets: x}}]"), fixture.Partition("queues: [{name: b}]")
	d := newTestQueues(before)
	d.add("p", "ann", "root.a", 1)
	d.startController() // It knows no Placement yet.
	for _, config := range []string{before, after, after + "checksum: x\n"} {
		if err := d.configure(config); err != nil {
			t.Fatal(err)
		}
	}
	d.edit("p")
	if v := d.admissions["p"]; !v.Admitted || v.Reason != assignment.ReasonQueueDraining || !v.Restricted {
		t.Errorf("got %+v", v)
	}
}

// TestQueueSurvivesItsLostAnnotation: without the annotation of its pages a Placement stays in the
// queue of its last change.
func TestQueueSurvivesItsLostAnnotation(t *testing.T) {
	for name, record := range map[string]string{"deleted": "", "damaged": `{"queue":`, "of no queue": `{"queue":"root.a b","rule":"fixed"}`} {
		t.Run(name, func(t *testing.T) {
			d := newTestQueues(fixture.Partition("queues: [{name: a}, {name: b}]\nplacementrules: [{name: fixed, value: root.a}]"))
			d.add("p", "ann", "", 2)
			d.pages["p"] = page{record, 2}
			d.config = fixture.Partition("queues: [{name: a}, {name: b}]\nplacementrules: [{name: fixed, value: root.b}]")
			d.restart(rand.New(rand.NewPCG(1, 1)))
			if got := d.state()["p"]; got != "Placed root.a 2" {
				t.Error(got)
			}
		})
	}
}

// TestForgedQueueOnPages: whatever queue another client writes on the pages of a Placement, now or
// while no controller runs, the Placement stays in its queue and keeps its clusters, also those
// beyond a quota that was lowered since.
func TestForgedQueueOnPages(t *testing.T) {
	for name, forged := range map[string]string{
		"another queue of the user": `{"queue":"root.b","rule":"provided","user":"ann","requested":"root.a","configured":"root.b"}`,
		"other inputs":              `{"queue":"root.a","rule":"provided","user":"ann","requested":"root.b","configured":"root.a"}`,
		"a queue that drains":       `{"queue":"root.a.x","rule":"provided","user":"ann","requested":"root.a","configured":"root.a.x"}`,
		"another user":              `{"queue":"root.b","rule":"provided","user":"bob","requested":"root.a","configured":"root.b"}`,
		"no queue":                  "",
	} {
		for when, restarts := range map[string]bool{"while a controller runs": false, "while none runs": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				d := newTestQueues(fixture.Partition("queues: [{name: a, resources: {max: {clusters: 3}}}, {name: b}]"))
				d.add("p", "ann", "root.a", 3)
				if err := d.configure(fixture.Partition("queues: [{name: a, resources: {max: {clusters: 1}}}, {name: b}]")); err != nil {
					t.Fatal(err)
				}
				d.pages["p"] = page{forged, 3}
				if restarts {
					d.restart(rand.New(rand.NewPCG(1, 1)))
				}
				d.edit("p", labelled("any", "thing"))
				if got := d.state()["p"]; got != "Placed root.a 3" {
					t.Error(got)
				}
			})
		}
	}
}

// TestForgedQueueOfARejectedPlacement: a page gives no queue to a Placement that no rule places.
func TestForgedQueueOfARejectedPlacement(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a}, {name: b}]\nplacementrules: [{name: tag, value: team}]"))
	d.add("p", "ann", "", 3)
	d.pages["p"] = page{`{"queue":"root.b","rule":"tag","user":"ann","tags":{"team":""},"configured":"root.b"}`, 0}
	d.edit("p", labelled("any", "thing"))
	if got := d.admissions["p"]; !got.Rejected {
		t.Errorf("got %+v", got)
	}
}

// TestMoveWithoutARecord: a Placement that moved without a change of its clusters, which has no
// record, stays after a restart where its pages say.
func TestMoveWithoutARecord(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a}, {name: b}]"))
	d.add("p", "ann", "root.a", 3)
	recorded := d.recorded["p"]
	d.edit("p", labelled("queue", "root.b"))
	d.recorded["p"] = recorded
	d.config = fixture.Partition("queues: [{name: a}, {name: b, resources: {max: {clusters: 1}}}]\nplacementrules: [{name: fixed, value: root.a}]")
	d.restart(rand.New(rand.NewPCG(1, 1)))
	if got := d.state()["p"]; got != "Placed root.b 3" {
		t.Error(got)
	}
}

// TestWaitingSurvivesARestart: a Placement without clusters that left its queue, and found it full
// when it asked for it again, waits after a restart too.
func TestWaitingSurvivesARestart(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: b, maxapplications: 1}]"))
	d.add("p", "ann", "root.a", 0)
	d.add("other", "ann", "root.b", 1)
	d.edit("p", labelled("queue", "root.b"))
	d.add("next", "ann", "root.a", 1)
	d.edit("p", labelled("queue", "root.a"))
	valid := d.config
	for _, config := range []string{valid, broken, valid} {
		if got := d.state()["p"]; got != "QuotaExceeded root.a 0" {
			t.Error(got)
		}
		d.config = config
		d.restart(rand.New(rand.NewPCG(1, 1)))
		d.edit("p") // The status was written meanwhile.
		if err := d.configure(valid); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMoveThatWasNotPublishedSurvivesARestart: so does one with clusters, whose pages still name
// the queue, because nothing could be published in the other one.
func TestMoveThatWasNotPublishedSurvivesARestart(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: b}]"))
	d.add("p", "ann", "root.a", 1)
	p := d.placements["p"]
	p.Labels["queue"] = "root.b"
	d.submit(p)
	delete(d.affected, "p")
	if v := d.admission.Admit(p.Key, 1); !v.Admitted {
		t.Fatal(v)
	}
	d.add("next", "ann", "root.a", 1)
	d.edit("p", labelled("queue", "root.a"))
	for range 2 {
		if got := d.state(); got["p"] != "QuotaExceeded root.a 1" || got["next"] != "Placed root.a 1" {
			t.Error(got)
		}
		d.restart(rand.New(rand.NewPCG(1, 1)))
	}
	d.remove("next")
	if got := d.state()["p"]; got != "Placed root.a 1" {
		t.Error(got)
	}
}

// TestWhoLeavesAndReturnsTakesNoQuota: a Placement that leaves its queue and returns before its
// clusters are removed keeps only those for which there is still quota. Later it keeps clusters
// under a lowered quota, as others do.
func TestWhoLeavesAndReturnsTakesNoQuota(t *testing.T) {
	queues := func(clusters int) string {
		return fixture.Partition(fmt.Sprintf("queues: [{name: a, resources: {max: {clusters: %d}}}, {name: b}]", clusters))
	}
	for _, elsewhere := range []string{"nowhere", "root.b"} {
		for taken, want := range map[int]int{0: 5, 2: 3, 5: 0} {
			t.Run(fmt.Sprintf("%s, %d taken", elsewhere, taken), func(t *testing.T) {
				d := newTestQueues(queues(5))
				d.add("p", "ann", "root.a", 5)
				d.add("next", "ann", "root.a", taken)
				p := d.placements["p"]
				p.Labels["queue"] = elsewhere
				d.submit(p)
				delete(d.affected, "p")
				d.admission.Admit(p.Key, 5) // The change is held.
				d.decideAffected()
				d.edit("p", labelled("queue", "root.a"))
				if err := d.configure(queues(1)); err != nil {
					t.Fatal(err)
				}
				if got := d.state(); got["p"] != fmt.Sprint("Placed root.a ", want) || got["next"] != fmt.Sprint("Placed root.a ", taken) {
					t.Error(got)
				}
			})
		}
	}
}

// TestEditWithinAFullQueue: a Placement that asks for the queue in which it is stays there, also if
// the quota was lowered below what the queue holds.
func TestEditWithinAFullQueue(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a, maxapplications: 2}]\nplacementrules: [{name: provided}, {name: fixed, value: root.a}]"))
	d.add("p", "ann", "", 1)
	d.add("q", "ann", "", 1)
	if err := d.configure(fixture.Partition("queues: [{name: a, maxapplications: 1}]\nplacementrules: [{name: provided}, {name: fixed, value: root.a}]")); err != nil {
		t.Fatal(err)
	}
	d.edit("p", labelled("queue", "root.a"))
	if got := d.state()["p"]; got != "Placed root.a 1" {
		t.Error(got)
	}
	d.restart(rand.New(rand.NewPCG(1, 1)))
	if got := d.state(); got["p"] != "Placed root.a 1" || got["q"] != "Placed root.a 1" {
		t.Error(got)
	}
}

// TestContradicts: what the status says of the queue of a Placement, in each state of the queue, is
// what its annotation says, and not what that of another queue says.
func TestContradicts(t *testing.T) {
	before, after := fixture.Partition("queues: [{name: a}, {name: b}]"), fixture.Partition("queues: [{name: b}]")
	d := newTestQueues(before)
	d.add("p", "ann", "root.a", 1)
	d.add("q", "ann", "root.b", 1)
	check := func(reason string) {
		t.Helper()
		v := d.admissions["p"]
		if own, other := d.pages["p"].record, d.pages["q"].record; v.Reason != reason || assignment.Contradicts(v.Reason, v.Message, own) || !assignment.Contradicts(v.Reason, v.Message, other) {
			t.Errorf("%+v, %s, %s", v, own, other)
		}
	}
	check(assignment.ReasonPlaced)
	if err := d.configure(after); err != nil {
		t.Fatal(err)
	}
	check(assignment.ReasonQueueDraining)
	d.restart(rand.New(rand.NewPCG(1, 1)))
	check(assignment.ReasonQueueDraining)
}
