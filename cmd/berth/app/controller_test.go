package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// TestLogIsComplete: the log has a line for each decision, however many are made at once.
func TestLogIsComplete(t *testing.T) {
	const many = 500
	var out bytes.Buffer
	log := newLog(&out, logOptions{})
	for range many {
		log.Info("decision published", "placement", types.NamespacedName{Namespace: "n", Name: "p"})
	}
	log.V(1).Info("not logged")
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != many {
		t.Fatalf("of %d lines %d are there", many, len(lines))
	}
	var line map[string]any
	if err := json.Unmarshal(lines[0], &line); err != nil {
		t.Fatal(err)
	}
	placement, ok := line["placement"].(map[string]any)
	if !ok || line["level"] != "info" || line["msg"] != "decision published" || !strings.HasPrefix(fmt.Sprint(line["caller"]), "app/controller_test.go:") || placement["name"] != "p" {
		t.Errorf("a line is %v", line)
	}
	out.Reset()
	log.Error(errors.New("failed"), "publishing")
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["error"] != "failed" || line["stacktrace"] == nil {
		t.Errorf("an error is %v: %v", line, err)
	}
}

func TestLogOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		options      logOptions
		wantMessages []string
		wantError    string
	}{
		"debug":         {logOptions{"debug", "text"}, []string{"details", "progress", "failure"}, ""},
		"info":          {logOptions{"info", "text"}, []string{"progress", "failure"}, ""},
		"error":         {logOptions{"error", "text"}, []string{"failure"}, ""},
		"unknown level": {logOptions{"warn", "text"}, nil, `--log-level: "warn" must be debug, info or error`},
		"no level":      {logOptions{"", "text"}, nil, `--log-level: "" must be debug, info or error`},
		"other format":  {logOptions{"info", "xml"}, nil, `--log-format: "xml" must be json or text`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.options.check(); err != nil || tc.wantError != "" {
				if err == nil || err.Error() != tc.wantError {
					t.Errorf("the error is %v, want %q", err, tc.wantError)
				}
				return
			}
			var out bytes.Buffer
			log := newLog(&out, tc.options)
			log.V(1).Info("details")
			log.Info("progress")
			log.Error(errors.New("cause"), "failure")
			for _, message := range []string{"details", "progress", "failure"} {
				if got, want := strings.Contains(out.String(), "\t"+message), slices.Contains(tc.wantMessages, message); got != want {
					t.Errorf("%q is in the log: %t, want %t:\n%s", message, got, want, out.String())
				}
			}
		})
	}
}

// TestLogOfStop: a stop of the leader is no error, and no other error is dropped.
func TestLogOfStop(t *testing.T) {
	const atStop = "error received after stop sequence was engaged"
	var out bytes.Buffer
	log := newLog(&out, logOptions{}).WithValues("controller", "c")
	log.Error(errors.New("leader election lost"), atStop)
	if out.Len() > 0 {
		t.Errorf("the release of the lease is logged: %s", out.String())
	}
	log.Error(errors.New("another"), atStop)
	log.Error(errors.New("leader election lost"), "another")
	if lines := strings.Count(out.String(), "\n"); lines != 2 {
		t.Errorf("%d of 2 errors are logged: %s", lines, out.String())
	}
}

func TestHubURLHasNoCredentials(t *testing.T) {
	for host, want := range map[string]string{
		"https://user:secret@hub.example.com:6443/path?token=secret": "https://hub.example.com:6443/path",
		"127.0.0.1:8080":        "http://127.0.0.1:8080",
		"https://user:secret@[": "invalid",
	} {
		if got := hubURL(&rest.Config{Host: host}); got != want {
			t.Errorf("hubURL(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestControllerFlags(t *testing.T) {
	for arguments, want := range map[string]string{
		"--workers=0":                                        `--workers: 0 must be at least 1`,
		"--webhook-client-ca-file=ca.crt":                    `--webhook-client-ca-file requires --webhook-cert-dir`,
		"--tls-min-version=1.3":                              `--tls-min-version: "1.3" must be VersionTLS12 or VersionTLS13`,
		"--cluster-profile-names=":                           `--cluster-profile-names: "" must be plain or qualified`,
		"--cluster-profile-names=Plain":                      `--cluster-profile-names: "Plain" must be plain or qualified`,
		"--cluster-profile-names=qualified --log-level=none": `--log-level: "none" must be debug, info or error`,
	} {
		command := newControllerCommand(nil)
		command.SetArgs(strings.Fields(arguments))
		command.SilenceUsage, command.SilenceErrors = true, true
		if err := command.ExecuteContext(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", arguments, err, want)
		}
	}
}
