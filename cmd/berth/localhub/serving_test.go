package localhub

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"
	"time"
)

func TestIssueServing(t *testing.T) {
	dir := t.TempDir()
	start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	hub, err := ensurePKI(dir, start)
	if err != nil {
		t.Fatal(err)
	}
	var last []byte
	for _, step := range []struct {
		name    string
		now     time.Time
		wantNew bool
	}{
		{"first", start, true},
		{"restart", start.Add(time.Hour), false},
		{"close to its end", start.Add(certificateLifetime - renewBefore), true},
	} {
		serving, err := issueServing(dir, "webhook", step.now)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if !bytes.Equal(serving.CA, hub.admin.ca) {
			t.Errorf("%s: the authority is not the hub's", step.name)
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(serving.Dir, serving.CertName), filepath.Join(serving.Dir, serving.KeyName))
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(serving.CA)
		for _, host := range []string{"127.0.0.1", "localhost"} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: step.now}); err != nil {
				t.Errorf("%s: serving %s: %v", step.name, host, err)
			}
		}
		if isNew := !bytes.Equal(last, pair.Leaf.Raw); isNew != step.wantNew {
			t.Errorf("%s: new certificate %t, want %t", step.name, isNew, step.wantNew)
		}
		last = pair.Leaf.Raw
	}
}
