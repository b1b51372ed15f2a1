package threat

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// whatIfs are questions about what lies outside.
func whatIfs() map[string]berthv1alpha1.PlacementExplanationSpec {
	spec := fixture.Placement("", "").Sets("mine", "secret").Mode("Exact").Prioritizer("Steady", 1).Obj().Spec
	edit := func(e berthv1alpha1.ClusterEdit) berthv1alpha1.PlacementExplanationSpec {
		return berthv1alpha1.PlacementExplanationSpec{
			Placement: "probe", Template: &berthv1alpha1.PlacementTemplate{Spec: spec}, Edits: []berthv1alpha1.ClusterEdit{e}, Clusters: []string{"theirs-1"},
		}
	}
	return map[string]berthv1alpha1.PlacementExplanationSpec{
		"lose theirs":         edit(berthv1alpha1.ClusterEdit{Kind: "lose", Key: "owner", Value: "rival"}),
		"lose a zone of both": edit(berthv1alpha1.ClusterEdit{Kind: "lose", Key: "label:zone", Value: "z1"}),
		"drain theirs":        edit(berthv1alpha1.ClusterEdit{Kind: "drain", Cluster: "theirs-1"}),
		"evict theirs":        edit(berthv1alpha1.ClusterEdit{Kind: "evict", Cluster: "theirs-1"}),
		"take theirs":         edit(berthv1alpha1.ClusterEdit{Kind: "label", Cluster: "theirs-1", Key: v1alpha1.ClusterSetLabel, Value: "mine"}),
		"join theirs":         edit(berthv1alpha1.ClusterEdit{Kind: "label", Cluster: "mine-1", Key: v1alpha1.ClusterSetLabel, Value: "secret"}),
		"untaint theirs":      edit(berthv1alpha1.ClusterEdit{Kind: "taint", Cluster: "theirs-1", Key: "k", Remove: true}),
		"their zones":         {Placement: "probe", Domains: "label:zone"},
		"their clusters":      {Template: &berthv1alpha1.PlacementTemplate{Spec: spec}, Domains: "cluster"},
		"their Placement":     {Placement: "other", Template: &berthv1alpha1.PlacementTemplate{Spec: spec}},
	}
}

// TestWhatIfDisclosesNothing: with and without each secret, each question gets the same answer, to
// the byte.
func TestWhatIfDisclosesNothing(t *testing.T) {
	for name, spec := range whatIfs() {
		t.Run(name, func(t *testing.T) {
			want := answered(t, spec, nil)
			for secret, objects := range secrets() {
				if diff := cmp.Diff(want, answered(t, spec, objects)); diff != "" {
					t.Errorf("%s shows (-without +with):\n%s", secret, diff)
				}
			}
		})
	}
}

// newExplainer knows objects as the controller does.
func newExplainer(t *testing.T, objects ...client.Object) *explanation.Explainer {
	t.Helper()
	profiles, err := builtin.Profiles(t.Context(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	inv := inventory.New(inventory.Options{})
	for _, o := range objects {
		inv.Update(o)
	}
	return &explanation.Explainer{Inventory: inv, Scheduler: scheduler.New(profiles, nil), Now: func() time.Time { return fixture.Now }}
}

// ask returns the status that answers a question of the author, and the Result.
func ask(t *testing.T, e *explanation.Explainer, spec berthv1alpha1.PlacementExplanationSpec) (*berthv1alpha1.PlacementExplanationStatus, explanation.Result) {
	t.Helper()
	pex := &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: author, Name: "e", UID: "e"}, Spec: spec}
	q, err := explanation.QuestionOf(pex)
	if err != nil {
		t.Fatal(err)
	}
	a := e.Explain(t.Context(), &q)
	if a.Report == nil {
		t.Fatalf("no answer: %+v", a)
	}
	a.SetStatus(&pex.Status, fixture.Now)
	return &pex.Status, a
}

// answered is all that the author sees of an answer.
func answered(t *testing.T, spec berthv1alpha1.PlacementExplanationSpec, outside []client.Object) string {
	t.Helper()
	objects := []client.Object{
		fixture.Placement(author, "probe").Mode("Exact").Prioritizer("Steady", 1).Obj(), fixture.Set("mine"), fixture.Binding(author, "mine"),
		fixture.Cluster("mine-1").Set("mine").Label("zone", "z1").Obj(), fixture.Cluster("mine-2").Set("mine").Label("zone", "z2").Obj(),
	}
	status, a := ask(t, newExplainer(t, append(objects, outside...)...), spec)
	text, err := json.MarshalIndent([]any{status, a.Unmatched}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAnswersAreBounded: the largest answer fits into an object of the hub.
func TestAnswersAreBounded(t *testing.T) {
	const clusters = 12_000
	long := func(i int) string { return fmt.Sprintf("%0200d", i) }
	objects := []client.Object{fixture.Set("mine"), fixture.Binding(author, "mine"), fixture.Placement(author, "probe").Number(1).Obj()}
	for i := range clusters {
		objects = append(objects, fixture.Cluster(long(i)).Set("mine").Label("zone", fmt.Sprint("z", i%1500)).Obj())
	}
	spec := berthv1alpha1.PlacementExplanationSpec{
		Placement: "probe", Template: &berthv1alpha1.PlacementTemplate{}, Limit: berthv1alpha1.MaxVerdicts, Domains: "label:zone",
		Edits: []berthv1alpha1.ClusterEdit{{Kind: "drain", Cluster: long(1)}},
	}
	status, _ := ask(t, newExplainer(t, objects...), spec)
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 3 << 19 // of etcd: 1.5 MiB
	if c, r := status.Change, status.Resilience; len(text) > limit || !c.Truncated || len(c.After) == 0 || r.Domains != 1500 || r.LeftOut != 500 {
		t.Errorf("%d bytes, %d clusters, truncated %t, %d domains, %d left out", len(text), len(c.After), c.Truncated, r.Domains, r.LeftOut)
	}
}
