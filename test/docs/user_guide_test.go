package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/cmd/berth/app"
)

// fleetOfOne has what a Placement of the namespace shop may choose from.
const fleetOfOne = `---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: all}
spec: {}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: all, namespace: shop}
spec: {clusterSet: all}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1, labels: {cluster.open-cluster-management.io/clusterset: all}}
spec: {}
`

// TestUserGuideExamples decides a Placement with each example of docs/user-guide.md: none may be
// refused, or misconfigured.
func TestUserGuideExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "user-guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for block := range strings.SplitSeq(string(page), "\n\n") {
		if !strings.HasPrefix(block, "    ") {
			continue
		}
		examples++
		text := strings.ReplaceAll("\n"+block, "\n    ", "\n")
		spec := "  numberOfClusters: 1\n"
		if !strings.HasPrefix(text, "\napiVersion: ") {
			text, spec = "", strings.ReplaceAll("\n"+block, "\n    ", "\n  ")
		}
		placement := "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {name: p, namespace: shop}\nspec:\n" + spec
		var out bytes.Buffer
		command := app.NewCommand()
		command.SetArgs([]string{"simulate", "-f", "-"})
		command.SetIn(strings.NewReader(placement + "\n" + fleetOfOne + "---" + text + "\n"))
		command.SetOut(&out)
		if err := command.Execute(); err != nil || strings.Contains(out.String(), "PlacementMisconfigured") {
			t.Errorf("%v %s of:\n%s", err, out.String(), block)
		}
	}
	if examples < 6 {
		t.Errorf("only %d examples found", examples)
	}
}
