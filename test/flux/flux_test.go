package flux

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const root = "../.."

// patience is how long anything may take on a busy machine.
const patience = 2 * time.Minute

// fleet has three clusters for the Placement of the page.
const fleet = `
apiVersion: v1
kind: Namespace
metadata: {name: apps}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: eu}
spec: {}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: eu, namespace: apps}
spec: {clusterSet: eu}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: paris1, labels: {cluster.open-cluster-management.io/clusterset: eu}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: paris2, labels: {cluster.open-cluster-management.io/clusterset: eu}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: rome1, labels: {cluster.open-cluster-management.io/clusterset: eu}}
spec: {hubAcceptsClient: true}
`

// hub runs shell commands in a folder with the files of the page.
type hub struct {
	dir string
	env []string
}

// up starts `berth up` and installs Flux's Kustomization.
func up(t *testing.T) *hub {
	t.Helper()
	os.Getenv("BERTH_INPUTS") // makes it part of what go test's cache knows this run by
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	berth := os.Getenv("BERTH_BIN")
	if berth == "" {
		berth = filepath.Join(bin, "berth")
	}
	h := &hub{dir: t.TempDir()}
	path := strings.Join([]string{filepath.Dir(berth), os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(bin, "hub"), os.Getenv("PATH")}, string(os.PathListSeparator))
	data := filepath.Join(h.dir, "data")
	h.env = append(os.Environ(), "KUBECONFIG="+filepath.Join(data, "kubeconfig"), "PATH="+path)
	command := exec.Command(berth, "up", "--data-dir", data)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("make build builds it: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := command.Wait(); err != nil {
			t.Errorf("berth up: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Try in another terminal") {
	}
	go func() {
		for lines.Scan() { // so that it never waits for its reader
		}
	}()
	h.run(t, "kubectl apply --server-side -f "+crd(t)+" && kubectl wait --for=condition=Established crd/kustomizations.kustomize.toolkit.fluxcd.io")
	return h
}

// crd returns the file of the Kustomization's CRD.
func crd(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", "github.com/fluxcd/kustomize-controller").Output()
	if err != nil {
		t.Fatalf("go mod download: %v: %s", err, out)
	}
	module := struct{ Dir string }{}
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(module.Dir, "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml")
}

// try runs a shell command; run fails the test if the command fails.
func (h *hub) try(text string) (string, error) {
	command := exec.Command("bash", "-o", "pipefail", "-c", text)
	command.Dir, command.Env = h.dir, h.env
	out, err := command.CombinedOutput()
	return string(out), err
}

func (h *hub) run(t *testing.T, text string) string {
	t.Helper()
	out, err := h.try(text)
	if err != nil {
		t.Fatalf("%s: %v: %s", text, err, out)
	}
	return out
}

// decides waits until the Placement has these clusters.
func (h *hub) decides(t *testing.T, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		got, _ = h.try(`kubectl get placementdecisions -n apps -o jsonpath='{.items[*].status.decisions[*].clusterName}'`)
		if got == want {
			return
		}
	}
	t.Fatalf("the clusters are %q, want %q", got, want)
}

// has demands the Kustomizations of these clusters.
func (h *hub) has(t *testing.T, want ...string) {
	t.Helper()
	names := strings.Fields(h.run(t, `kubectl get kustomizations -n apps -o jsonpath='{.items[*].spec.kubeConfig.secretRef.name}'`))
	slices.Sort(names)
	for i := range want {
		want[i] += "-kubeconfig"
	}
	if !slices.Equal(names, want) {
		t.Errorf("the Kustomizations use %v, want %v", names, want)
	}
}

// TestFlux runs the recipe of docs/consumers.md for Flux while the decision changes.
func TestFlux(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "consumers.md"))
	if err != nil {
		t.Fatal(err)
	}
	h := up(t)
	_, section, _ := strings.Cut(string(page), "\n## Flux\n")
	section, _, _ = strings.Cut(section, "\n## ")
	command := ""
	for _, block := range regexp.MustCompile("(?ms)^```(yaml|sh)\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		if block[1] == "sh" {
			command = block[2]
			continue
		}
		first, rest, _ := strings.Cut(block[2], "\n")
		h.save(t, strings.TrimPrefix(first, "# "), rest)
	}
	h.save(t, "fleet.yaml", fleet)
	h.save(t, "placement.yaml", webPlacement)
	h.run(t, "kubectl apply -f fleet.yaml && kubectl apply -f placement.yaml")
	h.decides(t, "paris1 paris2")
	h.run(t, command)
	h.has(t, "paris1", "paris2")

	h.run(t, `kubectl patch managedcluster paris1 --type=merge -p '{"spec":{"taints":[{"key":"maintenance","effect":"NoSelect"}]}}'`)
	h.decides(t, "paris2 rome1")
	h.run(t, command)
	h.has(t, "paris2", "rome1")

	h.run(t, `kubectl patch placement web -n apps --type=merge -p '{"spec":{"numberOfClusters":0}}'`)
	h.decides(t, "")
	if out, err := h.try(command); err == nil || !strings.Contains(out, "no objects passed to apply") {
		t.Errorf("with an empty decision the command prints %q, error %v", out, err)
	}
	h.has(t, "paris2", "rome1")
}
