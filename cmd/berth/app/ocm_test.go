package app

import (
	"bytes"
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOCMFlags: the flags of Open Cluster Management's placement controller are accepted, and those
// with a counterpart in Berth set it.
func TestOCMFlags(t *testing.T) {
	for arguments, want := range map[string]map[string]string{
		"": {
			"leader-elect": "true", "leader-election-lease": "placement-lock", "housekeeping": "[]", "metrics-secure": "true",
			"metrics-bind-address": ":8443", "health-probe-bind-address": ":8443", "install-crds": "false",
		},
		"--kubeconfig=/hub/kubeconfig --namespace ocm":                        {"kubeconfig": "/hub/kubeconfig", "leader-election-namespace": "ocm"},
		"--listen=127.0.0.1:9443":                                             {"metrics-bind-address": "127.0.0.1:9443", "health-probe-bind-address": "127.0.0.1:9443", "metrics-secure": "true"},
		"--disable-leader-election":                                           {"leader-elect": "false"},
		"--disable-leader-election=false":                                     {"leader-elect": "true"},
		"--tls-min-version=VersionTLS13 --tls-cipher-suites=A,B":              {"tls-min-version": "VersionTLS13", "tls-cipher-suites": "[A,B]"},
		"--kube-api-qps=50 --kube-api-burst 100 -v=4 --vmodule=a=1":           {"workers": "16"},
		"--leader-election-lease-duration=137s --terminate-on-files=a":        {"leader-elect": "true"},
		"--leader-election-renew-deadline=1m --leader-election-retry-period=": {"leader-elect": "true"},
		"--log-flush-frequency=5s --workers=2":                                {"workers": "2"},
	} {
		cmd, out := newOCMControllerCommand(nil), bytes.Buffer{}
		cmd.SetErr(&out)
		if err := cmd.ParseFlags(strings.Fields(arguments)); err != nil {
			t.Errorf("%s: %v", arguments, err)
			continue
		}
		got := map[string]string{}
		for name := range want {
			got[name] = cmd.Flags().Lookup(name).Value.String()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", arguments, diff)
		}
		for _, name := range ocmWithoutEffect {
			if used := cmd.Flags().Lookup(name).Changed; used != strings.Contains(out.String(), "--"+name+" has no effect") {
				t.Errorf("%s: --%s: the output is %q", arguments, name, out.String())
			}
		}
	}
	if err := newOCMControllerCommand(nil).ParseFlags([]string{"--disable-leader-election=maybe"}); err == nil {
		t.Error("a value that is not boolean is accepted")
	}
}

// TestOCMArguments: the image's entrypoint gets the arguments of Open Cluster Management's
// manifests.
func TestOCMArguments(t *testing.T) {
	cmd, rest, err := NewCommand().Find([]string{"/placement", "controller", "--kubeconfig=k"})
	if err != nil || cmd.CommandPath() != "berth placement controller" || !slices.Equal(rest, []string{"--kubeconfig=k"}) {
		t.Errorf("got %v with %q, %v", cmd.CommandPath(), rest, err)
	}
}

func TestTLSOptions(t *testing.T) {
	var out bytes.Buffer
	o := tlsOptions{minVersion: "VersionTLS13", cipherSuites: []string{
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", " TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_RC4_128_SHA", "DHE-RSA-AES128-GCM-SHA256",
	}}
	config := &tls.Config{}
	o.configure(&out)(config)
	if want := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}; config.MinVersion != tls.VersionTLS13 || !slices.Equal(config.CipherSuites, want) {
		t.Errorf("the configuration has %x and %x", config.MinVersion, config.CipherSuites)
	}
	for _, name := range o.cipherSuites[2:] {
		if !strings.Contains(out.String(), "--tls-cipher-suites: "+name+" is not used") {
			t.Errorf("%s is missing in %q", name, out.String())
		}
	}
}
