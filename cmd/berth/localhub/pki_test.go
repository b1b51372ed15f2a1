package localhub

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func TestEnsurePKI(t *testing.T) {
	start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		later         time.Duration
		damage        map[string]string // file: new content
		wantAuthority bool              // a new authority, so that every certificate is new
		wantAdmin     bool              // a new administrator's certificate
	}{
		"a restart keeps everything":                    {later: day},
		"certificates are renewed before they end":      {later: certificateLifetime - renewBefore + day, wantAdmin: true},
		"the authority is renewed before it ends":       {later: authorityLifetime - certificateLifetime + day, wantAuthority: true, wantAdmin: true},
		"a clock set back renews":                       {later: -2 * day, wantAuthority: true, wantAdmin: true},
		"a damaged certificate is replaced":             {damage: map[string]string{"admin.crt": "damaged"}, wantAdmin: true},
		"a damaged key is replaced":                     {damage: map[string]string{"admin.key": ""}, wantAdmin: true},
		"a damaged authority replaces all":              {damage: map[string]string{"ca.key": "damaged"}, wantAuthority: true, wantAdmin: true},
		"an empty service account key is created again": {damage: map[string]string{"service-account.key": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before, err := ensurePKI(dir, start)
			if err != nil {
				t.Fatal(err)
			}
			for file, content := range tc.damage {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			after, err := ensurePKI(dir, start.Add(tc.later))
			if err != nil {
				t.Fatal(err)
			}
			if got := !bytes.Equal(before.admin.ca, after.admin.ca); got != tc.wantAuthority {
				t.Errorf("new authority: got %t, want %t", got, tc.wantAuthority)
			}
			if got := !bytes.Equal(before.admin.cert, after.admin.cert); got != tc.wantAdmin {
				t.Errorf("new administrator's certificate: got %t, want %t", got, tc.wantAdmin)
			}
			checkPKI(t, after, start.Add(tc.later))
		})
	}
}

// checkPKI verifies each certificate for its use, and that only the owner can read any file.
func checkPKI(t *testing.T, pki *pki, now time.Time) {
	t.Helper()
	for name, tc := range map[string]struct {
		credentials *credentials
		usage       x509.ExtKeyUsage
		host        string
	}{
		"apiserver":   {pki.apiServer, x509.ExtKeyUsageServerAuth, "127.0.0.1"},
		"admin":       {pki.admin, x509.ExtKeyUsageClientAuth, ""},
		"etcd":        {pki.etcdServer, x509.ExtKeyUsageServerAuth, "127.0.0.1"},
		"etcd-client": {pki.etcdClient, x509.ExtKeyUsageClientAuth, ""},
		"collector":   {pki.collector, x509.ExtKeyUsageClientAuth, ""},
		"namespaces":  {pki.namespaces, x509.ExtKeyUsageClientAuth, ""},
	} {
		cert, err := parseCertificate(tc.credentials.cert)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(tc.credentials.ca)
		options := x509.VerifyOptions{DNSName: tc.host, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{tc.usage}}
		if _, err := cert.Verify(options); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(pki.serviceAccountKey), "*"))
	if err != nil || len(files) != 15 {
		t.Errorf("got files %v, %v; want 15", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Errorf("%s: mode %s, %d bytes", file, info.Mode(), info.Size())
		}
	}
}

// TestKubeconfigOfGC: gc holds no administrator's certificate, but those of the two controllers
// that it runs.
func TestKubeconfigOfGC(t *testing.T) {
	files, err := newLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := ensurePKI(files.path("pki"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeKubeconfigs(files, secrets, 1); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(files.path("pki", "gc.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, of := range config.Contexts {
		cert, err := parseCertificate(config.AuthInfos[of.AuthInfo].ClientCertificateData)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = cert.Subject.CommonName + " of " + strings.Join(cert.Subject.Organization, " ")
	}
	const groups = " of system:serviceaccounts system:serviceaccounts:kube-system"
	want := map[string]string{
		"generic-garbage-collector": "system:serviceaccount:kube-system:generic-garbage-collector" + groups,
		"namespace-controller":      "system:serviceaccount:kube-system:namespace-controller" + groups,
	}
	if diff := cmp.Diff(want, got); diff != "" || config.CurrentContext != "" {
		t.Errorf("(-want +got):\n%s\ncurrent context %q", diff, config.CurrentContext)
	}
}

func TestServiceAccountKeyOutlivesTheAuthority(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	before, err := ensurePKI(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(before.serviceAccountKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ensurePKI(dir, now.Add(2*authorityLifetime)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(before.serviceAccountKey)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the key changed (%v)", err)
	}
}
