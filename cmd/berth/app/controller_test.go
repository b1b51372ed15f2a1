package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestLogLeavesNothingOut: the log has a line for each decision, however many are made at once.
func TestLogLeavesNothingOut(t *testing.T) {
	const many = 500
	var out bytes.Buffer
	log := newLog(&out)
	for range many {
		log.Info("decision published", "placement", types.NamespacedName{Namespace: "n", Name: "p"})
	}
	log.V(1).Info("not told")
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != many {
		t.Fatalf("of %d lines %d are there", many, len(lines))
	}
	var line map[string]any
	if err := json.Unmarshal(lines[0], &line); err != nil {
		t.Fatal(err)
	}
	placement, ok := line["placement"].(map[string]any)
	if !ok || line["level"] != "info" || line["msg"] != "decision published" || placement["name"] != "p" {
		t.Errorf("a line is %v", line)
	}
	out.Reset()
	log.Error(errors.New("failed"), "publishing")
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["error"] != "failed" || line["stacktrace"] == nil {
		t.Errorf("an error is %v: %v", line, err)
	}
}
