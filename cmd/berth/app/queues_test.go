package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runQueues runs "berth queues" with the configuration as its standard input.
func runQueues(config string, args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	cmd := NewCommand()
	cmd.SetIn(strings.NewReader(config))
	cmd.SetOut(&out)
	cmd.SetErr(&err)
	code = Run(cmd, append([]string{"queues"}, args...))
	return out.String(), err.String(), code
}

// TestQueuesPlaceCases demands of the command what pkg/tenancy demands of its functions.
func TestQueuesPlaceCases(t *testing.T) {
	data, err := os.ReadFile("../../../test/cases/placement_rules.json")
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Queue, Rule string
		Rejected    bool
		Reasons     []string
	}
	var all []struct {
		ID, Config            string
		ExistingDynamicQueues []string
		Submission            struct {
			User, Queue string
			Groups      []string
			Tags        map[string]string
		}
		Expect answer
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, tc := range all {
		t.Run(tc.ID, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "queues.yaml")
			if err := os.WriteFile(file, []byte(tc.Config), 0o600); err != nil {
				t.Fatal(err)
			}
			s := tc.Submission
			args := []string{"place", "-o", "json", "-f", file, "--user", s.User, "--queue", s.Queue}
			for _, group := range s.Groups {
				args = append(args, "--group", group)
			}
			for name, value := range s.Tags {
				args = append(args, "--tag", name+"="+value)
			}
			for _, queue := range tc.ExistingDynamicQueues {
				args = append(args, "--existing", queue)
			}
			out, stderr, code := runQueues("", args...)
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			var got answer
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if (got.Rule == "") != got.Rejected || got.Rejected != (len(got.Reasons) > 0) {
				t.Errorf("an answer of too much or too little: %s", out)
			}
			got.Rule, got.Reasons = "", nil
			if diff := cmp.Diff(tc.Expect, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueues(t *testing.T) {
	const valid = `partitions:
- queues:
  - name: root
    submitacl: "*"
    properties: {clustersets: "us, eu"}
    queues:
    - {name: Prod, adminacl: " ops", maxapplications: 3, resources: {max: {clusters: 4}}}
    - {name: team, parent: true, properties: {clustersets: ""}}
  placementrules:
  - {name: provided}
  - {name: user, create: true, filter: {groups: [group1000]}}
  usergroupresolver: {type: test}
`
	const unplaced = "warning: standard input: no rule finds a queue for a Placement of user nobody that requests none, so it gets no cluster: rule 1 (provided): no queue was requested"
	const configMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: yunikorn-configs, namespace: berth-system}
data:
  queues.yaml: |
    partitions:
    - queues: [{name: a}]
`
	for name, tc := range map[string]struct {
		stdin    string
		args     []string
		wantOut  string // all of it
		wantErr  string // a part of it
		wantCode int
	}{
		"check": {
			stdin: valid, args: []string{"check", "-f", "-"},
			wantOut: `root  submitacl="*"  clustersets=eu,us
  prod (leaf)  adminacl=" ops"  clustersets=eu,us  maxapplications=3  clusters=4
  team  clustersets=none
`, wantErr: unplaced,
		},
		"check, unrestricted, with a warning": {
			stdin: "partitions: [{queues: [{name: a, submitacl: \"o'hara\"}]}]", args: []string{"check", "-f", "-"},
			wantOut: "root  clustersets=any\n  a (leaf)  submitacl=\"o'hara\"  clustersets=any\n", wantErr: "warning: standard input: line 1: ",
		},
		"check, invalid": {
			stdin: "partitions: [{queues: [{name: a!}, {nam: b}]}]", args: []string{"check", "-f", "-"},
			wantErr: "line 1: partitions[0].queues[1].nam: unknown field", wantCode: exitFailure,
		},
		"check, limits": {
			stdin: "partitions:\n- limits: [{users: [ann], maxapplications: 5}]\n  queues:\n  - name: a\n    limits:\n    - {users: [ann, '*'], maxapplications: 2}\n    - {groups: [dev], maxresources: {clusters: 3}}\n",
			args:  []string{"check", "-f", "-"},
			wantOut: `root  clustersets=any
  - limit  users=ann  maxapplications=5
  a (leaf)  clustersets=any
    - limit  users=ann,*  maxapplications=2
    - limit  groups=dev  clusters=3
`, wantErr: unplaced,
		},
		"check, a ConfigMap": {
			stdin: configMap, args: []string{"check", "-f", "-"}, wantOut: "root  clustersets=any\n  a (leaf)  clustersets=any\n", wantErr: unplaced,
		},
		"check, a mistake in a ConfigMap": {
			stdin: strings.Replace(configMap, "name: a", "nam: a", 1), args: []string{"check", "-f", "-"}, wantErr: "line 7: partitions[0].queues[0].nam: unknown field", wantCode: exitFailure,
		},
		"check, a ConfigMap without queues": {
			stdin: strings.Replace(configMap, "queues.yaml", "queue.yaml", 1), args: []string{"check", "-f", "-"}, wantErr: "ConfigMap yunikorn-configs has no key queues.yaml", wantCode: exitFailure,
		},
		"check, the second entry of a filter": {
			stdin: "partitions:\n- queues: [{name: a}]\n  placementrules:\n  - name: user\n    create: true\n    filter:\n      users:\n      - ann\n      - bo.*\n", args: []string{"check", "-f", "-"},
			wantOut: "root  clustersets=any\n  a (leaf)  clustersets=any\n", wantErr: "line 9: partitions[0].placementrules[0].filter.users[1]: \"bo.*\" is ignored",
		},
		"place, a ConfigMap": {
			stdin: configMap, args: []string{"place", "-f", "-", "--user", "ann", "--queue", "a"}, wantOut: "root.a, by rule 1 (provided)\n",
		},
		"check, no such file": {args: []string{"check", "-f", "nowhere.yaml"}, wantErr: "nowhere.yaml", wantCode: exitFailure},
		"check, no file":      {args: []string{"check"}, wantErr: "-f is required", wantCode: exitUsage},
		"place, groups from the resolver": {
			stdin: valid, args: []string{"place", "-f", "-", "--user", "testuser1"},
			wantOut: "root.testuser1 (dynamic), by rule 2 (user)\n  rule 1 (provided): no queue was requested\n",
		},
		"place, groups given": {
			stdin: valid, args: []string{"place", "-f", "-", "--user", "testuser1", "--group", "x"},
			wantOut: "rejected: no placement rule matched\n  rule 1 (provided): no queue was requested\n  rule 2 (user): its filter excludes user testuser1\n",
		},
		"place, user without known groups": {
			stdin: valid, args: []string{"place", "-f", "-", "--user", "ann"}, wantErr: "finding the groups of user ann", wantCode: exitFailure,
		},
		"place, json": {
			stdin: valid, args: []string{"place", "-f", "-", "--user", "ann", "--group", "x", "--queue", "PROD", "-o", "json"},
			wantOut: "{\"queue\":\"root.prod\",\"rule\":\"provided\"}\n",
		},
		"place, invalid": {
			stdin: "partitions: 3", args: []string{"place", "-f", "-", "--user", "ann"}, wantErr: "line 1: partitions: ", wantCode: exitFailure,
		},
		"place, no user":      {stdin: valid, args: []string{"place", "-f", "-"}, wantErr: "--user", wantCode: exitUsage},
		"place, bad tag":      {stdin: valid, args: []string{"place", "-f", "-", "--user", "ann", "--tag", "x"}, wantErr: "--tag", wantCode: exitUsage},
		"place, bad existing": {stdin: valid, args: []string{"place", "-f", "-", "--user", "ann", "--existing", "a.b"}, wantErr: "--existing", wantCode: exitUsage},
		"place, bad output":   {stdin: valid, args: []string{"place", "-f", "-", "--user", "ann", "-o", "yaml"}, wantErr: "-o", wantCode: exitUsage},
		"nothing to do":       {args: []string{"bogus"}, wantErr: "unknown command", wantCode: exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			out, stderr, code := runQueues(tc.stdin, tc.args...)
			if code != tc.wantCode {
				t.Errorf("want exit code %d, got %d", tc.wantCode, code)
			}
			if diff := cmp.Diff(tc.wantOut, out); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if !strings.Contains(stderr, tc.wantErr) || tc.wantErr == "" && stderr != "" {
				t.Errorf("want on standard error %q, got %q", tc.wantErr, stderr)
			}
		})
	}
}

// TestQueuesCheckCountsPlacements: the shortest configuration with a limit takes the clusters of
// everyone else, so check warns.
func TestQueuesCheckCountsPlacements(t *testing.T) {
	const shortest = "partitions: [{queues: [{name: dev, maxapplications: 3}]}]"
	folder := t.TempDir()
	placements := ""
	for _, name := range []string{"a", "b", "c"} {
		placements += "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nspec: {}\nmetadata: {name: " + name + ", namespace: team}\n---\n"
	}
	placements += "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nspec: {}\nmetadata: {name: d, namespace: team, labels: {queue: dev}}\n"
	if err := os.WriteFile(filepath.Join(folder, "placements.yaml"), []byte(placements), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		config   string
		args     []string
		wantErr  string
		wantCode int
	}{
		"without a hub": {
			config: shortest, wantErr: "warning: standard input: no rule finds a queue for a Placement of user nobody that requests none, so it gets no cluster: rule 1 (provided): no queue was requested\n",
		},
		"with files": {
			config: shortest, args: []string{"--placements", folder},
			wantErr: "warning: standard input: no rule finds a queue for 3 of the 4 Placements, so they get no cluster; the first is team/a: rule 1 (provided): no queue was requested\n",
		},
		"with files, and a rule for everyone": {
			config: "partitions: [{queues: [{name: dev}, {name: rest}], placementrules: [{name: provided}, {name: fixed, value: rest}]}]", args: []string{"--placements", folder},
		},
		"with files, invalid": {
			config: "partitions: [{queues: [{name: a!}]}]", args: []string{"--placements", folder}, wantErr: "invalid queue name", wantCode: exitFailure,
		},
		"with files that do not exist": {config: shortest, args: []string{"--placements", filepath.Join(folder, "none")}, wantErr: "none", wantCode: exitFailure},
		"with files and a hub":         {config: shortest, args: []string{"--placements", folder, "--kubeconfig", "x"}, wantErr: "--placements cannot be used", wantCode: exitUsage},
		"with a hub that is not there": {config: shortest, args: []string{"--kubeconfig", filepath.Join(folder, "none")}, wantErr: "none", wantCode: exitFailure},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := runQueues(tc.config, append([]string{"check", "-f", "-"}, tc.args...)...)
			if code != tc.wantCode {
				t.Errorf("exit code %d, want %d", code, tc.wantCode)
			}
			if code == exitOK && stderr != tc.wantErr || !strings.Contains(stderr, tc.wantErr) {
				t.Errorf("got %q, want %q", stderr, tc.wantErr)
			}
		})
	}
}
