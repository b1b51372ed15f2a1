package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/berth-dev/berth/config/crd"
)

// controller is the command to run it beside whatever else runs on this machine.
var controller = []string{"berth-cheapest", "controller", "--leader-elect=false", "--health-probe-bind-address=0"}

// TestController runs the controller against a real API server, without the plugin and with it.
func TestController(t *testing.T) {
	os.Getenv("BERTH_INPUTS") // makes it part of what go test's cache knows this run by
	setPath(t)
	run(t, step{command: "go build -o ../../bin/berth-cheapest ."})
	kubeconfig := startHub(t)
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, file := range []string{"fleet.yaml", "placement.yaml"} {
		kubectl(t, step{command: "kubectl apply --server-side -f " + file})
	}
	for _, tc := range []struct{ config, want string }{
		{"", "amsterdam berlin\n"},
		{"config.yaml", "berlin cairo\n"},
	} {
		stop := start(t, "Starting", append(controller, "--kubeconfig", kubeconfig, "--config", tc.config)...)
		kubectl(t, step{`kubectl get placementdecision checkout-decision-1 -n shop -o jsonpath='{.status.decisions[*].clusterName}{"\n"}'`, tc.want})
		stop()
	}
}

func TestControllerRefuses(t *testing.T) {
	setPath(t)
	run(t, step{command: "go build -o ../../bin/berth-cheapest ."})
	tests := map[string]struct{ profile, want string }{
		"a plugin that is not there": {
			`{plugins: {score: {enabled: [{name: DearestFirst}]}}}`,
			`plugins.score.enabled[0].name: Unsupported value: "DearestFirst"`,
		},
		"a point that the plugin has not": {
			`{plugins: {filter: {enabled: [{name: CheapestFirst}]}}}`,
			`plugins.filter.enabled[0].name: Invalid value: "CheapestFirst"`,
		},
		"an argument that is not there": {
			`{plugins: {score: {enabled: [{name: CheapestFirst}]}}, pluginConfig: [{name: CheapestFirst, args: {lable: cost}}]}`,
			`pluginConfig[0].args: decoding arguments: unknown field "lable"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config.yaml")
			text := "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\nprofiles: [" + tc.profile + "]\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "berth-cheapest", "controller", "--kubeconfig", "nowhere", "--config", config)
			said, err := command.CombinedOutput()
			want := "berth: " + config + ": profiles[0]." + tc.want
			if command.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(said), want) || strings.Count(string(said), "\n") != 1 {
				t.Errorf("ended with %v and said\n%s\nwant exit code 1 and one line that begins with\n%s", err, said, want)
			}
		})
	}
}

// startHub returns the kubeconfig of an API server with Berth's CRDs, which stops with the test.
func startHub(t *testing.T) string {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = "../../bin/hub"
	}
	crds, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: crds}
	if _, err := environment.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}
