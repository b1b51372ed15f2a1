package queueconfig_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
	"github.com/berth-dev/berth/test/fixture"
)

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
			_, _, err := queueconfig.Parse([]byte(fixture.Partition(tc.config)))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q, got %v", tc.want, err)
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
		"a long name above many":    fixture.Partition("queues: [{name: " + long + ", queues: [" + strings.Repeat("{name: b},", many) + "]}]"),
		"unknown keys":              "partitions: [{name: default, queues: [" + strings.Repeat("{x},", many) + "]}]",
		"invalid values":            "partitions: [{name: default, queues: [" + strings.Repeat("{name: a!},", many) + "]}]",
		"aliases of a long name":    "partitions: [{name: default, queues: [{name: &a " + long + "}," + strings.Repeat("{name: *a },", many) + "]}]",
		"aliases of a long key":     "partitions: [{name: default, queues: [{properties: &a {" + long[:100000] + ": x}}," + strings.Repeat("{properties: *a },", many) + "]}]",
		"aliases of many keys":      "partitions: [{name: default, queues: [&a {" + list("k%d: x,", many) + "}," + strings.Repeat("*a ,", many) + "]}]",
		"aliases of a long list":    "partitions: [{name: default, queues: [{submitacl: &a '" + strings.Repeat("k,", size/2) + "'}," + strings.Repeat("{submitacl: *a },", many) + "]}]",
		"cluster sets":              fixture.Partition("queues: [{name: a, properties: {clustersets: '" + list("a%d,", many) + "'}, queues: [{name: b, properties: {clustersets: '" + list("b%d,", many) + "'}}]}]"),
		"a limit for many":          fixture.Partition("queues: []\nlimits: [{users: [" + list("u%d,", many) + "], maxresources: {" + list("r%d: 1,", many) + "}}]"),
		"a limit for many queues":   fixture.Partition("queues: [" + list("{name: q%d},", many) + "]\nlimits: [{users: [" + list("u%d,", many) + "], maxapplications: 1}]"),
		"digits":                    fixture.Partition("queues: [{name: a, resources: {max: {clusters: " + strings.Repeat("9", size) + "}}}]"),
		"a long regular expression": fixture.Partition("queues: []\nplacementrules: [{name: user, filter: {users: ['" + strings.Repeat("(a)", many) + "']}}]"),
		"regular expressions":       fixture.Partition("queues: []\nplacementrules: [" + strings.Repeat("{name: user, filter: {users: ['a{999}.*b{999}']}},", many/2) + "]"),
		"partitions":                "partitions: [" + strings.Repeat("{queues: []},", many) + "]",
		"a quoted text":             "partitions: '" + long + "'",
		"parents":                   fixture.Partition("queues: []\nplacementrules: [" + strings.Repeat("{name: user, parent: ", 9000) + "{name: user}" + strings.Repeat("}", 9000) + "]"),
		"too many bytes":            strings.Repeat("\n", queueconfig.MaxConfig+1),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, warnings, err := queueconfig.Parse([]byte(text))
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 300 {
				t.Errorf("%d MiB were allocated for %d bytes", allocated, len(text))
			}
			problems := queueconfig.Problems(nil)
			errors.As(err, &problems)
			for kind, list := range map[string][]queueconfig.Problem{"errors": problems, "warnings": warnings} {
				if len(list) > queueconfig.MaxProblems {
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
	_, _, err := queueconfig.Parse([]byte("partitions: [{queues: [" + strings.Repeat("{x},", 250) + "]}]"))
	problems := queueconfig.Problems(nil)
	if !errors.As(err, &problems) || len(problems) != 100 || problems[99].Message != "151 more are not listed" {
		t.Errorf("%d problems, the last of them %v", len(problems), problems[max(len(problems)-1, 0):])
	}
}
