package admission

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/util/cert"
)

// TestVerifyClients: the authorities are read again for each connection, and the last valid ones
// stay in use.
func TestVerifyClients(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := VerifyClients(file); err == nil {
		t.Error("a file that is missing is accepted")
	}
	write([]byte("no certificate"))
	if _, err := VerifyClients(file); err == nil {
		t.Error("a file without a certificate is accepted")
	}
	authority := func() []byte {
		text, _, err := cert.GenerateSelfSignedCertKey("berth", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write(authority())
	verify, err := VerifyClients(file)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{}
	verify(config)
	connect := func() *tls.Config {
		t.Helper()
		each, err := config.GetConfigForClient(nil)
		if err != nil || each.ClientAuth != tls.RequireAndVerifyClientCert {
			t.Fatalf("%v, %v", each, err)
		}
		return each
	}
	if !connect().ClientCAs.Equal(config.ClientCAs) {
		t.Error("the authorities are not those of the file")
	}
	write(authority())
	second := connect().ClientCAs
	if second.Equal(config.ClientCAs) {
		t.Error("the file is not read again")
	}
	write([]byte("no certificate"))
	if !connect().ClientCAs.Equal(second) {
		t.Error("the last valid authorities are not used")
	}
}
