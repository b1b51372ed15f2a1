package app

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/test/fixture"
)

func TestAddedLabels(t *testing.T) {
	for text, want := range map[string]string{
		"region=eu": "", "region=": "", "example.com/a=b": "",
		"region":   `--label: "region" is no label such as region=eu-west-1`,
		"a b=c":    `--label: "a b=c" is no label such as region=eu-west-1: name part must`,
		"region=?": `--label: "region=?" is no label such as region=eu-west-1: a valid label must`,
		"cluster.open-cluster-management.io/clusterset=eu": "--label: cluster.open-cluster-management.io/clusterset is set by --set",
	} {
		o := addClusterOptions{labels: []string{text}}
		err := o.parseLabels()
		if (err != nil) != (want != "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestUsersOfAddedCluster: the command names the Placements that use the set of the new cluster.
func TestUsersOfAddedCluster(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects([]client.Object{
		fixture.Binding("shop", "eu"), fixture.Binding("ads", "us"), fixture.Binding("ads", "default"),
		fixture.Placement("shop", "web").Obj(), fixture.Placement("shop", "eu").Sets("eu", "us").Obj(), fixture.Placement("shop", "us").Sets("us").Obj(),
		fixture.Placement("ads", "web").Sets("us").Obj(),
	}...).Build()
	for set, want := range map[string]string{
		"eu": "Placements that use the set eu, and select the cluster if it qualifies: 2: shop/eu shop/web\n",
		"":   "No Placement uses the set default.\n",
	} {
		var out strings.Builder
		o := addClusterOptions{}
		o.adds.Set = set
		o.sayUsers(t.Context(), hub, &out)
		if diff := gocmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", set, diff)
		}
	}
}
