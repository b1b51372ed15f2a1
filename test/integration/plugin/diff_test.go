package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// Exit codes.
const (
	same    = 0
	failed  = 1
	misused = 2
	differs = 3
)

var _ = Describe("diff", func() {
	var t team
	BeforeEach(func(ctx SpecContext) {
		t = newTeam(ctx)
		t.place(ctx, fixture.Placement(string(t), "all"), 3)
		t.place(ctx, fixture.Placement(string(t), "gpu").Predicate(fixture.MatchLabel("gpu", "true")).Number(1), 1)
	})

	// compared runs diff and demands changes; comesTrue then does the change and waits until
	// the hub has what was foretold.
	compared := func(ctx context.Context, in string, words ...string) *simulator.Comparison {
		GinkgoHelper()
		before := versions(ctx)
		got := run(ctx, in, append([]string{"diff", "-o", "json"}, words...)...)
		Expect(got.code).To(Equal(differs), got.err)
		Expect(versions(ctx)).To(Equal(before), "nothing is written")
		c := &simulator.Comparison{}
		Expect(json.Unmarshal([]byte(got.out), c)).To(Succeed())
		return c
	}
	comesTrue := func(ctx context.Context, c *simulator.Comparison, change func()) {
		GinkgoHelper()
		before := map[string][]string{}
		for _, name := range []string{"all", "gpu", "new"} {
			before[string(t)+"/"+name] = answer(ctx, string(t), name)()
		}
		change()
		for _, foretold := range c.Changes {
			want := []string{}
			for _, name := range append(before[foretold.Placement], foretold.Added...) {
				if !strings.Contains(" "+strings.Join(foretold.Removed, " ")+" ", " "+name+" ") {
					want = append(want, name)
				}
			}
			namespace, name, _ := strings.Cut(foretold.Placement, "/")
			Eventually(answer(ctx, namespace, name)).Should(ConsistOf(want))
			Expect(foretold.After).To(Equal(len(want)))
		}
	}

	It("shows the clusters of several new Placements, which the hub decides one after the other", func(ctx SpecContext) {
		var objects []client.Object
		in := ""
		for i := range 4 {
			pl := fixture.Placement(string(t), fmt.Sprint("new", i)).Number(1).Obj()
			pl.SetGroupVersionKind(v1alpha1.GroupVersionV1Beta1.WithKind("Placement"))
			objects = append(objects, pl)
			text, err := json.Marshal(pl)
			Expect(err).NotTo(HaveOccurred())
			in += string(text) + "\n"
		}
		c := compared(ctx, in, "-f", "-")
		Expect(c.Summary.Changed).To(Equal(len(objects)))
		chosen := map[string]bool{}
		for _, change := range c.Changes {
			chosen[change.Added[0]] = true
		}
		Expect(chosen).To(HaveLen(3), "Balance distributes them over all clusters")
		comesTrue(ctx, c, func() {
			for _, pl := range objects {
				Expect(hub.Create(ctx, pl)).To(Succeed())
			}
		})
	})

	It("shows the effect of a taint", func(ctx SpecContext) {
		c := compared(ctx, "", "--taint", t.name(1)+":down:NoSelect")
		Expect(c.Summary).To(Equal(simulator.Summary{Placements: 2, Changed: 2, Added: 1, Removed: 2, Pages: 2}))
		comesTrue(ctx, c, func() {
			patch(ctx, fixture.Cluster(t.name(1)).Obj(), `{"spec":{"taints":[{"key":"down","effect":"NoSelect","timeAdded":null}]}}`)
		})
	})

	It("shows the effect of a label", func(ctx SpecContext) {
		c := compared(ctx, "", "--label", t.name(1)+":"+v1alpha1.ClusterSetLabel+"-")
		comesTrue(ctx, c, func() {
			patch(ctx, fixture.Cluster(t.name(1)).Obj(), `{"metadata":{"labels":{"`+v1alpha1.ClusterSetLabel+`":null}}}`)
		})
	})

	It("shows the effect of files from standard input: one Placement replaced, one created", func(ctx SpecContext) {
		file := `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: all}
spec: {numberOfClusters: 2}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: new}
spec: {}
`
		c := compared(ctx, file, "-n", string(t), "-f", "-")
		Expect(c.Summary).To(Equal(simulator.Summary{Placements: 3, Changed: 2, Added: 3, Removed: 1, Pages: 2}))
		comesTrue(ctx, c, func() {
			hub.ApplyYAML(ctx, strings.ReplaceAll(file, "metadata: {", "metadata: {namespace: "+string(t)+", "))
		})
	})

	It("shows the effect of a new and of a changed SelectionPolicy, and explain has its reasons", func(ctx SpecContext) {
		file := func(cluster string) string {
			return `
apiVersion: berth.dev/v1alpha1
kind: SelectionPolicy
metadata: {name: all}
spec: {placement: all, clusterNames: {exclude: [` + cluster + `]}}
`
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(hub.DeleteAllOf(ctx, &berthv1alpha1.SelectionPolicy{}, client.InNamespace(string(t)))).To(Succeed())
		})
		apply := func(cluster string) func() {
			return func() {
				hub.ApplyYAML(ctx, strings.ReplaceAll(file(cluster), "metadata: {", "metadata: {namespace: "+string(t)+", "))
			}
		}
		c := compared(ctx, file(t.name(1)), "-n", string(t), "-f", "-")
		Expect(c.Summary).To(Equal(simulator.Summary{Placements: 2, Changed: 1, Removed: 1, Pages: 1}))
		comesTrue(ctx, c, apply(t.name(1)))
		Expect(run(ctx, "", "explain", "all", "-n", string(t), "--cluster", t.name(1)).out).To(And(
			ContainSubstring("in clusterNames.exclude of SelectionPolicy all"), ContainSubstring("SelectionPolicy without "+t.name(1)+" in clusterNames.exclude")))
		c = compared(ctx, file(t.name(2)), "-n", string(t), "-f", "-")
		Expect(c.Summary).To(Equal(simulator.Summary{Placements: 2, Changed: 1, Added: 1, Removed: 1, Pages: 1}))
		comesTrue(ctx, c, apply(t.name(2)))
		c = compared(ctx, "", "-n", string(t), "--remove", "selectionpolicy/all")
		Expect(c.Summary).To(Equal(simulator.Summary{Placements: 2, Changed: 1, Added: 1, Pages: 1}))
	})

	It("shows the effect of a deleted set", func(ctx SpecContext) {
		c := compared(ctx, "", "--remove", "managedclustersets/"+string(t))
		Expect(c.Summary.Removed).To(Equal(4))
		comesTrue(ctx, c, func() { Expect(hub.Delete(ctx, fixture.Set(string(t)))).To(Succeed()) })
	})

	It("exits with the code of its result", func(ctx SpecContext) {
		for _, tc := range []struct {
			words    []string
			in       string
			wantCode int
			want     string
		}{
			{[]string{"--label", t.name(1) + ":tier=2"}, "", same, "Nothing changes: 2 Placements compared."},
			{[]string{"--remove", "cluster/" + t.name(3)}, "", differs, "Changes: 1 of 2 Placements, 0 clusters added, 1 removed, 1 page written."},
			{[]string{"--remove", "cluster/nowhere"}, "", failed, "there is no ManagedCluster nowhere"},
			{[]string{"--label", "nowhere:a=b"}, "", failed, "there is no ManagedCluster nowhere"},
			{[]string{"-f", "-"}, "{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: p}, spec: {numberOfClusters: x}}", failed, "spec.numberOfClusters"},
			{[]string{"-f", "-"}, "", failed, "-: no object on which decisions depend, such as a Placement or ManagedCluster"},
			{[]string{"-f", "-"}, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}", failed, "no object on which decisions depend"},
			{[]string{"-f", "-"}, "words", failed, "standard input: not an object with apiVersion and kind"},
			{[]string{"--kubeconfig", "/nowhere", "--label", "a:b=c"}, "", failed, "/nowhere"},
			{[]string{"--as", "nobody", "--label", "a:b=c"}, "", failed, `User "nobody" cannot list resource`},
			{nil, "", misused, "--lose, --number and --remove is required"},
			{[]string{"--taint", "a:b:Never"}, "", misused, `effect "Never"`},
			{[]string{"--remove", "secret/x"}, "", misused, "is not TYPE/NAME"},
			{[]string{"--label", "a:b=c", "-o", "xml"}, "", misused, "not one of table, wide, json, yaml, name, markdown"},
		} {
			got := run(ctx, tc.in, append([]string{"diff"}, tc.words...)...)
			Expect(got.out+got.err).To(ContainSubstring(tc.want), "%v", tc.words)
			Expect(got.code).To(Equal(tc.wantCode), "%v", tc.words)
		}
	})

	It("lists Placements that wait, and changes that would be held", func(ctx SpecContext) {
		Expect(hub.Create(ctx, fixture.ApprovalPolicy(string(t), "waits", "waits"))).To(Succeed())
		pl := t.place(ctx, fixture.Placement(string(t), "waits"), 0)
		held(ctx, pl, 3)
		got := run(ctx, "", "diff", "--remove", "cluster/"+t.name(3), "-o", "wide")
		Expect(got.out).To(And(MatchRegexp(`waits +Updated .* required\n`),
			ContainSubstring("Already out of date, independent of this change: "+string(t)+"/waits (held).")))
	})
})

// versions are the resource versions of all that may not be written.
func versions(ctx context.Context) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"Placement": &v1alpha1.PlacementList{}, "PlacementDecision": &v1alpha1.PlacementDecisionList{},
		"ManagedCluster": &v1alpha1.ManagedClusterList{}, "ManagedClusterSet": &v1alpha1.ManagedClusterSetList{},
	} {
		Expect(hub.List(ctx, list)).To(Succeed())
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			all[kind+" "+o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
			return nil
		})).To(Succeed())
	}
	return all
}
