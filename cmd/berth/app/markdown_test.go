package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdownText(t *testing.T) {
	for text, want := range map[string]string{
		"paris1 paris2 … 3 more":   "paris1 paris2 … 3 more",
		"PlacementSatisfied=False": "PlacementSatisfied=False",
		"@everyone":                "`@everyone`",
		"[a](b)":                   "`[a](b)`",
		"a|b":                      "`a\\|b`",
		"a`b":                      "`` a`b ``",
		"</table><script>":         "`</table><script>`",
		"see http://example.com":   "`see http://example.com`",
		"see www.example.com":      "`see www.example.com`",
		"a\nb":                     "`a\\u000ab`",
		"":                         "",
	} {
		if got := markdownText(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

const ciFleet = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: eu}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: eu, namespace: shop}
spec: {clusterSet: eu}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: paris1, labels: {cluster.open-cluster-management.io/clusterset: eu}}
---
`

// TestSimulateResults: -o markdown has a line for each Placement, and the exit code is 4 if one is
// misconfigured.
func TestSimulateResults(t *testing.T) {
	placement := func(name, spec string) string {
		return "---\napiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {namespace: shop, name: " + name + "}\nspec: {" + spec + "}\n"
	}
	fine, short := placement("fine", ""), placement("short", "numberOfClusters: 2")
	wrong := placement("wrong", "predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ['1']}}}]")
	heading := "### Placements decided\n\n| NAMESPACE | PLACEMENT | SELECTED | CANDIDATES | SATISFIED | REASON | MESSAGE | CLUSTERS |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
	for name, tc := range map[string]struct {
		placements, want string
		wantCode         int
		wantErr          string
	}{
		"satisfied and short": {fine + short, heading +
			"| shop | fine | 1 | 1 | True | AllDecisionsScheduled | All cluster decisions scheduled | paris1 |\n" +
			"| shop | short | 1 | 1 | False | NotAllDecisionsScheduled | 1 cluster decisions unscheduled | paris1 |\n" +
			"\n2 Placements decided, 1 satisfied, 0 misconfigured.\n", exitOK, ""},
		"misconfigured": {fine + wrong, "2 Placements decided, 1 satisfied, 1 misconfigured.\n", exitMisconfigured,
			"berth: standard input: Placement shop/wrong: spec.predicates[0].requiredClusterSelector.celSelector.celExpressions[0]: Invalid value: "},
		"none":   {"", "", exitFailure, "berth: nothing to decide: the input has no Placement\n"},
		"others": {"---\napiVersion: v1\nkind: Service\n" + fine, "1 Placement decided, 1 satisfied, 0 misconfigured.\n", exitOK, "not read: 1 Service\n"},
	} {
		t.Run(name, func(t *testing.T) {
			root := NewCommand()
			var out, stderr bytes.Buffer
			root.SetOut(&out)
			root.SetErr(&stderr)
			root.SetIn(strings.NewReader(ciFleet + tc.placements))
			code := Run(root, []string{"simulate", "-f", "-", "-o", "markdown"})
			if code != tc.wantCode || !strings.HasPrefix(stderr.String(), tc.wantErr) || tc.wantErr == "" && stderr.Len() > 0 {
				t.Errorf("exit code %d, want %d; %s", code, tc.wantCode, stderr.String())
			}
			if got := out.String(); !strings.HasSuffix(got, tc.want) {
				t.Error(cmp.Diff(tc.want, got))
			}
		})
	}
	scenarios := filepath.Join(t.TempDir(), "scenarios.json")
	if err := os.WriteFile(scenarios, []byte(`{"format": 1, "scenarios": [{"id": "s", "steps": []}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	root := NewCommand()
	root.SetErr(&bytes.Buffer{})
	if code := Run(root, []string{"simulate", "-f", scenarios, "-o", "markdown"}); code != exitUsage {
		t.Errorf("the exit code for scenarios is %d", code)
	}
}
