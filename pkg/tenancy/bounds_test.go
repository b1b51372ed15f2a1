package tenancy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
)

func TestQueueNamesAreBounded(t *testing.T) {
	level := strings.Repeat("l", 50)
	deep := func(levels int) string { return "root" + strings.Repeat(".a", levels-1) }
	long := func(characters int) string { // of 11 levels
		name := "root" + strings.Repeat("."+level, 9)
		return name + "." + strings.Repeat("x", characters-len(name)-1)
	}
	const create = "queues: [{name: p, parent: true}]\nplacementrules: "
	for name, tc := range map[string]struct {
		config  string
		request tenancy.Request
		want    string // queue or reason
	}{
		"16 levels": {
			config: create + "[{name: provided, create: true}]", request: tenancy.Request{Queue: deep(16)}, want: deep(16),
		},
		"17 levels": {
			config: create + "[{name: provided, create: true}]", request: tenancy.Request{Queue: deep(17)},
			want: `rule 1 (provided): queue name "` + deep(17) + `" has 17 levels, more than 16`,
		},
		"512 characters": {
			config: create + "[{name: provided, create: true}]", request: tenancy.Request{Queue: long(512)}, want: long(512),
		},
		"513 characters": {
			config: create + "[{name: provided, create: true}]", request: tenancy.Request{Queue: long(513)},
			want: `rule 1 (provided): queue name "` + long(513)[:80] + `"… is longer than 512 characters`,
		},
		"a million levels": {
			config: create + "[{name: provided, create: true}]", request: tenancy.Request{Queue: deep(1000000)},
			want: `rule 1 (provided): queue name "` + deep(1000000)[:80] + `"… is longer than 512 characters`,
		},
		"a tag": {
			config: create + "[{name: tag, value: team, create: true}]", request: tenancy.Request{Tags: map[string]string{"team": deep(17)}},
			want: `rule 1 (tag): queue name "` + deep(17) + `" has 17 levels, more than 16`,
		},
		"dots, which become longer": {
			config: create + "[{name: tag, value: team, create: true}]", request: tenancy.Request{Tags: map[string]string{"team": strings.Repeat(".", 250000)}},
			want: `rule 1 (tag): queue name "` + strings.Repeat(".", 80) + `"… is longer than 512 characters`,
		},
		"a user": {
			config: create + "[{name: user, create: true}]", request: tenancy.Request{User: strings.Repeat("u", 513)},
			want: `rule 1 (user): queue name "` + strings.Repeat("u", 80) + `"… is longer than 512 characters`,
		},
		"what a rule makes with its parent": {
			config: create + "[{name: user, create: true, parent: {name: provided, create: true}}]", request: tenancy.Request{User: "ann", Queue: deep(16)},
			want: `rule 1 (user): queue name "` + deep(16) + `.ann" has 17 levels, more than 16`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config, _, err := tenancy.Parse([]byte(partition(tc.config)))
			if err != nil {
				t.Fatal(err)
			}
			placed, err := config.Tree.Place(tc.request, nil)
			got := placed.Queue
			if rejected := (*tenancy.Rejected)(nil); errors.As(err, &rejected) {
				got = strings.Join(rejected.Reasons, "; ")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfiguredQueueNamesAreBounded(t *testing.T) {
	nested := func(levels int) string { // below root
		return "queues: " + strings.Repeat("[{name: a, queues: ", levels) + "[]" + strings.Repeat("}]", levels)
	}
	fixed := func(value string) string {
		return "queues: []\nplacementrules: [{name: fixed, create: true, value: " + value + "}]"
	}
	for name, tc := range map[string]struct {
		config, want string
	}{
		"16 levels":                  {config: nested(15)},
		"17 levels":                  {config: nested(16), want: `has 17 levels, more than 16`},
		"a thousand levels":          {config: nested(1000), want: `the document is nested more than 64 levels deep`},
		"a fixed value":              {config: fixed("root" + strings.Repeat(".a", 15))},
		"a fixed value of 17 levels": {config: fixed("root" + strings.Repeat(".a", 16)), want: `has 17 levels, more than 16`},
		"a fixed value that begins below root": {
			config: fixed("a" + strings.Repeat(".a", 15)), want: `has 17 levels, more than 16`,
		},
		"a fixed value of 600 characters": {config: fixed(strings.Repeat("abcdefghi.", 60)), want: `is longer than 512 characters`},
		"fixed values in a chain": {
			config: "queues: []\nplacementrules: [{name: fixed, create: true, value: " + strings.Repeat("a.", 10) + "a, parent: {name: fixed, create: true, value: " +
				strings.Repeat("a.", 10) + "a}}]",
			want: `has 23 levels, more than 16`,
		},
		"parents without end": {
			config: "queues: []\nplacementrules: [" + strings.Repeat("{name: user, parent: ", 1000) + "{name: user}" + strings.Repeat("}", 1000) + "]",
			want:   `the document is nested more than 64 levels deep`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := tenancy.Parse([]byte(partition(tc.config)))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// TestLookupsAreLinear asks for a queue of a million levels. Where each level cost a pass over the
// name, this would not end.
func TestLookupsAreLinear(t *testing.T) {
	config, _, err := tenancy.Parse([]byte(partition(
		"queues: [{name: a, parent: true, submitacl: ann, adminacl: boss, properties: {clustersets: x}, childtemplate: {resources: {max: {clusters: 3}}}}]")))
	if err != nil {
		t.Fatal(err)
	}
	queue := "root" + strings.Repeat(".a", 1000000)
	tree := config.Tree
	if room := tree.Room(nil, queue, "ann", nil); room.Clusters != 3 || len(room.ClustersBy) > tenancy.MaxMessage {
		t.Errorf("%+v", room)
	}
	if !tree.SubmitAllowed(queue, "ann", nil) || !tree.AdminAllowed(queue, "boss", nil) || tree.Queue(queue) != nil {
		t.Error("the queue above is not found")
	}
	if sets, restricted := tree.ClusterSets(queue); !restricted || len(sets) != 1 {
		t.Error(sets, restricted)
	}
}

// TestWhatIsSaidAndKeptIsBounded has Placements carry as much as annotations can hold, in all that
// rules read and messages quote.
func TestWhatIsSaidAndKeptIsBounded(t *testing.T) {
	long := strings.Repeat(".\"é", 20000)
	for name, tc := range map[string]struct {
		config string
		more   func(*placement)
		want   string
	}{
		"request, rejected": {
			config: "queues: []\nplacementrules: [{name: provided}, {name: provided, parent: {name: user}}, {name: tag, value: queue}]",
			more:   annotated("yunikorn.apache.org/queue", long), want: tenancy.ReasonNoRuleMatched,
		},
		"request and tag, placed": {
			config: "queues: [{name: a}]\nplacementrules: [{name: provided}, {name: tag, value: team}, {name: fixed, value: root.a}]",
			more: func(p *placement) {
				annotated("yunikorn.apache.org/queue", long)(p)
				annotated("team", long)(p)
			},
			want: tenancy.ReasonPlaced,
		},
		"request, waiting": {
			config: "queues: [{name: a, maxapplications: 1}]\nplacementrules: [{name: provided}, {name: fixed, value: root.a}]",
			more:   annotated("yunikorn.apache.org/queue", long), want: tenancy.ReasonQuotaExceeded,
		},
		"user, rejected": {
			config: "queues: [{name: a, submitacl: bob}]\nplacementrules: [{name: user}, {name: fixed, value: root.a}, {name: provided, filter: {users: [bob]}}]",
			more:   annotated(tenancy.UserInfoAnnotation, fmt.Sprintf(`{"user":%q,"groups":[]}`, long)), want: tenancy.ReasonNoRuleMatched,
		},
		"user, placed": {
			config: "queues: [{name: a}]\nplacementrules: [{name: fixed, value: root.a}]",
			more:   annotated(tenancy.UserInfoAnnotation, fmt.Sprintf(`{"user":%q,"groups":[]}`, long)), want: tenancy.ReasonPlaced,
		},
		"users that differ": {
			config: "queues: []",
			more:   annotated(tenancy.UserInfoAnnotation, fmt.Sprintf(`{"user":%q,"username":"x"}`, long)), want: tenancy.ReasonUserUnresolved,
		},
		"user whose groups are not found": {
			config: "queues: []\nusergroupresolver: {type: os}",
			more:   annotated(tenancy.UserInfoAnnotation, fmt.Sprintf(`{"user":%q}`, long)), want: tenancy.ReasonUserUnresolved,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(partition(tc.config))
			for i := range 8 {
				d.add(fmt.Sprint("p", i), "", "", 1, tc.more)
			}
			if got := d.verdicts["p7"].Reason; got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
			for name, v := range d.verdicts {
				if len(v.Message) > tenancy.MaxMessage || len(v.Record) > 4096 {
					t.Errorf("%s has a message of %d bytes and a record of %d", name, len(v.Message), len(v.Record))
				}
			}
			state := d.state()
			d.restart(rand.New(rand.NewPCG(1, 1)))
			if diff := cmp.Diff(state, d.state()); diff != "" {
				t.Errorf("after a restart (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	const size = 400000
	long := strings.Repeat("a", size)
	list := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const many = 20000
	for name, text := range map[string]string{
		"a long name above many":    partition("queues: [{name: " + long + ", queues: [" + strings.Repeat("{name: b},", many) + "]}]"),
		"unknown keys":              "partitions: [{name: default, queues: [" + strings.Repeat("{x},", many) + "]}]",
		"invalid values":            "partitions: [{name: default, queues: [" + strings.Repeat("{name: a!},", many) + "]}]",
		"aliases of a long name":    "partitions: [{name: default, queues: [{name: &a " + long + "}," + strings.Repeat("{name: *a },", many) + "]}]",
		"aliases of a long key":     "partitions: [{name: default, queues: [{properties: &a {" + long[:100000] + ": x}}," + strings.Repeat("{properties: *a },", many) + "]}]",
		"aliases of many keys":      "partitions: [{name: default, queues: [&a {" + list("k%d: x,", many) + "}," + strings.Repeat("*a ,", many) + "]}]",
		"aliases of a long list":    "partitions: [{name: default, queues: [{submitacl: &a '" + strings.Repeat("k,", size/2) + "'}," + strings.Repeat("{submitacl: *a },", many) + "]}]",
		"cluster sets":              partition("queues: [{name: a, properties: {clustersets: '" + list("a%d,", many) + "'}, queues: [{name: b, properties: {clustersets: '" + list("b%d,", many) + "'}}]}]"),
		"a limit for many":          partition("queues: []\nlimits: [{users: [" + list("u%d,", many) + "], maxresources: {" + list("r%d: 1,", many) + "}}]"),
		"a limit for many queues":   partition("queues: [" + list("{name: q%d},", many) + "]\nlimits: [{users: [" + list("u%d,", many) + "], maxapplications: 1}]"),
		"digits":                    partition("queues: [{name: a, resources: {max: {clusters: " + strings.Repeat("9", size) + "}}}]"),
		"a long regular expression": partition("queues: []\nplacementrules: [{name: user, filter: {users: ['" + strings.Repeat("(a)", many) + "']}}]"),
		"regular expressions":       partition("queues: []\nplacementrules: [" + strings.Repeat("{name: user, filter: {users: ['a{999}.*b{999}']}},", many/2) + "]"),
		"partitions":                "partitions: [" + strings.Repeat("{queues: []},", many) + "]",
		"a quoted text":             "partitions: '" + long + "'",
		"parents":                   partition("queues: []\nplacementrules: [" + strings.Repeat("{name: user, parent: ", 9000) + "{name: user}" + strings.Repeat("}", 9000) + "]"),
		"too many bytes":            strings.Repeat("\n", tenancy.MaxConfig+1),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, warnings, err := tenancy.Parse([]byte(text))
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 300 {
				t.Errorf("%d MiB were allocated for %d bytes", allocated, len(text))
			}
			problems := tenancy.Problems(nil)
			errors.As(err, &problems)
			for kind, list := range map[string][]tenancy.Problem{"errors": problems, "warnings": warnings} {
				if len(list) > tenancy.MaxProblems {
					t.Errorf("%d %s", len(list), kind)
				}
				for _, problem := range list {
					if len(problem.String()) > tenancy.MaxMessage {
						t.Fatalf("one of the %s has %d bytes", kind, len(problem.String()))
					}
				}
			}
			if len(problems)+len(warnings) == 0 && name != "a limit for many queues" {
				t.Error("nothing is wrong")
			}
		})
	}
}

func TestProblemsAreCounted(t *testing.T) {
	_, _, err := tenancy.Parse([]byte("partitions: [{queues: [" + strings.Repeat("{x},", 250) + "]}]"))
	problems := tenancy.Problems(nil)
	if !errors.As(err, &problems) || len(problems) != 100 || problems[99].Message != "151 more are not listed" {
		t.Errorf("%d problems, the last of them %v", len(problems), problems[max(len(problems)-1, 0):])
	}
}

func TestSettingsAreBounded(t *testing.T) {
	settings := map[string]string{"admissionController.accessControl.bypassAuth": strings.Repeat("x", 500000)}
	for i := range 10000 {
		settings[fmt.Sprintf("admissionController.accessControl.s%d", i)] = "x"
	}
	settings["admissionController.accessControl.systemUsers"] = strings.Repeat("a{1000},", 1000)
	_, warnings := tenancy.ParseAccessControl(settings)
	if len(warnings) > tenancy.MaxProblems {
		t.Errorf("%d warnings", len(warnings))
	}
	for _, warning := range warnings {
		if len(warning) > tenancy.MaxMessage {
			t.Fatalf("a warning of %d bytes", len(warning))
		}
	}
}

func TestQuotes(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                              {"", `""`},
		"a\x1b[31m":                     {"a\x1b[31m", `"a\x1b[31m"`},
		strings.Repeat("é", 80):         {strings.Repeat("é", 80), `"` + strings.Repeat("é", 80) + `"`},
		strings.Repeat("é", 81):         {strings.Repeat("é", 80) + "…", `"` + strings.Repeat("é", 80) + `"…`},
		strings.Repeat("\xff", 1000000): {strings.Repeat("\xff", 80) + "…", `"` + strings.Repeat(`\xff`, 80) + `"…`},
	} {
		if diff := cmp.Diff(want, [2]string{tenancy.Cut(text), tenancy.Quote(text)}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := tenancy.Bound(strings.Repeat("é", 5000)); len(got) > tenancy.MaxMessage || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
