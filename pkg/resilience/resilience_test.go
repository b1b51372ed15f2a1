package resilience

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func TestParseKey(t *testing.T) {
	tests := map[string]struct{ text, wantErr string }{
		"label":                {text: "label:region"},
		"label with prefix":    {text: "label:topology.kubernetes.io/zone"},
		"claim":                {text: "claim:zone.open-cluster-management.io"},
		"claim with colon":     {text: "claim:a:b"},
		"cluster":              {text: "cluster"},
		"nothing":              {wantErr: `"" is not label:KEY, claim:NAME or cluster`},
		"no kind":              {text: "region", wantErr: `"region" is not label:KEY, claim:NAME or cluster`},
		"unknown kind":         {text: "set:eu", wantErr: `"set:eu" is not label:KEY, claim:NAME or cluster`},
		"label without key":    {text: "label:", wantErr: `"label:" is not label:KEY`},
		"cluster with name":    {text: "cluster:c1", wantErr: `"cluster:c1" is not label:KEY`},
		"no label key":         {text: "label:a b", wantErr: `"a b" is no label key`},
		"very long claim":      {text: "claim:" + strings.Repeat("x", 40_000), wantErr: "at most 253 characters"},
		"very long label":      {text: "label:" + strings.Repeat("x", 40_000), wantErr: "is no label key"},
		"very long other text": {text: strings.Repeat("x", 40_000), wantErr: "x…\" is not label:KEY"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key, err := ParseKey(tc.text)
			if tc.wantErr == "" {
				if err != nil || key.String() != tc.text {
					t.Errorf("got %q, %v", key, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) || len(err.Error()) > 500 {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestDomainsOf(t *testing.T) {
	var clusters []*framework.Cluster
	for i, region := range []string{"us", "eu", "", "us"} {
		object := &v1alpha1.ManagedCluster{}
		object.Name = string(rune('a' + i))
		if region != "" {
			object.Labels = map[string]string{"region": region}
		}
		clusters = append(clusters, framework.NewCluster(object, i))
	}
	tests := map[string]struct {
		by          string
		want        []Domain
		wantWithout int
	}{
		"label":   {"label:region", []Domain{{"eu", []int{1}}, {"us", []int{0, 3}}}, 1},
		"cluster": {"cluster", []Domain{{"a", []int{0}}, {"b", []int{1}}, {"c", []int{2}}, {"d", []int{3}}}, 0},
		"claim":   {"claim:zone", nil, 4},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key, err := ParseKey(tc.by)
			if err != nil {
				t.Fatal(err)
			}
			got, without := DomainsOf(key, slices.Values(clusters))
			if diff := cmp.Diff(tc.want, got); diff != "" || without != tc.wantWithout {
				t.Errorf("%d without a domain, -want +got:\n%s", without, diff)
			}
		})
	}
}

// of returns a satisfied Placement of three clusters with these losses.
func of(name string, losses ...Loss) Placement {
	p := Placement{Placement: name, Satisfied: true, Selected: 3, Wanted: new(3)}
	for _, l := range losses {
		p.Add(l)
	}
	return p
}

func TestMessage(t *testing.T) {
	harmless := Loss{Satisfied: true, Clusters: 4}
	all := of("a", Loss{Domain: "eu", Lost: 1, Why: "No ManagedCluster matches any of the cluster predicate"})
	all.Wanted = nil
	tests := map[string]struct {
		placement Placement
		by, want  string
	}{
		"all survive": {of("a", harmless, harmless), "label:region", "2 of 2 domains of label region can be lost"},
		"one domain":  {of("a", harmless), "label:region", "1 of 1 domain of label region can be lost"},
		"moves": {of("a", harmless, Loss{Domain: "eu", Lost: 2, Added: 2, Satisfied: true}, Loss{Domain: "us", Lost: 1, Added: 1, Satisfied: true}), "claim:zone",
			"3 of 3 domains of claim zone can be lost; weakest is eu: 2 of 3 clusters lost, 2 replaced"},
		"another tier": {of("a", Loss{Domain: "eu", Lost: 1, Added: 3, Removed: 2, Satisfied: true}), "cluster",
			"1 of 1 cluster can be lost; weakest is eu: 1 of 3 clusters lost, 2 more removed, 3 added"},
		"missing": {of("a", harmless, Loss{Domain: "us", Lost: 1, Missing: 1}, Loss{Domain: "eu", Lost: 2, Missing: 2, Why: "Predicate excludes 7"}), "label:region",
			"1 of 3 domains of label region can be lost; not eu: 2 of 3 clusters would be missing (Predicate excludes 7); 1 other cannot be lost either"},
		"unmet": {of("a", Loss{Domain: "eu", Why: "group gpu has 0 of at least 1 clusters"}, Loss{Domain: "us"}, Loss{Domain: "ap"}), "label:region",
			"0 of 3 domains of label region can be lost; not ap: it would not be satisfied: ; 2 others cannot be lost either"},
		"all clusters":  {all, "label:region", "0 of 1 domain of label region can be lost; not eu: it would not be satisfied: No ManagedCluster matches any of the cluster predicate"},
		"no domain":     {of("a"), "label:region", "no cluster that it may use has the label region"},
		"not satisfied": {Placement{Why: "2 cluster decisions unscheduled"}, "cluster", "not satisfied before a loss: 2 cluster decisions unscheduled"},
		"skipped":       {Placement{Skipped: "disabled"}, "cluster", "not decided: disabled"},
		"long names": {of("a", Loss{Domain: strings.Repeat("x", 253), Missing: 1, Lost: 1}), "cluster",
			"0 of 1 cluster can be lost; not " + strings.Repeat("x", 62) + "…: 1 of 3 clusters would be missing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			key, err := ParseKey(tc.by)
			if err != nil {
				t.Fatal(err)
			}
			tc.placement.Finish(key)
			if tc.placement.Message != tc.want {
				t.Errorf("got  %q\nwant %q", tc.placement.Message, tc.want)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	fine, moves := Loss{Satisfied: true}, Loss{Domain: "m", Satisfied: true, Lost: 1, Added: 1}
	r := Report{Placements: []Placement{
		{Placement: "skipped", Skipped: "disabled"},
		of("all fine", fine, fine), of("moves", moves),
		of("misses one", fine, Loss{Missing: 1}), of("misses two", fine, Loss{Missing: 2}), of("misses each", Loss{Missing: 1}),
		{Placement: "not satisfied"}, of("no domains"),
	}}
	r.Sort()
	var got []string
	for _, p := range r.Placements {
		got = append(got, p.Placement)
	}
	want := []string{"not satisfied", "misses each", "no domains", "misses two", "misses one", "moves", "all fine", "skipped"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	tests := map[int]int{0: 0, 1: 3, 2: 6, 3: 7}
	for n, want := range tests {
		if below := r.Below(n); len(below) != want {
			t.Errorf("below %d: %v, want %d", n, below, want)
		}
	}
}
