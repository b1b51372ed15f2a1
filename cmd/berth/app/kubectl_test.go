package app

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

func TestEdits(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	// A builder is one object: each case begins its own.
	cluster := func() fixture.ClusterBuilder {
		return fixture.Cluster("c").Label("old", "1").TaintAt("old", "", v1alpha1.TaintEffectNoSelect, metav1.NewTime(noon.Add(-time.Hour)))
	}
	for name, tc := range map[string]struct {
		o    diffEdits
		want fixture.ClusterBuilder
		// wantErr is a mistake in usage; else there is none.
		wantErr string
	}{
		"a label":               {o: diffEdits{labels: []string{"c:example.com/a=b"}}, want: cluster().Label("example.com/a", "b")},
		"a label removed":       {o: diffEdits{labels: []string{"c:a=b", "c:a-"}}, want: cluster()},
		"no cluster":            {o: diffEdits{labels: []string{"a=b"}}, wantErr: "neither CLUSTER:KEY=VALUE"},
		"neither":               {o: diffEdits{labels: []string{"c:a"}}, wantErr: "neither CLUSTER:KEY=VALUE"},
		"no label value":        {o: diffEdits{labels: []string{"c:a=b c"}}, wantErr: "a valid label must be"},
		"no label key":          {o: diffEdits{labels: []string{"c:a b=c"}}, wantErr: "name part must consist of"},
		"the same taint":        {o: diffEdits{taints: []string{"c:old:NoSelect"}}, want: cluster()},
		"a taint removed":       {o: diffEdits{taints: []string{"c:b=v:PreferNoSelect", "c:b-"}}, want: cluster()},
		"a taint of its effect": {o: diffEdits{taints: []string{"c:old:NoSelectIfNew-"}}, want: cluster()},
		"a taint": {
			o:    diffEdits{taints: []string{"c:b=v:PreferNoSelect"}},
			want: cluster().TaintAt("b", "v", v1alpha1.TaintEffectPreferNoSelect, metav1.NewTime(noon)),
		},
		"no effect":      {o: diffEdits{taints: []string{"c:b=v"}}, wantErr: "neither CLUSTER:KEY[=VALUE]:EFFECT"},
		"another effect": {o: diffEdits{taints: []string{"c:b:NoSchedule"}}, wantErr: `effect "NoSchedule" is not one of`},
		"no taint key":   {o: diffEdits{taints: []string{"c:b c:NoSelect"}}, wantErr: "name part must consist of"},
		"no name":        {o: diffEdits{removed: []string{"placement"}}, wantErr: "is not TYPE/NAME"},
		"another kind":   {o: diffEdits{removed: []string{"pod/x"}}, wantErr: "is not TYPE/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			edits, err := tc.o.all("ns")
			if usage := (*usageError)(nil); (tc.wantErr != "") != errors.As(err, &usage) || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error is %v, want %q", err, tc.wantErr)
			}
			if tc.wantErr != "" {
				return
			}
			edited, err := simulator.Objects{cluster().Obj()}.Apply(edits, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(simulator.Objects{tc.want.Obj()}, edited.Changed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEditsOfFlags: what the flags that name no label or taint ask for.
func TestEditsOfFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		flags   diffEdits
		want    simulator.Edit
		wantErr string
	}{
		"drain":                     {diffEdits{drained: []string{"cluster/c"}}, simulator.Edit{Kind: simulator.EditDrain, Cluster: "c"}, ""},
		"drain another kind":        {diffEdits{drained: []string{"placement/c"}}, simulator.Edit{}, "is neither NAME nor"},
		"drain nothing":             {diffEdits{drained: []string{""}}, simulator.Edit{}, "not the name of a cluster"},
		"lose a label":              {diffEdits{lost: []string{"label:region=eu"}}, simulator.Edit{Kind: simulator.EditLose, Key: "label:region", Value: "eu"}, ""},
		"lose a claim":              {diffEdits{lost: []string{"claim:zone=a"}}, simulator.Edit{Kind: simulator.EditLose, Key: "claim:zone", Value: "a"}, ""},
		"lose neither":              {diffEdits{lost: []string{"region=eu"}}, simulator.Edit{}, "neither label:KEY=VALUE nor claim:NAME=VALUE"},
		"lose another kind":         {diffEdits{lost: []string{"set:x=eu"}}, simulator.Edit{}, "is not label:KEY"},
		"a number":                  {diffEdits{numbers: []string{"web=3"}}, simulator.Edit{Kind: simulator.EditNumber, Placement: "ns/web", Number: new(int32(3))}, ""},
		"a number of another":       {diffEdits{numbers: []string{"shop/web=3"}}, simulator.Edit{Kind: simulator.EditNumber, Placement: "shop/web", Number: new(int32(3))}, ""},
		"all":                       {diffEdits{numbers: []string{"web=all"}}, simulator.Edit{Kind: simulator.EditNumber, Placement: "ns/web"}, ""},
		"a negative number":         {diffEdits{numbers: []string{"web=-1"}}, simulator.Edit{}, "-1 is negative"},
		"no number":                 {diffEdits{numbers: []string{"web"}}, simulator.Edit{}, "neither [NAMESPACE/]NAME=NUMBER"},
		"a large number":            {diffEdits{numbers: []string{"web=9999999999"}}, simulator.Edit{}, "neither [NAMESPACE/]NAME=NUMBER"},
		"remove":                    {diffEdits{removed: []string{"set/eu"}}, simulator.Edit{Kind: simulator.EditRemove, Type: "ManagedClusterSet", Name: "eu"}, ""},
		"remove from the namespace": {diffEdits{removed: []string{"pl/web"}}, simulator.Edit{Kind: simulator.EditRemove, Type: "Placement", Name: "ns/web"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			edits, err := tc.flags.all("ns")
			if usage := (*usageError)(nil); (tc.wantErr != "") != errors.As(err, &usage) || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error is %v, want %q", err, tc.wantErr)
			}
			if tc.wantErr != "" {
				return
			}
			if diff := cmp.Diff([]simulator.Edit{tc.want}, edits); diff != "" || !tc.flags.any() {
				t.Error(diff)
			}
		})
	}
}

func TestTable(t *testing.T) {
	all := &table{heading: []string{"A", "LONGER", "LAST"}}
	all.add(cell{"x", plain}, cell{"é", green}, cell{"z", plain})
	for name, tc := range map[string]struct {
		colours bool
		want    string
	}{
		"plain":    {false, "A     LONGER   LAST\nx     é        z\n"},
		"coloured": {true, "A     LONGER   LAST\nx     \x1b[32mé\x1b[0m        z\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := all.print(&out, tc.colours); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUses(t *testing.T) {
	clusters := []v1alpha1.ManagedCluster{
		*fixture.Cluster("a").Allocatable("cpu", "2").Allocatable("memory", "8Gi").Obj(),
		*fixture.Cluster("b").OnlyAllocatable("cpu", "1500m").Obj(),
		*fixture.Cluster("c").Obj(),
		*fixture.Cluster("d").Taint(v1alpha1.ManagedClusterTaintUnreachable, "", v1alpha1.TaintEffectNoSelect).Obj(),
	}
	pages := []*v1alpha1.PlacementDecision{
		fixture.Page("ns", "p-1").Of("p").Lists("b", "c", "gone").Obj(),
		fixture.Page("ns", "p-2").Of("p").Lists("b").Obj(),
		fixture.Page("ns", "q").Of("q").Lists("b").Obj(),
	}
	for order, want := range map[string]string{"name": "dabc", "decisions": "dbca", "cpu": "dabc", "memory": "dabc"} {
		uses := usesOf(clusters, pages, sortOrders[order])
		got := ""
		for _, use := range uses {
			got += use.Name
		}
		if got != want {
			t.Errorf("by %s the order is %s, want %s", order, got, want)
		}
	}
	uses := usesOf(clusters, pages, sortOrders["name"])
	if uses[0].Available || !uses[1].Available {
		t.Errorf("available: %t, %t", uses[0].Available, uses[1].Available)
	}
	for i, want := range []string{"0 [] <unknown> <unknown> <unknown> <unknown>", "0 [] 2000m 100% 8192Mi 100%", "3 [ns/p ns/q] 1500m <unknown> <unknown> <unknown>", "1 [ns/p] <unknown> <unknown> <unknown> <unknown>"} {
		cpu, cpuShare := allocatableText(uses[i], v1alpha1.ResourceCPU)
		memory, memoryShare := allocatableText(uses[i], v1alpha1.ResourceMemory)
		if got := fmt.Sprint(uses[i].Decisions, uses[i].UsedBy, " ", cpu, " ", cpuShare, " ", memory, " ", memoryShare); got != want {
			t.Errorf("%s is %q, want %q", uses[i].Name, got, want)
		}
	}
}

func TestAsk(t *testing.T) {
	for in, want := range map[string]bool{"y\n": true, "YES\n": true, "y": true, "n\n": false, "\n": false, "": false, "yo\n": false} {
		var out bytes.Buffer
		if got, err := ask(strings.NewReader(in), &out, "Sure?"); err != nil || got != want || out.String() != "Sure? [y/N] " {
			t.Errorf("%q is %t, %v, asked %q", in, got, err, out.String())
		}
	}
}
