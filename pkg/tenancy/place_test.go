package tenancy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
	"github.com/berth-dev/berth/test/fixture"
)

type submission struct {
	User   string
	Groups []string
	Queue  string
	Tags   map[string]string
}

func (s submission) request() tenancy.Request {
	return tenancy.Request{User: s.User, Groups: s.Groups, Queue: s.Queue, Tags: s.Tags}
}

// outcome is a queue, or that there is none.
type outcome struct {
	Queue    string
	Rejected bool
}

type placementCase struct {
	ID, Config, Note      string
	ExistingDynamicQueues []string
	Submission            submission
	Expect                outcome
}

func existing(queues ...string) *tenancy.Members {
	m := tenancy.NewMembers()
	for _, queue := range queues {
		m.Add(tenancy.Application{Queue: queue})
	}
	return m
}

func placeIn(t *testing.T, tree *tenancy.Tree, request tenancy.Request, members *tenancy.Members) outcome {
	t.Helper()
	placed, err := tree.Place(request, members)
	if rejected := (*tenancy.Rejected)(nil); errors.As(err, &rejected) {
		t.Log(err)
		return outcome{Rejected: true}
	}
	return outcome{Queue: placed.Queue}
}

func TestPlacementCases(t *testing.T) {
	var all []placementCase
	fixture.Cases(t, "placement_rules.json", &all)
	for _, tc := range all {
		t.Run(tc.ID, func(t *testing.T) {
			config := parse(t, tc.Config)
			got := placeIn(t, config.Tree, tc.Submission.request(), existing(tc.ExistingDynamicQueues...))
			if diff := cmp.Diff(tc.Expect, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.Note, diff)
			}
		})
	}
}

func parse(t testing.TB, text string) *queueconfig.Config {
	t.Helper()
	config, _, err := queueconfig.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestPlace(t *testing.T) {
	const queues = `
queues:
- {name: leaf}
- {name: par, parent: true}
- {name: secret, submitacl: " "}
- {name: implicit, queues: [{name: below}]}
`
	for name, tc := range map[string]struct {
		rules       string // beside the queues above
		config      string // in place of both
		request     tenancy.Request
		members     *tenancy.Members
		want        tenancy.Placed
		wantReasons []string // of a rejection
	}{
		"no rules": {
			request:     tenancy.Request{User: "ann", Queue: "nowhere"},
			wantReasons: []string{"rule 1 (provided): queue root.nowhere does not exist, and create is not set"},
		},
		"reasons of the rules before": {
			rules: `
- {name: provided}
- {name: tag, value: Team, create: true, filter: {type: deny, groups: [ops]}}
- {name: tag, value: Team, create: true, parent: {name: fixed, value: leafy}}
- {name: tag, value: Team, create: true, parent: {name: provided, create: true, parent: {name: user}}}
- {name: user}
- {name: user, create: true, parent: {name: fixed, value: par}}
`,
			request: tenancy.Request{User: "ann.b", Groups: []string{"ops"}, Tags: map[string]string{"TEAM": "x"}},
			want: tenancy.Placed{Queue: "root.par.ann_dot_b", Rule: "user", Reasons: []string{
				"rule 1 (provided): no queue was requested",
				"rule 2 (tag): its filter excludes user ann.b",
				"rule 3 (tag): parent rule fixed: queue root.leafy does not exist, and create is not set",
				"rule 4 (tag): parent rule provided: no queue was requested",
				"rule 5 (user): queue root.ann_dot_b does not exist, and create is not set",
			}},
		},
		"what stands in the way": {
			rules: `
- {name: fixed, value: secret.x, create: true, parent: {name: tag, value: up}}
- {name: provided, create: true, parent: {name: tag, value: leaf}}
- {name: tag, value: secret}
- {name: tag, value: root}
- {name: tag, value: implicit}
- {name: tag, value: deep, create: true}
- {name: tag, value: bad, create: true}
- {name: user, create: true}
- {name: tag, value: unset, create: true}
`,
			request: tenancy.Request{User: "CN=ann", Queue: "q", Tags: map[string]string{
				"leaf": "leaf", "secret": "root.secret", "root": "ROOT", "implicit": "implicit", "deep": "root.leaf.x.y", "bad": "a b", "up": "root.secret!",
			}},
			wantReasons: []string{
				`rule 1 (fixed): parent rule tag: "root.secret!" is not a legal queue name`,
				"rule 2 (provided): parent rule tag: queue root.leaf is a leaf",
				"rule 3 (tag): user CN=ann may not submit to root.secret",
				"rule 4 (tag): queue root is not a leaf",
				"rule 5 (tag): queue root.implicit is not a leaf",
				"rule 6 (tag): queue root.leaf.x.y cannot be created: root.leaf is a leaf",
				`rule 7 (tag): "a b" is not a legal queue name`,
				`rule 8 (user): "CN=ann" is not a legal queue name`,
				"rule 9 (tag): tag unset is not set",
			},
		},
		"a user named root": {
			rules: "- {name: user, create: true}", request: tenancy.Request{User: "root"},
			want: tenancy.Placed{Queue: "root.root", Rule: "user"},
		},
		"a fixed name with levels below a parent": {
			rules:   "- {name: Fixed, value: A.b, create: true, parent: {name: user, create: true}}",
			request: tenancy.Request{User: "ann"},
			want:    tenancy.Placed{Queue: "root.ann.a.b", Rule: "fixed"},
		},
		"root as the parent": {
			rules: "- {name: user, create: true, parent: {name: fixed, value: Root}}", request: tenancy.Request{User: "ann"},
			want: tenancy.Placed{Queue: "root.ann", Rule: "user"},
		},
		"create of the parent is for the parent": {
			rules: "- {name: user, parent: {name: fixed, value: new, create: true}}", request: tenancy.Request{User: "ann"},
			wantReasons: []string{"rule 1 (user): queue root.new.ann does not exist, and create is not set"},
		},
		"a configured queue": {
			request: tenancy.Request{User: "ann", Queue: "ROOT.Implicit.BELOW"},
			want:    tenancy.Placed{Queue: "root.implicit.below", Rule: "provided", Configured: true},
		},
		"an existing dynamic leaf needs no create": {
			request: tenancy.Request{User: "ann", Queue: "dyn"}, members: existing("root.Dyn"),
			want: tenancy.Placed{Queue: "root.dyn", Rule: "provided"},
		},
		"a dynamic leaf blocks what is deeper": {
			rules: "- {name: provided, create: true}", request: tenancy.Request{User: "ann", Queue: "root.dyn.x"}, members: existing("root.dyn"),
			wantReasons: []string{"rule 1 (provided): queue root.dyn.x cannot be created: root.dyn is a leaf"},
		},
		"a configured leaf with something below it is none": {
			request: tenancy.Request{User: "ann", Queue: "leaf"}, members: existing("root.leaf.x"),
			wantReasons: []string{"rule 1 (provided): queue root.leaf is not a leaf"},
		},
		"another partition does not count": {
			config:      "partitions: [{queues: []}, {name: gpu, queues: [{name: leaf}]}]",
			request:     tenancy.Request{User: "ann", Queue: "leaf"},
			wantReasons: []string{"rule 1 (provided): queue root.leaf does not exist, and create is not set"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := tc.config
			if text == "" {
				text = fixture.Partition(queues + "placementrules:\n" + strings.TrimSpace(tc.rules))
			}
			placed, err := parse(t, text).Tree.Place(tc.request, tc.members)
			var reasons []string
			if rejected := (*tenancy.Rejected)(nil); errors.As(err, &rejected) {
				reasons = rejected.Reasons
			}
			if diff := cmp.Diff(tc.want, placed); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantReasons, reasons); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDenyWithoutNames: such a rule applies to nobody, and the next one decides.
func TestDenyWithoutNames(t *testing.T) {
	tree := parse(t, fixture.Partition("queues: [{name: default}]\nplacementrules: [{name: user, create: true, filter: {type: deny}}, {name: fixed, value: root.default}]")).Tree
	if got := placeIn(t, tree, tenancy.Request{User: "john"}, tenancy.NewMembers()); got.Queue != "root.default" {
		t.Errorf("got %+v", got)
	}
}

func TestDraining(t *testing.T) {
	before := parse(t, fixture.Partition("queues: [{name: a}, {name: p, queues: [{name: b}]}, {name: empty}]")).Tree
	after := parse(t, fixture.Partition("queues: [{name: kept}]\nplacementrules: [{name: provided, create: true}]")).Tree
	inA := tenancy.Application{Queue: "root.a", User: "ann"}
	members := tenancy.NewMembers(inA, tenancy.Application{Queue: "root.p.b"}, tenancy.Application{Queue: "root.dyn"})
	members.Reconfigure(nil, before)
	if members.Draining("root.a") {
		t.Error("a configured queue drains")
	}
	members.Reconfigure(before, after)
	for _, queue := range []string{"root.a", "root.p.b", "root.p", "root.empty"} {
		members.Drain(queue)
	}
	for queue, want := range map[string]bool{
		"root": false, "root.a": true, "Root.P.B": true, "root.p.new": true, "root.empty": false, "root.dyn": false, "root.kept": false,
	} {
		if got := members.Draining(queue); got != want {
			t.Errorf("%s drains: want %t, got %t", queue, want, got)
		}
		got := placeIn(t, after, tenancy.Request{User: "ann", Queue: queue}, members)
		if rejected := want || queue == "root"; got.Rejected != rejected {
			t.Errorf("%s: rejected: want %t, got %+v", queue, rejected, got)
		}
	}
	members.Remove(inA)
	if got := placeIn(t, after, tenancy.Request{User: "ann", Queue: "a"}, members); got.Queue != "root.a" {
		t.Errorf("root.a is empty, and was not made again: %+v", got)
	}
	members.Drain("root.p.b")
	members.Reconfigure(after, before)
	if members.Draining("root.p.b") {
		t.Error("a queue drains that is configured again")
	}
	if diff := cmp.Diff(tenancy.Quota{Applications: 2}, members.Used("ROOT")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTags(t *testing.T) {
	got := tenancy.Tags(
		map[string]string{"A": "bytewise first", "a": "second", "Namespace": "forged", "x": "annotation"},
		map[string]string{"X": "label"},
		map[string]string{"namespace": "real"},
	)
	if diff := cmp.Diff(map[string]string{"a": "bytewise first", "namespace": "real", "x": "label"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
