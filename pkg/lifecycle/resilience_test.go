package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

func TestResilienceArgs(t *testing.T) {
	tests := map[string]struct{ args, wantErr string }{
		"none":         {args: `{}`},
		"label":        {args: `{"key":"label:region"}`},
		"claim":        {args: `{"key":"claim:zone","failBelow":2}`},
		"cluster":      {args: `{"key":"cluster"}`, wantErr: `key: "cluster" is not label:KEY or claim:NAME; kubectl placement resilience accepts it`},
		"invalid":      {args: `{"key":"region"}`, wantErr: `key: "region" is not label:KEY, claim:NAME or cluster`},
		"no key":       {args: `{"failBelow":2}`, wantErr: "failBelow: needs key"},
		"too small":    {args: `{"key":"label:a","failBelow":0}`, wantErr: "failBelow: 0 is less than 1"},
		"unknown name": {args: `{"by":"label:a"}`, wantErr: `unknown field "by"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := lifecycle.NewResilience(t.Context(), json.RawMessage(tc.args), nil)
			if got := fmt.Sprint(err); tc.wantErr == "" && err != nil || !strings.Contains(got, tc.wantErr) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
		})
	}
}

// TestResilient decides Placements of four clusters, two in eu and one each in us and ap.
func TestResilient(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason, message string) *simulator.Condition {
		return &simulator.Condition{Type: v1alpha1.PlacementConditionResilient, Status: status, Reason: reason, Message: message}
	}
	const key = `{"key":"label:region"}`
	tests := map[string]struct {
		args      string
		placement fixture.PlacementBuilder
		regions   int // more regions with one cluster each
		want      *simulator.Condition
	}{
		"off": {`{}`, ask().Number(1), 0, nil},
		"can lose each": {key, ask().Number(2), 0,
			condition("True", v1alpha1.ReasonDomainsCanBeLost, "3 of 3 domains of label region can be lost; weakest is eu: 2 of 2 clusters lost, 2 replaced")},
		"cannot lose one": {key, ask().Number(3), 0,
			condition("False", v1alpha1.ReasonDomainsCritical, "2 of 3 domains of label region can be lost; not eu: 1 of 3 clusters would be missing (the cluster sets have no others)")},
		"needs to survive one": {`{"key":"label:region","failBelow":1}`, ask().Number(3), 0,
			condition("True", v1alpha1.ReasonDomainsCanBeLost, "2 of 3 domains of label region can be lost; not eu: 1 of 3 clusters would be missing (the cluster sets have no others)")},
		"needs more domains than there are": {`{"key":"label:region","failBelow":4}`, ask().Number(1), 0,
			condition("False", v1alpha1.ReasonDomainsCritical, "3 of 3 domains of label region can be lost; weakest is eu: 1 of 1 clusters lost, 1 replaced")},
		"filters exclude others": {key, ask().Number(2).Predicate(fixture.MatchLabel("region", "eu")), 0,
			condition("False", v1alpha1.ReasonDomainsCritical, "2 of 3 domains of label region can be lost; not eu: 2 of 2 clusters would be missing (Predicate excludes 2)")},
		"a hard spread": {key, ask().Number(4).Spread("region", 1, v1alpha1.DoNotSchedule), 0,
			condition("False", v1alpha1.ReasonDomainsCritical, "0 of 3 domains of label region can be lost; not eu: 2 of 4 clusters would be missing (the cluster sets have no others); 2 others cannot be lost either")},
		"all clusters": {key, ask(), 0,
			condition("True", v1alpha1.ReasonDomainsCanBeLost, "3 of 3 domains of label region can be lost; weakest is eu: 2 of 4 clusters lost, 0 replaced")},
		"not satisfied": {key, ask().Number(9), 0,
			condition("False", v1alpha1.ReasonNotSatisfied, "not satisfied before a loss: 5 cluster decisions unscheduled")},
		"misconfigured": {key, ask().Predicate(fixture.MatchLabelExpression("a", "Near")), 0, nil},
		"no domain":     {`{"key":"claim:zone"}`, ask().Number(1), 0, condition("Unknown", v1alpha1.ReasonNoDomains, "no cluster that it may use has the claim zone")},
		"too many":      {key, ask().Number(1), 100, condition("Unknown", v1alpha1.ReasonTooManyDomains, "103 domains of label:region; at most 100 are tried: kubectl placement resilience tries all")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects := simulator.Objects{fixture.Set("s"), fixture.Binding("n", "s"), tc.placement.Obj()}
			regions := []string{"eu", "eu", "us", "ap"}
			for i := range tc.regions {
				regions = append(regions, fmt.Sprintf("x%03d", i))
			}
			for i, region := range regions {
				objects = append(objects, fixture.Cluster(fmt.Sprintf("c%03d", i)).Set("s").Label("region", region).Obj())
			}
			configuration, err := config.Load([]byte(`{"apiVersion":"config.berth.dev/v1alpha1","kind":"PlacementSchedulerConfiguration","profiles":[{"pluginConfig":[{"name":"Resilience","args":` + tc.args + `}]}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s, err := simulator.New(t.Context(), objects, fixture.Now, simulator.Options{Config: configuration})
			if err != nil {
				t.Fatal(err)
			}
			report, err := s.Outline(t.Context(), s.Placements()[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, report.Conditions.Get(v1alpha1.PlacementConditionResilient)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestLossWithoutDecision: if nothing is decided without a domain, the other clusters stay.
func TestLossWithoutDecision(t *testing.T) {
	lost, had := framework.Bitset(nil).Set(1), framework.Bitset(nil).Set(0).Set(1)
	got := lifecycle.LossOf(resilience.Domain{Name: "eu"}, lost, had, &framework.Selected{Why: "the policy is invalid"})
	if diff := cmp.Diff(resilience.Loss{Domain: "eu", Lost: 1, Missing: 1, Why: "the policy is invalid"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func ask() fixture.PlacementBuilder { return fixture.Placement("n", "p") }
