package flux

import (
	"archive/zip"
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// The Flux Operator cannot be a requirement of go.mod, because it needs a newer Go than Berth. Its
// CRDs are read from the module's archive, whose checksum is this one.
const (
	operator        = "github.com/controlplaneio-fluxcd/flux-operator"
	operatorVersion = "v0.59.0"
	operatorSum     = "h1:jByuiWYtjSJxucGHuz68tV0DeVFz5CYrKQYfxAwE7lE="
)

// operatorFiles returns files of the Flux Operator by their path.
func operatorFiles(t *testing.T, paths ...string) map[string]string {
	t.Helper()
	// The exit code is not 0 if Go is too old to build it.
	out, _ := exec.Command("go", "mod", "download", "-json", operator+"@"+operatorVersion).Output()
	module := struct{ Zip, Sum, Error string }{}
	if err := json.Unmarshal(out, &module); err != nil || module.Sum != operatorSum {
		t.Fatalf("the Flux Operator's archive: %v: %s", err, out)
	}
	archive, err := zip.OpenReader(module.Zip)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string]string{}
	for _, path := range paths {
		file, err := archive.Open(operator + "@" + operatorVersion + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(text)
	}
	return files
}

// policyCRD is KubeVela's kind, without its schema.
const policyCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: policies.core.oam.dev}
spec:
  group: core.oam.dev
  names: {kind: Policy, plural: policies, singular: policy, listKind: PolicyList}
  scope: Namespaced
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

const webPlacement = `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: apps}
spec: {numberOfClusters: 2}
`

// generatorURL runs `berth generator` until the test ends, and returns its URL.
func (h *hub) generatorURL(t *testing.T) string {
	t.Helper()
	command := exec.Command(strings.TrimSpace(h.run(t, "command -v berth")), "generator", "--address", "127.0.0.1:0")
	command.Env, command.Stderr = h.env, os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			t.Errorf("berth generator: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(line)[2]
}

// TestConsumers runs the recipes of docs/consumers.md.
func TestConsumers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "consumers.md"))
	if err != nil {
		t.Fatal(err)
	}
	crds := operatorFiles(t, "config/crd/bases/fluxcd.controlplane.io_resourcesetinputproviders.yaml", "config/crd/bases/fluxcd.controlplane.io_resourcesets.yaml")
	h := up(t)
	var commands []string
	for _, block := range regexp.MustCompile("(?ms)^```(yaml|sh)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if block[1] == "sh" {
			commands = append(commands, block[2])
			continue
		}
		first, rest, _ := strings.Cut(block[2], "\n")
		h.save(t, strings.TrimPrefix(first, "# "), rest)
	}
	if len(commands) != 4 {
		t.Fatalf("the page has %d commands", len(commands))
	}
	h.save(t, "fleet.yaml", fleet)
	h.save(t, "web.yaml", webPlacement)
	h.save(t, "policies.yaml", policyCRD)
	for path, text := range crds {
		name := filepath.Base(path)
		h.save(t, name, text)
		h.run(t, "kubectl apply --server-side -f "+name)
	}
	h.run(t, "kubectl apply -f policies.yaml && kubectl wait --for=condition=Established crd --all")
	h.run(t, "kubectl apply -f fleet.yaml && kubectl apply -f web.yaml")
	h.decides(t, "paris1 paris2")

	if got := h.run(t, commands[0]); got != "paris1\nparis2\n" {
		t.Errorf("the names are %q", got)
	}
	h.run(t, commands[1])
	h.decides(t, "paris1 paris2 rome1")

	h.run(t, commands[3])
	if got := h.run(t, "kubectl get policies -n apps web -o jsonpath='{.type} {.properties.clusters}'"); got != `topology ["paris1","paris2","rome1"]` {
		t.Errorf("the policy is %q", got)
	}
	if out, err := h.try(strings.Replace(commands[3], "placement=web", "placement=nosuch", 1)); err == nil {
		t.Errorf("without a decision, the command prints %q", out)
	}

	t.Run("Flux Operator", func(t *testing.T) { followWithFlux(t, h) })
}

// save writes a file for commands.
func (h *hub) save(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// followWithFlux does what the Flux Operator does with the recipe, in the words of its CRDs.
func followWithFlux(t *testing.T, h *hub) {
	h.run(t, "kubectl apply -f reader.yaml && kubectl apply -f resourceset.yaml")
	// This hub has no controller that fills Secrets with tokens.
	h.run(t, `kubectl patch secret decision-reader -n apps --type=merge -p "{\"stringData\":{\"token\":\"$(kubectl create token decision-reader -n apps)\"}}"`)
	base := h.generatorURL(t)

	sync := func(want ...string) {
		t.Helper()
		var inputs []map[string]any
		var problem error
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
			if inputs, problem = h.inputs(t, base); problem == nil && slices.Equal(namesOf(inputs), want) {
				break
			}
		}
		if problem != nil || !slices.Equal(namesOf(inputs), want) {
			t.Fatalf("the inputs are %v, error %v, want %v", namesOf(inputs), problem, want)
		}
		status, err := json.Marshal(map[string]any{"status": map[string]any{"exportedInputs": inputs}})
		if err != nil {
			t.Fatal(err)
		}
		h.save(t, "status.json", string(status))
		h.run(t, "kubectl patch resourcesetinputprovider web -n apps --subresource=status --type=merge --patch-file=status.json")
		// JSON has < and > as \u003c and \u003e.
		template := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(h.run(t, "kubectl get resourceset web -n apps -o jsonpath='{.spec.resources[0]}'"))
		var rendered []string
		for _, name := range strings.Fields(h.run(t, "kubectl get resourcesetinputprovider web -n apps -o jsonpath='{.status.exportedInputs[*].name}'")) {
			rendered = append(rendered, strings.ReplaceAll(template, "<< inputs.name >>", name))
		}
		h.save(t, "rendered.yaml", strings.Join(rendered, "\n---\n"))
		h.run(t, "kubectl delete kustomizations -n apps --all && kubectl apply -f rendered.yaml")
		h.has(t, want...)
	}
	sync("paris1", "paris2", "rome1")
	h.run(t, `kubectl patch placement web -n apps --type=merge -p '{"spec":{"numberOfClusters":1}}'`)
	sync("paris1")

	h.run(t, `kubectl delete placement web -n apps`)
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		if _, err := h.inputs(t, base); err != nil && err.Error() == "HTTP 404" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a deleted Placement has inputs")
		}
	}
	// The limits that the page and the server have from the operator.
	source := operatorFiles(t, "internal/controller/resourcesetinputprovider_controller.go", "docs/api/v1/resourcesetinputprovider.md")
	for path, text := range map[string]string{
		"internal/controller/resourcesetinputprovider_controller.go": "maxExternalServicePayloadSize = 900 * 1024",
		"docs/api/v1/resourcesetinputprovider.md":                    "limit the number of input values fetched (default is 100, maximum is 10,000)",
	} {
		if !strings.Contains(source[path], text) {
			t.Errorf("%s of the Flux Operator has no %q", path, text)
		}
	}
}

func namesOf(inputs []map[string]any) []string {
	names := []string{}
	for _, input := range inputs {
		names = append(names, fmt.Sprint(input["name"]))
	}
	return names
}

// inputs reads the inputs as the Flux Operator does: with the URL of the provider, whose host is
// that of base here, and the token of its Secret. It demands what the operator demands.
func (h *hub) inputs(t *testing.T, base string) ([]map[string]any, error) {
	t.Helper()
	url := h.run(t, "kubectl get resourcesetinputprovider web -n apps -o jsonpath='{.spec.url}'")
	path, ok := strings.CutPrefix(url, "http://berth-generator.berth-system.svc")
	if !ok {
		t.Fatalf("the URL is %s", url)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	token := h.run(t, `kubectl get secret -n apps "$(kubectl get resourcesetinputprovider web -n apps -o jsonpath='{.spec.secretRef.name}')" -o jsonpath='{.data.token}' | base64 -d`)
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, 900*1024))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("HTTP %d", response.StatusCode)
	}
	var answer struct {
		Inputs []map[string]any `json:"inputs"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Inputs == nil {
		t.Fatalf("the answer is %s: %v", body, err)
	}
	seen := map[string]bool{}
	for _, input := range answer.Inputs {
		id, ok := input["id"].(string)
		if !ok || seen[id] {
			t.Fatalf("the answer is %s", body)
		}
		seen[id] = true
	}
	return answer.Inputs, nil
}
