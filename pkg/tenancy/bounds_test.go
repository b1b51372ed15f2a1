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
		"a level of a user": {
			config: create + "[{name: user, create: true}]", request: tenancy.Request{User: strings.Repeat("u", 60) + "."},
			want: `rule 1 (user): invalid queue name "` + strings.Repeat("u", 60) + `_dot_": a level has 65 characters, more than 64`,
		},
		"a level of a request": {
			config: create + "[{name: provided, create: true}]", request: tenancy.Request{Queue: "root.p." + strings.Repeat("u", 65)},
			want: `rule 1 (provided): invalid queue name "root.p.` + strings.Repeat("u", 65) + `": a level has 65 characters, more than 64`,
		},
		"what a rule makes with its parent": {
			config: create + "[{name: user, create: true, parent: {name: provided, create: true}}]", request: tenancy.Request{User: "ann", Queue: deep(16)},
			want: `rule 1 (user): queue name "` + deep(16) + `.ann" has 17 levels, more than 16`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config, _, err := queueconfig.Parse([]byte(fixture.Partition(tc.config)))
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

// TestLookupsAreLinear asks for a queue of a million levels. Where each level cost a pass over the
// name, this would not end.
func TestLookupsAreLinear(t *testing.T) {
	config, _, err := queueconfig.Parse([]byte(fixture.Partition(
		"queues: [{name: a, parent: true, submitacl: ann, adminacl: boss, properties: {clustersets: x}, childtemplate: {resources: {max: {clusters: 3}}}}]")))
	if err != nil {
		t.Fatal(err)
	}
	queue := "root" + strings.Repeat(".a", 1000000)
	tree := config.Tree
	if room := tree.Remaining(nil, queue, "ann", nil); room.Clusters != 3 || len(room.ClustersBy) > tenancy.MaxMessage {
		t.Errorf("%+v", room)
	}
	if !tree.SubmitAllowed(queue, "ann", nil) || !tree.AdminAllowed(queue, "boss", nil) || tree.Queue(queue) != nil {
		t.Error("the queue above is not found")
	}
	if sets, restricted := tree.ClusterSets(nil, queue); !restricted || len(sets) != 1 {
		t.Error(sets, restricted)
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
