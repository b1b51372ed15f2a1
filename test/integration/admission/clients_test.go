package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// makeClientCertificates writes an authority, a client certificate of it, one of another authority,
// and the API server's configuration to use the first one with every webhook. It returns the
// authority's file.
func makeClientCertificates(folder string) (authority string) {
	GinkgoHelper()
	for _, name := range []string{"client", "stranger"} {
		ca := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " authority"}, NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		caKey := certify(folder, name+"-ca", ca, ca, nil)
		certify(folder, name, &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, ca, caKey)
	}
	kubeconfig := fmt.Sprintf(`
apiVersion: v1
kind: Config
users:
- name: "*"
  user: {client-certificate: %[1]s/client.crt, client-key: %[1]s/client.key}
`, folder)
	configuration := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		configuration += fmt.Sprintf("- name: %s\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: %s}\n",
			plugin, filepath.Join(folder, "webhooks.yaml"))
	}
	Expect(os.WriteFile(filepath.Join(folder, "webhooks.yaml"), []byte(kubeconfig), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "admission.yaml"), []byte(configuration), 0o600)).To(Succeed())
	return filepath.Join(folder, "client-ca.crt")
}

// certify writes a certificate and its key. Without a key of the parent it signs itself.
func certify(folder, name string, certificate, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) *ecdsa.PrivateKey {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	if parentKey == nil {
		parentKey = key
	}
	signed, err := x509.CreateCertificate(rand.Reader, certificate, parent, &key.PublicKey, parentKey)
	Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: signed}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		Expect(os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(block), 0o600)).To(Succeed())
	}
	return key
}

// The other specs show that the API server, which has a client certificate, is answered.
var _ = Describe("The admission handlers", func() {
	send := func(ctx SpecContext, certificate string, body string) (*http.Response, error) {
		config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it asks whether the server verifies the client
		if certificate != "" {
			file := filepath.Join(filepath.Dir(clientCA), certificate)
			pair, err := tls.LoadX509KeyPair(file+".crt", file+".key")
			Expect(err).NotTo(HaveOccurred())
			// A client leaves out certificates that the server does not ask for, unless it is told
			// not to.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		url := fmt.Sprintf("https://%s:%d/check-queue-config", serving.LocalServingHost, serving.LocalServingPort)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Content-Type", "application/json")
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		return (&http.Client{Transport: transport}).Do(request)
	}

	It("refuse a client without a certificate of the configured authority", func(ctx SpecContext) {
		for _, certificate := range []string{"", "stranger"} {
			response, err := send(ctx, certificate, "{}")
			if err == nil {
				response.Body.Close()
			}
			Expect(err).To(MatchError(ContainSubstring("tls: ")), certificate)
		}
		response, err := send(ctx, "client", "{}")
		Expect(err).NotTo(HaveOccurred())
		response.Body.Close()
		Expect(response.StatusCode).To(Equal(http.StatusOK))
	})

	It("refuse a request of more than 4 MiB without decoding it", func(ctx SpecContext) {
		response, err := send(ctx, "client", strings.Repeat("x", 4<<20+1))
		Expect(err).NotTo(HaveOccurred())
		response.Body.Close()
		Expect(response.StatusCode).To(Equal(http.StatusRequestEntityTooLarge))
	})
})
