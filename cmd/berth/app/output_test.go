package app

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOutputs: -o has the templates and names of kubectl, and refuses mistakes before the hub is
// asked.
func TestOutputs(t *testing.T) {
	type entry map[string]any
	placements := entry{"placements": []entry{{"placement": "shop/web", "clusters": 2}, {"placement": "shop/db", "states": []string{"Held"}}}}
	for format, tc := range map[string]struct {
		object any
		want   string
	}{
		"name":                   {placements, "placement.cluster.open-cluster-management.io/web\nplacement.cluster.open-cluster-management.io/db\n"},
		"jsonpath={..placement}": {placements, "shop/web shop/db"},
		"custom-columns=P:.placement,N:.clusters,S:.states[0]": {placements, "P          N        S\nshop/web   2        <none>\nshop/db    <none>   Held\n"},
	} {
		var out bytes.Buffer
		if err := errors.Join(checkOutput(format), printObject(&out, format, tc.object)); err != nil || out.String() != tc.want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", format, err, &out, tc.want)
		}
	}
	for object, want := range map[*entry]string{
		{"placement": "shop/web", "changes": []entry{{"placement": "shop/web", "revision": 3}}}: "placementchange.berth.dev/web-3\n",
		{"clusters": []entry{{"name": "c1"}}}:                                                   "managedcluster.cluster.open-cluster-management.io/c1\n",
	} {
		var out bytes.Buffer
		if err := printObject(&out, "name", object); err != nil || out.String() != want {
			t.Errorf("%v, got %s, want %s", err, &out, want)
		}
	}
	for format, want := range map[string]string{
		"xml": `-o: "xml" is not one of table, wide, json, yaml, name, `, "jsonpath={": "-o: error parsing jsonpath {, ", "go-template={{": `-o: "go-template={{" is not one of table, wide, `,
		"custom-columns=a": `-o: "a" is no column such as PLACEMENT:.placement`, "custom-columns=a:b[": `-o: column "a:b[": `,
	} {
		usage := (*usageError)(nil)
		if err := checkOutput(format); !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", format, err, want)
		}
	}
}

// TestHubFlags: kubectl's flags change the connection, and without any configuration the error says
// what to set.
func TestHubFlags(t *testing.T) {
	hub := serveHub(t, []client.Object{})
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	hub.kubeconfig = ""
	for line, want := range map[string]string{
		"top":                        "finding the hub: no configuration in ",
		"top --server " + hub.server: "",
		"top --certificate-authority none --server https://localhost:1": "unable to read certificate-authority none",
	} {
		_, stderr, code := hub.run(strings.Fields(line)...)
		if !strings.Contains(stderr, want) || (code == exitOK) != (want == "") {
			t.Errorf("%s: exit code %d, %s, want %s", line, code, stderr, want)
		}
	}
}
