package assignment_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/test/fixture"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testQueues is the part of a hub that queues use: Placements, their published clusters, and a
// controller that decides the affected Placements.
type testQueues struct {
	admission  *assignment.Assignments
	now        time.Time
	config     string
	namespaces map[string]string // parent queues
	placements map[string]*placement
	pages      map[string]page
	// leaving is how many clusters a change in progress removes.
	leaving map[string]int
	// recorded is what the changes of Placements recorded of their queues.
	recorded map[string]string
	// waits is what their statuses say.
	waits map[string]string
	// published is what this controller published of their queues.
	published  map[string]string
	affected   map[string]bool
	admissions map[string]assignment.Admission
}

type placement struct {
	assignment.Submission
	wanted int
}

type page struct {
	record   string
	clusters int
}

func newTestQueues(config string) *testQueues {
	d := &testQueues{now: epoch.Add(time.Hour), namespaces: map[string]string{}, placements: map[string]*placement{}, pages: map[string]page{}, recorded: map[string]string{}, waits: map[string]string{}, admissions: map[string]assignment.Admission{}}
	d.startController()
	_ = d.configure(config)
	return d
}

// startController starts a controller without any objects.
func (d *testQueues) startController() {
	d.published, d.affected = map[string]string{}, map[string]bool{}
	maps.DeleteFunc(d.admissions, func(name string, _ assignment.Admission) bool { return !d.placements[name].NotDecided })
	d.admission = assignment.New(assignment.Options{
		Published: func(key assignment.Key) (string, int, int) {
			p := d.pages[key.Name]
			return d.published[key.Name], p.clusters, p.clusters - d.leaving[key.Name]
		},
		Recorded: func(key assignment.Key) (string, string) { return d.recorded[key.Name], d.pages[key.Name].record },
		OnAffected: func(keys []assignment.Key) {
			for _, key := range keys {
				d.affected[key.Name] = true
			}
		},
		Now: func() time.Time { return d.now },
	})
}

// configure stores a configuration on the hub and returns why the controller refuses it.
func (d *testQueues) configure(config string) error {
	d.config = config
	_, err := d.admission.Configure([]byte(config))
	d.decideAffected()
	return err
}

// restart starts a controller with the hub's objects, which arrive in any order.
func (d *testQueues) restart(order *rand.Rand) {
	d.startController()
	steps := []func(){func() { _, _ = d.admission.Configure([]byte(d.config)) }}
	for name := range d.namespaces {
		steps = append(steps, func() { d.namespace(name, d.namespaces[name]) })
	}
	for _, name := range slices.Sorted(maps.Keys(d.placements)) {
		steps = append(steps, func() { d.submit(d.placements[name]) })
	}
	order.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
	}
	d.decideAffected()
}

func (d *testQueues) namespace(name, parent string) {
	d.namespaces[name] = parent
	d.admission.Namespace(name, map[string]string{assignment.ParentQueueAnnotation: parent})
}

func (d *testQueues) submit(p *placement) {
	d.placements[p.Name] = p
	d.affected[p.Name] = true
	d.admission.Submit(assignment.Submission{Key: p.Key, Created: p.Created, Annotations: maps.Clone(p.Annotations), Labels: maps.Clone(p.Labels), Waits: d.waits[p.Name], NotDecided: p.NotDecided})
}

// add has a user create a Placement, each a minute younger than the one before, and decides.
func (d *testQueues) add(name, user, queue string, wanted int, more ...func(*placement)) {
	d.prepare(name, user, queue, wanted, more...)
	d.decideAffected()
}

func (d *testQueues) prepare(name, user, queue string, wanted int, more ...func(*placement)) {
	p := &placement{wanted: wanted}
	p.Key, p.Created = assignment.Key{Namespace: "ns", Name: name}, epoch.Add(time.Duration(len(d.placements))*time.Minute)
	p.Annotations, p.Labels = map[string]string{}, map[string]string{}
	if user != "" {
		p.Annotations[identity.UserInfoAnnotation] = fmt.Sprintf(`{"user":%q,"groups":["team-%s"]}`, user, user)
	}
	if queue != "" {
		p.Labels["queue"] = queue
	}
	for _, change := range more {
		change(p)
	}
	d.submit(p)
}

func labelled(key, value string) func(*placement) {
	return func(p *placement) { p.Labels[key] = value }
}
func annotated(key, value string) func(*placement) {
	return func(p *placement) { p.Annotations[key] = value }
}
func created(minute int) func(*placement) {
	return func(p *placement) { p.Created = epoch.Add(time.Duration(minute) * time.Minute) }
}

func (d *testQueues) edit(name string, changes ...func(*placement)) {
	for _, change := range changes {
		change(d.placements[name])
	}
	d.submit(d.placements[name])
	d.decideAffected()
}

func (d *testQueues) remove(name string) {
	delete(d.placements, name)
	delete(d.pages, name)
	delete(d.admissions, name)
	delete(d.recorded, name)
	delete(d.waits, name)
	delete(d.published, name)
	d.admission.Withdraw(assignment.Key{Namespace: "ns", Name: name})
	d.decideAffected()
}

// decideAffected decides affected Placements, as the scheduler does, until none is left.
func (d *testQueues) decideAffected() {
	for len(d.affected) > 0 {
		for _, name := range slices.Sorted(maps.Keys(d.affected)) {
			delete(d.affected, name)
			if p := d.placements[name]; p != nil {
				d.decide(p)
			}
		}
	}
}

func (d *testQueues) decide(p *placement) {
	v := d.admission.Admit(p.Key, p.wanted)
	if p.NotDecided {
		return
	}
	d.admissions[p.Name] = v
	if d.waits[p.Name] = ""; !v.Admitted && assignment.WithoutQueue(v.Reason) {
		d.waits[p.Name] = v.Message
	}
	if v.Admitted {
		d.recorded[p.Name] = v.Annotation
	}
	if !v.Admitted && !v.Rejected {
		return
	}
	clusters := 0
	if v.Admitted {
		if clusters = p.wanted; v.Limit >= 0 {
			clusters = min(clusters, v.Limit)
		}
	}
	d.admission.SetClusters(p.Key, max(clusters, d.pages[p.Name].clusters))
	d.pages[p.Name], d.published[p.Name] = page{v.Annotation, clusters}, v.Annotation
	d.admission.SetClusters(p.Key, clusters)
}

func decided(is bool) func(*placement) { return func(p *placement) { p.NotDecided = !is } }

// queueOf is the queue that pages record.
func (d *testQueues) queueOf(name string) string {
	r := struct{ Queue string }{}
	if record := d.pages[name].record; record != "" {
		if err := json.Unmarshal([]byte(record), &r); err != nil {
			return err.Error()
		}
	}
	return r.Queue
}

// state says of every Placement its reason, the queue that its pages record, and how many clusters
// they list.
func (d *testQueues) state() map[string]string {
	state := map[string]string{}
	for name, p := range d.placements {
		reason := d.admissions[name].Reason
		if p.NotDecided {
			reason = "NotDecided"
		}
		state[name] = strings.Join(strings.Fields(fmt.Sprint(reason, " ", d.queueOf(name), " ", d.pages[name].clusters)), " ")
	}
	return state
}

const (
	provided = "\nplacementrules: [{name: provided, create: true}]"
	broken   = "partitions: {"
)

func TestAssignments(t *testing.T) {
	type want = map[string]string
	for name, tc := range map[string]struct {
		config string
		do     func(*testQueues)
		want   want
	}{
		"nothing is admitted without a configuration": {
			config: broken, do: func(d *testQueues) { d.add("p", "ann", "a", 1) },
			want: want{"p": "ConfigInvalid 0"},
		},
		"an invalid configuration that is corrected": {
			config: broken,
			do: func(d *testQueues) {
				d.add("p", "ann", "a", 1)
				_ = d.configure(fixture.Partition("queues: [{name: a}]"))
			},
			want: want{"p": "Placed root.a 1"},
		},
		"an invalid configuration keeps the current one": {
			config: fixture.Partition("queues: [{name: a}]"),
			do: func(d *testQueues) {
				_ = d.configure(broken)
				d.add("p", "ann", "a", 1)
			},
			want: want{"p": "Placed root.a 1"},
		},
		"a Placement that waits takes no place while it is not decided": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.add("first", "ann", "a", 1)
				d.add("old", "ann", "a", 1)
				d.edit("old", decided(false))
				d.remove("first")
				d.add("new", "ann", "a", 1)
				d.edit("old", decided(true))
			},
			want: want{"old": "QuotaExceeded 0", "new": "Placed root.a 1"},
		},
		"a Placement with clusters counts where it is while it is not decided": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: b, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.add("old", "ann", "a", 1)
				d.edit("old", decided(false), labelled("queue", "root.b"))
				d.add("in a", "ann", "a", 1)
				d.add("in b", "ann", "b", 1)
			},
			want: want{"old": "NotDecided root.a 1", "in a": "QuotaExceeded 0", "in b": "Placed root.b 1"},
		},
		"a Placement without clusters leaves a queue to which its submitter may not submit, also while it is not decided": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1, submitacl: 'ann,bob'}]"),
			do: func(d *testQueues) {
				d.add("old", "ann", "a", 0)
				d.edit("old", decided(false))
				d.add("waits", "bob", "a", 1)
				_ = d.configure(fixture.Partition("queues: [{name: a, maxapplications: 1, submitacl: bob}]"))
			},
			want: want{"old": "NotDecided root.a 0", "waits": "Placed root.a 1"},
		},
		"a place becomes free when a Placement leaves a queue that could not be used": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: b}]"),
			do: func(d *testQueues) {
				d.add("old", "ann", "a", 0)
				d.config = fixture.Partition("queues: [{name: a, maxapplications: 1, queues: [{name: x, maxapplications: 1}]}, {name: b}]")
				d.restart(rand.New(rand.NewPCG(1, 1)))
				d.add("waits", "ann", "root.a.x", 1)
				d.edit("old", labelled("queue", "root.b"))
			},
			want: want{"old": "Placed root.b 0", "waits": "Placed root.a.x 1"},
		},
		"a new configuration moves nobody": {
			config: fixture.Partition("queues: [{name: a}, {name: b}]\nplacementrules: [{name: fixed, value: root.a}]"),
			do: func(d *testQueues) {
				d.add("old", "ann", "", 1)
				_ = d.configure(fixture.Partition("queues: [{name: a}, {name: b}]\nplacementrules: [{name: fixed, value: root.b}]"))
				d.add("new", "ann", "", 1)
			},
			want: want{"old": "Placed root.a 1", "new": "Placed root.b 1"},
		},
		"who loses the right to a queue gets another": {
			config: fixture.Partition("queues: [{name: a}, {name: b}]\nplacementrules: [{name: fixed, value: root.a}]"),
			do: func(d *testQueues) {
				d.add("p", "ann", "", 1)
				_ = d.configure(fixture.Partition("queues: [{name: a, submitacl: ' '}, {name: b}]\nplacementrules: [{name: fixed, value: root.a}, {name: fixed, value: root.b}]"))
			},
			want: want{"p": "Placed root.b 1"},
		},
		"who loses the right to a queue while the controller is away gets another": {
			config: fixture.Partition("queues: [{name: a}, {name: b}]\nplacementrules: [{name: fixed, value: root.a}]"),
			do: func(d *testQueues) {
				d.add("p", "ann", "", 1)
				d.config = fixture.Partition("queues: [{name: a, submitacl: ' '}, {name: b}]\nplacementrules: [{name: fixed, value: root.a}, {name: fixed, value: root.b}]")
				d.restart(rand.New(rand.NewPCG(1, 1)))
			},
			want: want{"p": "Placed root.b 1"},
		},
		"who loses the right to the only queue gets nothing": {
			config: fixture.Partition("queues: [{name: a}]\nplacementrules: [{name: fixed, value: root.a}]"),
			do: func(d *testQueues) {
				d.add("p", "ann", "", 1)
				_ = d.configure(fixture.Partition("queues: [{name: a, submitacl: bob}]\nplacementrules: [{name: fixed, value: root.a}]"))
			},
			want: want{"p": "NoRuleMatched 0"},
		},
		"who loses the right to a queue keeps nothing while waiting for another": {
			config: fixture.Partition("queues: [{name: a}, {name: b, maxapplications: 1}]\nplacementrules: [{name: provided}, {name: fixed, value: root.b}]"),
			do: func(d *testQueues) {
				d.add("q", "bob", "b", 1)
				d.add("p", "ann", "a", 1)
				_ = d.configure(fixture.Partition("queues: [{name: a, submitacl: bob}, {name: b, maxapplications: 1}]\nplacementrules: [{name: provided}, {name: fixed, value: root.b}]"))
			},
			want: want{"p": "QuotaExceeded 0", "q": "Placed root.b 1"},
		},
		"a removed queue drains though nothing above it lets its users in, also after a restart": {
			config: fixture.Partition("queues: [{name: root, submitacl: ' ', queues: [{name: a, submitacl: ann}]}]"),
			do: func(d *testQueues) {
				d.add("p", "ann", "root.a", 1)
				_ = d.configure(fixture.Partition("queues: [{name: root, submitacl: ' ', queues: [{name: b, submitacl: ann}]}]"))
				d.restart(rand.New(rand.NewPCG(1, 1)))
			},
			want: want{"p": "QueueDraining root.a 1"},
		},
		"a record of a queue that the submitter has no right to counts for nothing": {
			config: fixture.Partition("queues: [{name: mine, submitacl: eve}, {name: prod, submitacl: ann, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.pages["forged"] = page{`{"queue":"root.prod","rule":"provided","user":"eve","requested":"root.prod","configured":"root.prod"}`, 9}
				d.add("forged", "eve", "root.prod", 1)
				d.add("p", "ann", "root.prod", 1)
			},
			want: want{"forged": "NoRuleMatched 0", "p": "Placed root.prod 1"},
		},
		"a record of another user counts for nothing": {
			config: fixture.Partition("queues: [{name: prod, submitacl: ann, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.pages["forged"] = page{`{"queue":"root.prod","rule":"provided","user":"ann","requested":"root.prod","configured":"root.prod"}`, 9}
				d.add("forged", "eve", "root.prod", 1)
				d.add("p", "ann", "root.prod", 1)
			},
			want: want{"forged": "NoRuleMatched 0", "p": "Placed root.prod 1"},
		},
		"a record of a queue that was never configured makes none drain": {
			config: fixture.Partition("queues: [{name: teams, parent: true}]\nplacementrules: [{name: provided, create: true}]"),
			do: func(d *testQueues) {
				d.pages["forged"] = page{`{"queue":"root.teams.web","rule":"provided","user":"eve","requested":"root.teams.web","configured":"root.teams.web"}`, 1}
				d.add("forged", "eve", "root.teams.web", 1)
				d.add("p", "ann", "root.teams.web", 1)
			},
			want: want{"forged": "Placed root.teams.web 1", "p": "Placed root.teams.web 1"},
		},
		"a record of a queue that was never configured lets nobody in": {
			config: fixture.Partition("queues: [{name: root, submitacl: ' ', queues: [{name: prod, parent: true, submitacl: ann, maxapplications: 1}]}]\nplacementrules: [{name: provided, create: true}]"),
			do: func(d *testQueues) {
				d.pages["forged"] = page{`{"queue":"root.prod.x","rule":"provided","user":"eve","requested":"root.prod.x","configured":"root.prod.x"}`, 1}
				d.add("forged", "eve", "root.prod.x", 1)
				d.add("p", "ann", "root.prod.y", 1)
			},
			want: want{"forged": "NoRuleMatched 0", "p": "Placed root.prod.y 1"},
		},
		"another's change of case in the request moves nobody": {
			config: fixture.Partition("queues: [{name: a}]"),
			do: func(d *testQueues) {
				d.add("p", "ann", "root.a", 1)
				_ = d.configure(fixture.Partition("queues: [{name: b}]"))
				d.edit("p", labelled("queue", "ROOT.a"))
			},
			want: want{"p": "QueueDraining root.a 1"},
		},
		"another requested queue moves it": {
			config: fixture.Partition("queues: [{name: a}, {name: b}]"),
			do: func(d *testQueues) {
				d.add("p", "ann", "a", 2)
				d.edit("p", labelled("queue", "b"))
			},
			want: want{"p": "Placed root.b 2"},
		},
		"a tag that the rules read moves it, another does not": {
			config: fixture.Partition("queues: []\nplacementrules: [{name: tag, value: Team, create: true}, {name: provided, create: true}]"),
			do: func(d *testQueues) {
				d.add("moves", "ann", "", 1, labelled("team", "x"))
				d.add("stays", "ann", "", 1, labelled("team", "x"))
				d.edit("moves", annotated("TEAM", "y"), func(p *placement) { delete(p.Labels, "team") })
				d.edit("stays", annotated("tier", "gold"), annotated("team", "covered by the label"))
			},
			want: want{"moves": "Placed root.y 1", "stays": "Placed root.x 1"},
		},
		"a removed queue drains, however often it is looked at": {
			config: fixture.Partition("queues: [{name: a}]" + provided),
			do: func(d *testQueues) {
				d.add("p", "ann", "a", 1)
				_ = d.configure(fixture.Partition("queues: []" + provided))
				d.edit("p", labelled("any", "thing"))
				d.edit("p", labelled("any", "other"))
				d.add("q", "ann", "a", 1)
			},
			want: want{"p": "QueueDraining root.a 1", "q": "NoRuleMatched 0"},
		},
		"it drains also when the number of its clusters changes": {
			config: fixture.Partition("queues: [{name: a}]" + provided),
			do: func(d *testQueues) {
				d.add("p", "ann", "a", 1)
				_ = d.configure(fixture.Partition("queues: []" + provided))
				d.edit("p", func(p *placement) { p.wanted = 3; p.Labels["any"] = "thing" })
				d.add("q", "ann", "a", 1)
			},
			want: want{"p": "QueueDraining root.a 3", "q": "NoRuleMatched 0"},
		},
		"when it is empty, it may be made again": {
			config: fixture.Partition("queues: [{name: a}]" + provided),
			do: func(d *testQueues) {
				d.add("p", "ann", "a", 1)
				_ = d.configure(fixture.Partition("queues: []" + provided))
				d.remove("p")
				d.add("q", "ann", "a", 1)
			},
			want: want{"q": "Placed root.a 1"},
		},
		"when it is there again, it stops draining": {
			config: fixture.Partition("queues: [{name: a}]" + provided),
			do: func(d *testQueues) {
				d.add("p", "ann", "a", 1)
				_ = d.configure(fixture.Partition("queues: []" + provided))
				_ = d.configure(fixture.Partition("queues: [{name: a}]" + provided))
				d.add("q", "ann", "a", 1)
			},
			want: want{"p": "Placed root.a 1", "q": "Placed root.a 1"},
		},
		"a removed parent drains with what is below it, also after a restart": {
			config: fixture.Partition("queues: [{name: p, parent: true, queues: [{name: a}]}]" + provided),
			do: func(d *testQueues) {
				d.add("configured", "ann", "root.p.a", 1)
				d.add("dynamic", "ann", "root.p.dyn", 1)
				_ = d.configure(fixture.Partition("queues: []" + provided))
				d.restart(rand.New(rand.NewPCG(1, 1)))
				d.add("new", "ann", "root.p.new", 1)
			},
			want: want{"configured": "QueueDraining root.p.a 1", "dynamic": "QueueDraining root.p.dyn 1", "new": "NoRuleMatched 0"},
		},
		"a dynamic queue vanishes with its last member": {
			config: fixture.Partition("queues: []\nplacementrules: [{name: user, create: true}, {name: provided}]"),
			do: func(d *testQueues) {
				d.add("first", "dyn", "", 1)
				d.add("guest", "CN=x", "dyn", 1)
				d.remove("first")
				d.remove("guest")
				d.add("late", "CN=x", "dyn", 1)
			},
			want: want{"late": "NoRuleMatched 0"},
		},
		"a dynamic queue that is configured drains when it no longer is, also after a restart": {
			config: fixture.Partition("queues: []" + provided),
			do: func(d *testQueues) {
				d.add("p", "ann", "dyn", 1)
				_ = d.configure(fixture.Partition("queues: [{name: dyn}]" + provided))
				_ = d.configure(fixture.Partition("queues: []" + provided))
				d.restart(rand.New(rand.NewPCG(1, 1)))
				d.add("q", "ann", "dyn", 1)
			},
			want: want{"p": "QueueDraining root.dyn 1", "q": "NoRuleMatched 0"},
		},
		"the last to leave a draining queue for a new one below it ends the draining": {
			config: fixture.Partition("queues: [{name: dyn}]" + provided),
			do: func(d *testQueues) {
				d.add("p", "ann", "dyn", 1)
				_ = d.configure(fixture.Partition("queues: []" + provided))
				d.edit("p", labelled("queue", "root.dyn.deep"))
				d.add("q", "ann", "root.dyn.other", 1)
			},
			want: want{"p": "Placed root.dyn.deep 1", "q": "Placed root.dyn.other 1"},
		},
		"the oldest is first, as it makes queues exist": {
			config: broken,
			do: func(d *testQueues) {
				d.prepare("deep", "ann", "root.x.y", 1, created(2))
				d.prepare("leaf", "ann", "root.x", 1, created(1))
				_ = d.configure(fixture.Partition("queues: []" + provided))
			},
			want: want{"leaf": "Placed root.x 1", "deep": "NoRuleMatched 0"},
		},
		"who waits for a place gets it, the oldest first": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.add("in", "ann", "a", 1)
				d.add("a-young", "ann", "a", 1, created(20))
				d.add("z-old", "ann", "a", 1, created(10))
				d.remove("in")
			},
			want: want{"z-old": "Placed root.a 1", "a-young": "QuotaExceeded 0"},
		},
		"who moves makes a place, for who waits before others": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: b}]"),
			do: func(d *testQueues) {
				d.add("in", "ann", "a", 1)
				d.add("waits", "ann", "a", 1)
				d.prepare("a-new", "ann", "a", 1)
				d.edit("in", labelled("queue", "b"))
			},
			want: want{"in": "Placed root.b 1", "waits": "Placed root.a 1", "a-new": "QuotaExceeded 0"},
		},
		"who is rejected makes a place": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.add("in", "ann", "a", 1)
				d.add("waits", "ann", "a", 1)
				d.edit("in", labelled("queue", "nowhere"))
			},
			want: want{"in": "NoRuleMatched 0", "waits": "Placed root.a 1"},
		},
		"who waits elsewhere keeps what is published, and so the place": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: full, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.add("fills", "ann", "full", 1)
				d.add("moves", "ann", "a", 5)
				d.edit("moves", labelled("queue", "full"))
				d.add("next", "ann", "a", 5)
				d.restart(rand.New(rand.NewPCG(1, 1)))
			},
			want: want{"fills": "Placed root.full 1", "moves": "QuotaExceeded root.a 5", "next": "QuotaExceeded 0"},
		},
		"who has no cluster keeps no place": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: full, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.add("fills", "ann", "full", 1)
				d.add("moves", "ann", "a", 0)
				d.edit("moves", labelled("queue", "full"))
				d.restart(rand.New(rand.NewPCG(1, 1)))
				d.add("next", "ann", "a", 1)
			},
			want: want{"fills": "Placed root.full 1", "moves": "QuotaExceeded root.a 0", "next": "Placed root.a 1"},
		},
		"and leaves it when there is room": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: full, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.add("fills", "ann", "full", 1)
				d.add("moves", "ann", "a", 5)
				d.edit("moves", labelled("queue", "full"))
				d.add("next", "ann", "a", 5)
				d.remove("fills")
			},
			want: want{"moves": "Placed root.full 5", "next": "Placed root.a 5"},
		},
		"and may change its mind": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1}, {name: full, maxapplications: 1}]"),
			do: func(d *testQueues) {
				d.add("fills", "ann", "full", 1)
				d.add("moves", "ann", "a", 5)
				d.edit("moves", labelled("queue", "full"))
				d.edit("moves", labelled("queue", "a"))
			},
			want: want{"fills": "Placed root.full 1", "moves": "Placed root.a 5"},
		},
		"what it had elsewhere gives it no clusters where it moves": {
			config: fixture.Partition("queues: [{name: a}, {name: b, resources: {max: {clusters: 3}}}]"),
			do: func(d *testQueues) {
				d.add("p", "ann", "a", 5)
				d.edit("p", labelled("queue", "b"))
			},
			want: want{"p": "Placed root.b 3"},
		},
		"clusters are capped, and freed": {
			config: fixture.Partition("queues: [{name: a, resources: {max: {clusters: 5}}}]"),
			do: func(d *testQueues) {
				d.add("x", "ann", "a", 4)
				d.add("y", "ann", "a", 4)
				d.edit("x", func(p *placement) { p.wanted, p.Labels["any"] = 2, "thing" })
			},
			want: want{"x": "Placed root.a 2", "y": "Placed root.a 3"},
		},
		"a queue whose quota is used up gives none": {
			config: fixture.Partition("queues: [{name: a, resources: {max: {clusters: 4}}}]"),
			do: func(d *testQueues) {
				d.add("x", "ann", "a", 4)
				d.add("y", "ann", "a", 4)
			},
			want: want{"x": "Placed root.a 4", "y": "Placed root.a 0"},
		},
		"limits hold for each user": {
			config: fixture.Partition("queues: [{name: a}]\nlimits: [{users: ['*'], maxapplications: 1, maxresources: {clusters: 2}}]"),
			do: func(d *testQueues) {
				d.add("ann-1", "ann", "a", 5)
				d.add("ann-2", "ann", "a", 5)
				d.add("bob-1", "bob", "a", 5)
				d.add("bob-2", "bob", "a", 5)
				d.remove("bob-1")
			},
			want: want{"ann-1": "Placed root.a 2", "ann-2": "QuotaExceeded 0", "bob-2": "Placed root.a 2"},
		},
		"limits hold for a group as a whole": {
			config: fixture.Partition("queues: [{name: a, limits: [{groups: [team-ann, team-bob], maxresources: {clusters: 2}}, {groups: ['*'], maxapplications: 1}]}]"),
			do: func(d *testQueues) {
				d.add("ann", "ann", "a", 2)
				d.add("bob", "bob", "a", 2)
				d.add("cid", "cid", "a", 2)
				d.add("dan", "dan", "a", 2)
				d.add("ann-2", "ann", "a", 2)
			},
			want: want{"ann": "Placed root.a 2", "bob": "Placed root.a 2", "cid": "Placed root.a 2", "dan": "QuotaExceeded 0", "ann-2": "Placed root.a 0"},
		},
		"limits hold for groups that are numbers": {
			config: fixture.Partition("queues: [{name: a, submitacl: ' 100', limits: [{groups: ['100'], maxapplications: 1}]}]"),
			do: func(d *testQueues) {
				for _, name := range []string{"p", "q"} {
					d.add(name, "", "a", 1, annotated(identity.UserInfoAnnotation, `{"user":"ann","groups":["100"]}`))
				}
				d.add("r", "", "a", 1, annotated(identity.UserInfoAnnotation, `{"user":"ann","groups":["1001","group100"]}`))
			},
			want: want{"p": "Placed root.a 1", "q": "QuotaExceeded 0", "r": "NoRuleMatched 0"},
		},
		"a lowered quota evicts nobody": {
			config: fixture.Partition("queues: [{name: a}]"),
			do: func(d *testQueues) {
				d.add("x", "ann", "a", 4)
				d.add("y", "ann", "a", 4)
				_ = d.configure(fixture.Partition("queues: [{name: a, maxapplications: 1, resources: {max: {clusters: 1}}}]"))
				d.restart(rand.New(rand.NewPCG(1, 1)))
				d.add("z", "ann", "a", 4)
			},
			want: want{"x": "Placed root.a 4", "y": "Placed root.a 4", "z": "QuotaExceeded 0"},
		},
		"a change in progress keeps no cluster that it removes": {
			config: fixture.Partition("queues: [{name: a, resources: {max: {clusters: 4}}}]"),
			do: func(d *testQueues) {
				d.add("x", "ann", "a", 3)
				d.add("y", "ann", "a", 1)
				d.pages["x"], d.leaving = page{d.pages["x"].record, 4}, map[string]int{"x": 1}
				d.edit("x", func(p *placement) { p.wanted = 4 })
			},
			want: want{"x": "Placed root.a 3", "y": "Placed root.a 1"},
		},
		"a raised quota admits who waits": {
			config: fixture.Partition("queues: [{name: a, maxapplications: 1, resources: {max: {clusters: 1}}}]"),
			do: func(d *testQueues) {
				d.add("x", "ann", "a", 4)
				d.add("y", "ann", "a", 4)
				_ = d.configure(fixture.Partition("queues: [{name: a}]"))
			},
			want: want{"x": "Placed root.a 4", "y": "Placed root.a 4"},
		},
		"over a live hub, what is published stays while it waits": {
			config: broken,
			do: func(d *testQueues) {
				d.pages["x"], d.pages["y"] = page{clusters: 4}, page{clusters: 4}
				d.prepare("x", "ann", "a", 4)
				d.prepare("y", "ann", "a", 4)
				_ = d.configure(fixture.Partition("queues: [{name: a, maxapplications: 1, resources: {max: {clusters: 2}}}]"))
			},
			want: want{"x": "Placed root.a 4", "y": "QuotaExceeded 4"},
		},
		"the tags of a Namespace cannot be forged": {
			config: fixture.Partition("queues: [{name: prod, parent: true}]\nplacementrules:\n" +
				"- {name: provided, create: true, parent: {name: tag, value: namespace.parentqueue}}\n- {name: tag, value: Namespace, create: true}"),
			do: func(d *testQueues) {
				forged := []func(*placement){
					labelled("namespace", "prod"), labelled("NAMESPACE", "prod"), annotated("Namespace", "prod"),
					annotated("namespace.parentqueue", "root.prod"), labelled("Namespace.ParentQueue", "prod"), labelled("namespace.parentqueue", "prod"),
				}
				d.add("forged", "ann", "x", 1, forged...)
				d.namespace("other", "root.prod")
				d.decideAffected()
				d.add("still", "ann", "y", 1, forged...)
			},
			want: want{"forged": "Placed root.ns 1", "still": "Placed root.ns 1"},
		},
		"the annotation of a Namespace counts, whatever the Placement says": {
			config: fixture.Partition("queues: [{name: dev, parent: true}, {name: prod, parent: true}]\nplacementrules:\n" +
				"- {name: provided, create: true, parent: {name: tag, value: namespace.parentqueue}}"),
			do: func(d *testQueues) {
				d.add("p", "ann", "x", 1, labelled("namespace.parentqueue", "prod"), annotated("NAMESPACE.PARENTQUEUE", "prod"))
				d.namespace("ns", "root.dev")
				d.decideAffected()
			},
			want: want{"p": "Placed root.dev.x 1"},
		},
		"a user whose groups are not known yet is tried again": {
			config: fixture.Partition("queues: [{name: a}]\nusergroupresolver: {type: test}"),
			do: func(d *testQueues) {
				d.add("unknown", "", "a", 1, annotated(identity.UserInfoAnnotation, `{"user":"ann"}`))
				d.add("known", "", "a", 1, annotated(identity.UserInfoAnnotation, `{"user":"testuser1"}`))
				d.add("unreadable", "", "a", 1, annotated(identity.UserInfoAnnotation, `{}`))
			},
			want: want{"unknown": "UserUnresolved 0", "known": "Placed root.a 1", "unreadable": "UserUnresolved 0"},
		},
		"who was placed stays when the groups cannot be found any more": {
			config: fixture.Partition("queues: [{name: a}]"),
			do: func(d *testQueues) {
				d.add("p", "", "a", 1, annotated(identity.UserInfoAnnotation, `{"user":"ann"}`))
				_ = d.configure(fixture.Partition("queues: [{name: a}]\nusergroupresolver: {type: test}"))
				d.restart(rand.New(rand.NewPCG(1, 1)))
			},
			want: want{"p": "Placed root.a 1"},
		},
		"nobody": {
			config: fixture.Partition("queues: [{name: a, submitacl: nobody}, {name: b, submitacl: ann}]\nplacementrules: [{name: fixed, value: root.b}, {name: fixed, value: root.a}]"),
			do:     func(d *testQueues) { d.add("p", "", "", 1) },
			want:   want{"p": "Placed root.a 1"},
		},
		"the label names a user where no annotation does": {
			config: fixture.Partition("queues: []\nplacementrules: [{name: user, create: true}]"),
			do: func(d *testQueues) {
				d.add("p", "", "", 1, labelled(identity.DefaultUserLabel, "ann"))
				d.add("q", "bob", "", 1, labelled(identity.DefaultUserLabel, "ann"))
			},
			want: want{"p": "Placed root.ann 1", "q": "Placed root.bob 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestQueues(tc.config)
			tc.do(d)
			if diff := cmp.Diff(tc.want, d.state()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordsSurviveARestart(t *testing.T) {
	config := fixture.Partition("queues: [{name: a, maxapplications: 2}, {name: gone}]\nplacementrules: [{name: provided, create: true}, {name: tag, value: team, create: true}]")
	d := newTestQueues(config)
	d.add("a1", "ann", "a", 3)
	d.add("a2", "bob", "a", 2)
	d.add("a3", "ann", "a", 2)
	d.add("dyn", "ann", "root.x.y", 1)
	d.add("tagged", "ann", "", 1, labelled("team", "web"))
	d.add("drains", "ann", "gone", 1)
	current := strings.Replace(config, ", {name: gone}", "", 1)
	_ = d.configure(current)
	before, pages := d.state(), maps.Clone(d.pages)
	want := map[string]string{
		"a1": "Placed root.a 3", "a2": "Placed root.a 2", "a3": "QuotaExceeded 0", "dyn": "Placed root.x.y 1", "tagged": "Placed root.web 1",
		"drains": "QueueDraining root.gone 1",
	}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for seed := range uint64(20) {
		d.restart(rand.New(rand.NewPCG(seed, seed)))
		if diff := cmp.Diff(before, d.state()); diff != "" {
			t.Fatalf("after a restart in order %d (-want +got):\n%s", seed, diff)
		}
		d.config = broken
		d.restart(rand.New(rand.NewPCG(seed, seed)))
		if diff := cmp.Diff(pages, d.pages, cmp.AllowUnexported(page{})); diff != "" {
			t.Fatalf("after a restart with a broken configuration (-want +got):\n%s", diff)
		}
		if got := d.admissions["a1"].Reason; got != assignment.ReasonConfigInvalid {
			t.Fatalf("want ConfigInvalid, got %s", got)
		}
		_ = d.configure(current)
		if diff := cmp.Diff(before, d.state()); diff != "" {
			t.Fatalf("after the configuration was corrected (-want +got):\n%s", diff)
		}
	}
}

func TestUnresolvedUsersAreAskedForAgain(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a}]\nusergroupresolver: {type: test}"))
	d.add("p", "", "a", 1, annotated(identity.UserInfoAnnotation, `{"user":"ann"}`))
	v := d.admissions["p"]
	if v.RetryAfter <= 0 || v.Admitted || v.Rejected || !strings.Contains(v.Message, `finding the groups of user "ann"`) {
		t.Errorf("%+v does not ask for another try", v)
	}
	d.now = d.now.Add(v.RetryAfter)
	if again := d.admission.Admit(d.placements["p"].Key, 1); again.RetryAfter <= 0 {
		t.Errorf("%+v does not ask for yet another try", again)
	}
}

// TestQuotaMessages: they name the Placements of the namespace that use the quota, and count those
// of other namespaces.
func TestQuotaMessages(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a, maxapplications: 3, resources: {max: {clusters: 5}}}]"))
	d.add("secret", "bob", "a", 2, func(p *placement) { p.Namespace = "other" })
	d.add("web", "ann", "a", 2)
	d.add("api", "ann", "a", 4)
	d.add("waits", "ann", "a", 1)
	if got, want := d.admissions["api"].LimitBy, "root.a clusters 5 (4 used by others, in this namespace by web 2)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := d.admissions["waits"].Message, "queue root.a is full: root.a maxapplications 3 (3 used by others, in this namespace by api, web)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := d.admissions["secret"].LimitBy; strings.Contains(got, "api") || strings.Contains(got, "web") {
		t.Errorf("it names a Placement of another namespace: %q", got)
	}
}

func TestVerdict(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a, submitacl: ann, adminacl: boss, properties: {clustersets: 'x,y'}, resources: {max: {clusters: 3}}}]\nplacementrules: [{name: provided}, {name: user}]"))
	d.add("p", "ann", "A", 2)
	d.add("no", "ann", "", 2)
	want := assignment.Admission{
		Admitted: true, Reason: "Placed", Message: "queue root.a by rule provided for user ann", Queue: "root.a", Sets: []string{"x", "y"}, Restricted: true,
		Limit: 3, LimitBy: "root.a clusters 3", Annotation: `{"queue":"root.a","rule":"provided","user":"ann","requested":"A","configured":"root.a"}`,
	}
	if diff := cmp.Diff(want, d.admission.Admit(d.placements["p"].Key, 2)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = assignment.Admission{Reason: "NoRuleMatched", Rejected: true, Limit: -1,
		Message: "rule 1 (provided): no queue was requested; rule 2 (user): queue root.ann does not exist, and create is not set"}
	if diff := cmp.Diff(want, d.admissions["no"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for record, want := range map[string]bool{d.pages["p"].record: true, "": false, "{}": false, "x": false, `{"queue":"root.b"}`: false} {
		if got := d.admission.Administers(record, identity.Identity{User: "boss"}); got != want {
			t.Errorf("boss administers %s: want %t, got %t", record, want, got)
		}
	}
	if d.admission.Administers(d.pages["p"].record, identity.Identity{User: "ann"}) {
		t.Error("ann administers what she submitted to")
	}
	if v := d.admission.Admit(assignment.Key{Namespace: "ns", Name: "never submitted"}, 1); v.Admitted || v.Rejected {
		t.Errorf("%+v decides about what is not there", v)
	}
}

// TestFreedQuotaAffectsItsQueue: clusters that a Placement gives back affect only those that get
// more by that, not each that any quota limits.
func TestFreedQuotaAffectsItsQueue(t *testing.T) {
	d := newTestQueues(fixture.Partition(`queues:
  - {name: a, resources: {max: {clusters: 3}}}
  - {name: b, resources: {max: {clusters: 3}}}` + provided))
	for _, p := range []string{"a1", "a2", "b1", "b2"} {
		d.add(p, "ann", "root."+p[:1], 2)
		d.decideAffected()
	}
	d.placements["a1"].wanted = 1
	d.decide(d.placements["a1"])
	if got := slices.Sorted(maps.Keys(d.affected)); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("affected: %v, want a2", got)
	}
}
