package queueconfig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
	"github.com/berth-dev/berth/test/fixture"
)

type configCases struct {
	Validation []struct {
		ID, Desc, Config string
		Expect           struct {
			Valid bool
			Error string
		}
	}
}

func TestValidationCases(t *testing.T) {
	var all configCases
	fixture.Cases(t, "queue_config.json", &all)
	for _, tc := range all.Validation {
		t.Run(tc.ID, func(t *testing.T) {
			_, _, err := queueconfig.Parse([]byte(tc.Config))
			if (err == nil) != tc.Expect.Valid {
				t.Fatalf("%s: want valid %t, got error %v", tc.Desc, tc.Expect.Valid, err)
			}
			if err == nil {
				return
			}
			t.Log(err)
			if !strings.Contains(err.Error(), tc.Expect.Error) || !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%s: want %q and its line, got %v", tc.Desc, tc.Expect.Error, err)
			}
		})
	}
}

// TestProblems holds for what the cases leave out that each error has its line and is told with all
// others.
func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		text         string
		want         []string // the start and a part of each error, parted by …
		wantWarnings []string
	}{
		"nothing":            {text: "", want: []string{"queue config is not set"}},
		"only comments":      {text: "# none\n", want: []string{"queue config is not set"}},
		"no partitions":      {text: "partitions: []", want: []string{"queue config is not set"}},
		"no mapping":         {text: "- a", want: []string{"line 1: yaml: must be a mapping"}},
		"null queues":        {text: fixture.Partition("queues:"), want: []string{"line 2: …queue config is not set"}},
		"no queue":           {text: fixture.Partition("queues: []")},
		"a second document":  {text: fixture.Partition("queues: []") + "---\na: b\n", want: []string{"line 5: …second document"}},
		"an empty second":    {text: fixture.Partition("queues: []") + "---\n"},
		"syntax":             {text: "partitions: [\n", want: []string{"line …yaml: "}},
		"keys are lowercase": {text: "Partitions: []", want: []string{"line 1: Partitions: unknown field"}},
		"other partitions": {
			text:         "partitions:\n- name: gpu\n  queues: []\n",
			want:         []string{"line 2: partitions[0].name: there is no partition default"},
			wantWarnings: []string{"line 2: partitions[0].name: partition gpu has no effect"},
		},
		"partition names ignore case": {
			text: "partitions:\n- name: Default\n  queues: []\n- queues: []\n", want: []string{"line 4: …duplicate partition"},
		},
		"an invalid partition without effect": {
			text: fixture.Partition("queues: []") + "- name: gpu\n  queues: [{name: a!}]\n", want: []string{"line 5: …invalid queue name"},
			wantWarnings: []string{"line 4: "},
		},
		"all errors by line": {
			text: fixture.Partition(`
queues:
- name: a b
  nam: a
  maxapplications: -1
  parent: yes
  properties: [a]
- name: c
  submitacl: {a: b}
usergroupresolver: {type: ldap}
`),
			want: []string{
				"line 4: …invalid queue name", "line 5: …nam: unknown field", "line 6: …maxapplications: ", "line 7: …parent must be true or false",
				"line 8: …mapping", "line 10: …plain text", "line 11: …unknown resolver",
			},
		},
		"plain scalars are text": {text: fixture.Partition("queues:\n- name: 12\n  resources: {max: {clusters: 3}}\n  properties: {x: true, y: }")},
		"an alias": {
			text: fixture.Partition("queues:\n- name: a\n  submitacl: &who ann\n- name: b\n  submitacl: *who"),
		},
		"an alias to itself": {
			text: fixture.Partition("queues: &q\n- name: a\n  queues: *q"), want: []string{"line 5: …must not contain another alias"},
		},
		"a key twice":        {text: fixture.Partition("queues: []\nqueues: []"), want: []string{"line 4: …queues: yaml: the key is set twice, first on line 3"}},
		"a key that is none": {text: fixture.Partition("queues: []\n? [a]\n: b"), want: []string{"line 4: …plain text"}},
		"a filter that is a text": {
			text: fixture.Partition("queues: []\nplacementrules: [{name: user, parent: , filter: deny}]"), want: []string{"line 4: …mapping"},
		},
		"no list": {text: fixture.Partition("queues: []\nlimits: {users: [ann]}"), want: []string{"line 4: …list"}},
		"growth by aliases": {
			text: fixture.Partition("queues: []\nplacementrules:\n- {name: user, filter: {users: &u [" + strings.Repeat("a,", 2000) + "]}}" +
				strings.Repeat("\n- {name: user, filter: {users: *u}}", 70)),
			want: []string{"line 5: …too large"},
		},
		"rules": {
			text: fixture.Partition(`
queues: [{name: p, parent: true}, {name: l}]
placementrules:
- {name: fixed, value: root.p}
- {name: fixed, value: root}
- {name: fixed, value: root.l, parent: {name: user}}
- {name: user, parent: [{name: user}, {name: user}]}
- {name: tag, value: x, parent: {name: FIXED, value: L.x}}
- {name: user, create: True}
- {name: user, create: }
- {name: fixed, value: a..b}
- {name: fixed}
`),
			want: []string{
				"line 5: …not a leaf", "line 6: …not a leaf", "line 7: …parent", "line 8: …parent", "line 9: …not a leaf",
				"line 10: …create", "line 11: …create", "line 12: …invalid queue name", "line 13: …value",
			},
		},
		"a fixed rule that may never match": {
			text:         fixture.Partition("queues: [{name: a}]\nplacementrules:\n- {name: fixed, value: b}"),
			wantWarnings: []string{"line 5: …root.b is not configured"},
		},
		"what is ignored": {
			text: fixture.Partition(`
queues: [{name: a, submitacl: "o'hara", properties: {ClusterSets: x, priority.offset: 1}}]
nodesortpolicy: {type: fair}
preemption: {enabled: true}
placementrules:
- {name: user, filter: {users: ["a["], groups: [a, "b*"]}}
`),
			wantWarnings: []string{
				"line 3: …written clustersets", "line 3: …not enforced", "line 3: …submitacl",
				"line 4: ", "line 5: ", "line 7: …groups[1]…ignored", "line 7: …users[0]…ignored",
			},
		},
		"current keys of YuniKorn": {
			text: "checksum: ABC\n" + fixture.Partition(`
queues: [{name: a, properties: {quota.preemption.delay: 1h, application.unschedasks.backoff: "5"}}]
preemption: {enabled: true, quotapreemptionenabled: true}
`),
			wantWarnings: []string{"line 4: …backoff: …not enforced", "line 4: …delay: …not enforced", "line 5: "},
		},
		"0 is no limit": {
			text:         fixture.Partition("queues: [{name: a, maxapplications: 0, limits: [{users: [ann], maxapplications: 0, maxresources: {clusters: 1}}]}, {name: b, maxapplications: }]"),
			wantWarnings: []string{"line 3: …limits[0].maxapplications: 0 is no limit", "line 3: …queues[0].maxapplications: 0 is no limit"},
		},
		"levels that are too long": {
			text: fixture.Partition("queues: [{name: " + strings.Repeat("q", 65) + "}]\nplacementrules:\n- {name: fixed, value: root." + strings.Repeat("r", 66) + "}"),
			want: []string{"line 3: …invalid queue name…65 characters, more than 64", "line 5: …invalid queue name…66 characters, more than 64"},
		},
		"users that are groups": {
			text: fixture.Partition(`queues: [{name: a, submitacl: "john, bob"}]`), wantWarnings: []string{`line 3: …"bob" are groups`},
		},
		"cluster sets": {
			text: fixture.Partition(`
queues:
- name: a
  properties: {clustersets: "x,y"}
  childtemplate: {properties: {clustersets: z}}
  queues:
  - {name: b, properties: {clustersets: "y, w"}}
  - {name: c, queues: [{name: d, properties: {clustersets: v}}]}
- {name: e, properties: {clustersets: ""}, queues: [{name: f, properties: {clustersets: x}}]}
`),
			want: []string{"line 6: …z is not", "line 8: …w is not", "line 9: …v is not", "line 10: …x is not"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, err := queueconfig.Parse([]byte(tc.text))
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			match(t, "errors", tc.want, got)
			got = nil
			for _, warning := range warnings {
				got = append(got, warning.String())
			}
			match(t, "warnings", tc.wantWarnings, got)
		})
	}
}

// match compares texts with what each must begin with and, behind every …, contain.
func match(t *testing.T, what string, want, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: want %d, got\n%s", what, len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		parts := strings.Split(want[i], "…")
		ok := strings.HasPrefix(got[i], parts[0])
		for _, part := range parts[1:] {
			ok = ok && strings.Contains(got[i], part)
		}
		if !ok {
			t.Errorf("%s: want %s, got %s", what, want[i], got[i])
		}
	}
}

func FuzzParse(f *testing.F) {
	var placements []struct {
		Config     string
		Submission struct {
			User, Queue string
			Groups      []string
			Tags        map[string]string
		}
	}
	fixture.Cases(f, "placement_rules.json", &placements)
	for _, tc := range placements {
		f.Add(tc.Config, tc.Submission.User, strings.Join(tc.Submission.Groups, ","), tc.Submission.Queue, tc.Submission.Tags["namespace"])
	}
	var configs configCases
	fixture.Cases(f, "queue_config.json", &configs)
	for _, tc := range configs.Validation {
		f.Add(tc.Config, "ann", "dev", "root.a", "ns")
	}
	f.Fuzz(func(t *testing.T, text, user, group, queue, namespace string) {
		config, warnings, err := queueconfig.Parse([]byte(text))
		again, warningsAgain, errAgain := queueconfig.Parse([]byte(text))
		if diff := cmp.Diff(warnings, warningsAgain); diff != "" {
			t.Errorf("other warnings the second time:\n%s", diff)
		}
		if err != nil {
			if errAgain == nil || err.Error() != errAgain.Error() {
				t.Errorf("first %v, then %v", err, errAgain)
			}
			return
		}
		request := tenancy.Request{User: user, Groups: strings.Split(group, ","), Queue: queue, Tags: map[string]string{"namespace": namespace}}
		members := tenancy.NewMembers()
		checkTree(t, config.Tree, config.Tree.Root())
		placed, err := config.Tree.Place(request, members)
		placedAgain, errAgain := again.Tree.Place(request, nil)
		if diff := cmp.Diff(placed, placedAgain); diff != "" || (err == nil) != (errAgain == nil) {
			t.Fatalf("placed differently the second time: %v, %v\n%s", err, errAgain, diff)
		}
		if err != nil {
			return
		}
		if !tenancy.LegalQueueName(placed.Queue) || placed.Queue != strings.ToLower(placed.Queue) {
			t.Errorf("%q is no queue", placed.Queue)
		}
		if !config.Tree.SubmitAllowed(placed.Queue, user, request.Groups) {
			t.Errorf("user %s may not submit to %s", user, placed.Queue)
		}
		application := tenancy.Application{Queue: placed.Queue, User: user, Groups: request.Groups, Clusters: 1}
		free := config.Tree.Remaining(members, placed.Queue, user, request.Groups)
		members.Add(application)
		if left := config.Tree.Remaining(members, placed.Queue, user, request.Groups); left.Applications > free.Applications || left.Clusters > free.Clusters {
			t.Errorf("one application more leaves %v where there was %v", left, free)
		}
		members.Remove(application)
		if diff := cmp.Diff(free, config.Tree.Remaining(members, placed.Queue, user, request.Groups), cmpopts.IgnoreUnexported(tenancy.Remaining{})); diff != "" {
			t.Errorf("an application that came and went left something behind:\n%s", diff)
		}
	})
}

// checkTree demands of an accepted configuration what its validation promises.
func checkTree(t *testing.T, tree *tenancy.Tree, q *tenancy.Queue) {
	if !tenancy.LegalQueueName(q.Name) || tree.Queue(q.Name) != q {
		t.Errorf("queue %q cannot be found", q.Name)
	}
	sets, restricted := tree.ClusterSets(nil, q.Name)
	for _, child := range append(q.Children, &tenancy.Queue{Name: q.Name + ".dynamic"}) {
		childSets, childRestricted := tree.ClusterSets(nil, child.Name)
		if restricted && !childRestricted || restricted && !subset(childSets, sets) {
			t.Errorf("%s has sets %v, %s below it %v", q.Name, sets, child.Name, childSets)
		}
	}
	for _, child := range q.Children {
		checkTree(t, tree, child)
	}
}

func subset(some, all []string) bool {
	for _, s := range some {
		if !slices.Contains(all, s) {
			return false
		}
	}
	return true
}
