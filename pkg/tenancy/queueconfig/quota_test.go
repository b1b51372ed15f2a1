package queueconfig_test

import (
	"testing"

	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
	"github.com/berth-dev/berth/test/fixture"
)

func TestQuotaProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []string
	}{
		"units":          {body: "queues: [{name: a, resources: {max: {vcore: 500m, memory: 1Gi, disk: 2 K, clusters: +3}}}]"},
		"unparsable":     {body: "queues: [{name: a, resources: {max: {clusters: -1}, guaranteed: {clusters: 1.5}}}]", want: []string{"line 3: …guaranteed", "line 3: …max"}},
		"unknown suffix": {body: "queues: [{name: a, resources: {max: {clusters: 5m, memory: 1ki}}}]", want: []string{"line 3: …\"m\"", "line 3: …\"ki\""}},
		"too large":      {body: "queues: [{name: a, resources: {max: {vcore: 9999999999999999, memory: 9E}}}]", want: []string{"line 3: …too large"}},
		"on root":        {body: "queues: [{name: root, resources: {guaranteed: {}}}]", want: []string{"line 3: …root queue must not"}},
		"guaranteed above max": {
			body: "queues: [{name: a, resources: {max: {vcore: 1}, guaranteed: {vcore: 1001m}}}]", want: []string{"line 3: …1001"},
		},
		"child's max above the grandparent's": {
			body: "queues:\n- name: a\n  resources: {max: {clusters: 2}}\n  queues: [{name: b, queues: [{name: c, resources: {max: {clusters: 3}}}]}]",
			want: []string{"line 6: …3, more than the 2"},
		},
		"sum of guaranteed above the parent's, through a queue without": {
			body: "queues:\n- name: a\n  resources: {guaranteed: {x: 2}}\n  queues: [{name: b, queues: [{name: c, resources: {guaranteed: {x: 2}}}]}, {name: d, resources: {guaranteed: {x: 1}}}]",
			want: []string{"line 5: …3, more than the 2"},
		},
		"sum of guaranteed above the parent's max": {
			body: "queues:\n- name: a\n  resources: {max: {x: 2}}\n  queues: [{name: b, resources: {guaranteed: {x: 3}}}]",
			want: []string{"line 5: …3, more than the 2"},
		},
		"a sum beyond measure": {
			body: "queues:\n- name: a\n  resources: {guaranteed: {x: 1}}\n  queues: [{name: b, resources: {guaranteed: {x: 9E}}}, {name: c, resources: {guaranteed: {x: 9E}}}]",
			want: []string{"line 5: …more than the 1"},
		},
		"limits": {
			body: `
queues:
- name: a
  maxapplications: 5
  resources: {max: {clusters: 5}}
  limits:
  - {limit: nobody, maxapplications: 1}
  - {users: ["a b"], groups: [x@y], maxapplications: 1}
  - {users: [ann, ann], maxapplications: 1}
  - {users: ["*", bob], maxapplications: 1}
  - {groups: [dev], maxresources: {clusters: 0}}
  - {groups: [ops], maxresources: {clusters: x}, maxapplications: 6}
  - {groups: ["*"], maxresources: {clusters: 6}}
  queues:
  - name: b
    maxapplications: 4
    limits:
    - {users: [ann], maxapplications: 2}
    - {groups: [qa], maxresources: {clusters: 6}}
- name: c
  limits: [{groups: ["*"], maxapplications: 1}]
`,
			want: []string{
				"line 8: …users or groups", "line 9: …invalid group", "line 9: …invalid user", "line 10: …another limit", "line 11: …after *",
				"line 12: …above 0", "line 13: …6, more than the 5", "line 13: …not a quantity", "line 14: …6, more than the 5",
				"line 19: …2, more than the 1 of user ann", "line 20: …6, more than the 5", "line 22: …only group",
			},
		},
		"all values 0, beside maxapplications": {
			body: "queues:\n- name: a\n  limits: [{users: [ann], maxapplications: 3, maxresources: {clusters: 0, vcore: 0}}]",
			want: []string{"line 5: …above 0"},
		},
		"one value 0": {
			body: "queues:\n- name: a\n  limits: [{users: [ann], maxresources: {clusters: 0, vcore: 1}}]",
		},
		"maxapplications 0 below a limit": {
			body: `
limits: [{users: [ann], groups: [dev], maxapplications: 3}, {users: ["*"], maxapplications: 5}]
queues:
- name: a
  limits:
  - {users: [ann], maxapplications: 0, maxresources: {clusters: 1}}
  - {users: [bob], groups: [dev], maxapplications: 0, maxresources: {clusters: 1}}
  - {groups: [ops], maxapplications: 0, maxresources: {clusters: 1}}
  - {users: [cid], maxresources: {clusters: 1}}
`,
			want: []string{"line 7: …maxapplications is 0…the 3 of user ann", "line 8: …maxapplications is 0…the 3 of group dev", "line 8: …maxapplications is 0…the 5 of user *"},
		},
		"a limit above the wildcard of an ancestor": {
			body: `
queues:
- name: a
  limits: [{users: [ann], maxapplications: 9}, {users: ["*"], maxapplications: 5}, {groups: [dev, "*"], maxresources: {clusters: 5}}]
  queues:
  - name: b
    queues:
    - name: c
      limits:
      - {users: [ann], maxapplications: 9}
      - {users: [bob], maxapplications: 6}
      - {groups: [ops], maxresources: {clusters: 6}}
      - {groups: ["*"], maxresources: {clusters: 6}}
`,
			want: []string{"line 12: …6, more than the 5 of user *", "line 13: …6, more than the 5 of group *", "line 14: …6, more than the 5 of group *"},
		},
		"limits of the partition above those of root": {
			body: "limits: [{users: [ann], maxapplications: 9}]\nqueues:\n- name: root\n  limits: [{users: [ann], maxapplications: 5}]", want: []string{"line 6: …differ"},
		},
		"limits of root above those of the partition": {
			body: "limits: [{users: [ann], maxresources: {clusters: 5}}]\nqueues:\n- name: root\n  limits: [{users: [ann], maxresources: {clusters: 9}}]", want: []string{"line 6: …differ"},
		},
		"the same limits": {
			body: "limits: [{limit: x, users: [ann], maxapplications: 5}]\nqueues:\n- name: root\n  limits: [{users: [ann], maxapplications: 5}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := queueconfig.Parse([]byte(fixture.Partition(tc.body)))
			var got []string
			if err != nil {
				for _, problem := range err.(queueconfig.Problems) { //nolint:errorlint // Parse promises this very type
					got = append(got, problem.String())
				}
			}
			match(t, "errors", tc.want, got)
		})
	}
}
