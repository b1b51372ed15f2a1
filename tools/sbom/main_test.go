package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun: the bill of materials of this test has its modules, each with a version, and is the same
// each time.
func TestRun(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := run(w, program, "v1.2.3"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two runs differ")
	}
	var d document
	if err := json.Unmarshal(first.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if d.SPDXVersion != "SPDX-2.3" || d.SPDXID == "" || d.CreationInfo.Created != "2023-11-14T22:13:20Z" || !strings.HasPrefix(d.DocumentNamespace, "urn:sha256:") {
		t.Errorf("document %+v", d)
	}
	if len(d.Packages) < 2 || len(d.Relationships) != len(d.Packages) || d.Packages[0].VersionInfo != "v1.2.3" || d.Packages[1].Name != "stdlib" {
		t.Errorf("packages %+v", d.Packages)
	}
	ids := map[string]bool{}
	for _, p := range d.Packages {
		if p.VersionInfo == "" || p.Name == "" || ids[p.SPDXID] {
			t.Errorf("package %+v", p)
		}
		ids[p.SPDXID] = true
	}
}

func TestRunRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{"no program": text, "missing": text + "2"} {
		if err := run(&bytes.Buffer{}, program, "v1"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
