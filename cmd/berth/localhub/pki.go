package localhub

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// renewBefore is how much life a certificate must have left at a start; the authority needs a
	// certificate's whole life.
	renewBefore = 60 * 24 * time.Hour
	// backdated lets a clock that was set back a little still see valid certificates.
	backdated = time.Hour
)

// credentials are one holder's certificate and key and the authority to trust, as PEM and as files.
type credentials struct {
	ca, cert, key             []byte
	caFile, certFile, keyFile string
}

// pki is every secret of a hub. One authority signs all certificates: a separate one would protect
// nothing, as the administrator's certificate may read everything.
type pki struct {
	apiServer, admin, etcdServer, etcdClient *credentials
	// collector and namespaces are for gc's two controllers, which have the rights that
	// kube-controller-manager gives them.
	collector, namespaces *credentials
	serviceAccountKey     string // path
}

// The names of gc's controllers in kube-system: RBAC grants their ClusterRoles to these service
// accounts.
const (
	collectorName  = "generic-garbage-collector"
	namespacesName = "namespace-controller"
)

// kubeController is the subject of a client that acts as a service account of kube-system.
func kubeController(name string) pkix.Name {
	return pkix.Name{
		CommonName:   "system:serviceaccount:kube-system:" + name,
		Organization: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"},
	}
}

type authority struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
	file    string
}

// ensurePKI reads the secrets in dir and makes those that are missing, unreadable, foreign to the
// authority or close to their end. A new authority renews all certificates. The service account key
// is made once, as tokens depend on it.
func ensurePKI(dir string, now time.Time) (*pki, error) {
	ca, err := ensureAuthority(dir, now)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	result := &pki{serviceAccountKey: filepath.Join(dir, "service-account.key")}
	for _, item := range []struct {
		name string
		into **credentials
		want x509.Certificate
	}{
		{"apiserver", &result.apiServer, x509.Certificate{
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			ExtKeyUsage: both[:1],
			IPAddresses: append(loopback, net.IPv4(10, 0, 0, 1)), // the first of the service range is the API server's own
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		}},
		{"admin", &result.admin, x509.Certificate{
			Subject:     pkix.Name{CommonName: "berth-admin", Organization: []string{"system:masters"}},
			ExtKeyUsage: both[1:],
		}},
		{collectorName, &result.collector, x509.Certificate{Subject: kubeController(collectorName), ExtKeyUsage: both[1:]}},
		{namespacesName, &result.namespaces, x509.Certificate{Subject: kubeController(namespacesName), ExtKeyUsage: both[1:]}},
		// etcd's gateway calls etcd with the server's certificate.
		{"etcd", &result.etcdServer, x509.Certificate{
			Subject:     pkix.Name{CommonName: "etcd"},
			ExtKeyUsage: both,
			IPAddresses: loopback,
			DNSNames:    []string{"localhost"},
		}},
		{"etcd-client", &result.etcdClient, x509.Certificate{
			Subject:     pkix.Name{CommonName: "kube-apiserver-etcd-client"},
			ExtKeyUsage: both[1:],
		}},
	} {
		if *item.into, err = ca.ensure(dir, item.name, item.want, now); err != nil {
			return nil, fmt.Errorf("certificate %s: %w", item.name, err)
		}
	}
	if err := ensureKey(result.serviceAccountKey); err != nil {
		return nil, fmt.Errorf("service account key: %w", err)
	}
	return result, nil
}

func ensureAuthority(dir string, now time.Time) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	certPEM, keyPEM, err := readPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	if pair, err := tls.X509KeyPair(certPEM, keyPEM); err == nil {
		key, isECDSA := pair.PrivateKey.(*ecdsa.PrivateKey)
		if isECDSA && pair.Leaf.IsCA && now.After(pair.Leaf.NotBefore) && now.Add(certificateLifetime).Before(pair.Leaf.NotAfter) {
			return &authority{cert: pair.Leaf, key: key, certPEM: certPEM, file: certFile}, nil
		}
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("berth-hub-%d", now.Unix())},
		NotBefore:             now.Add(-backdated),
		NotAfter:              now.Add(authorityLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	certPEM, err = sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	if err := writePair(certFile, certPEM, keyFile, key); err != nil {
		return nil, err
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, certPEM: certPEM, file: certFile}, nil
}

// ensure returns the named certificate. It signs a new one unless the one on disk is still usable.
func (a *authority) ensure(dir, name string, want x509.Certificate, now time.Time) (*credentials, error) {
	result := &credentials{
		ca:       a.certPEM,
		caFile:   a.file,
		certFile: filepath.Join(dir, name+".crt"),
		keyFile:  filepath.Join(dir, name+".key"),
	}
	var err error
	if result.cert, result.key, err = readPair(result.certFile, result.keyFile); err != nil {
		return nil, err
	}
	if a.serves(result, now) {
		return result, nil
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	want.NotBefore = now.Add(-backdated)
	want.NotAfter = now.Add(certificateLifetime)
	want.KeyUsage = x509.KeyUsageDigitalSignature
	if result.cert, err = sign(&want, a.cert, key, a.key); err != nil {
		return nil, err
	}
	if result.key, err = encodeKey(key); err != nil {
		return nil, err
	}
	return result, writePair(result.certFile, result.cert, result.keyFile, key)
}

// serves is true if a certificate fits its key, is signed by the authority and lasts long enough.
func (a *authority) serves(c *credentials, now time.Time) bool {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return false
	}
	return pair.Leaf.CheckSignatureFrom(a.cert) == nil &&
		now.After(pair.Leaf.NotBefore) && now.Add(renewBefore).Before(pair.Leaf.NotAfter)
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	return x509.ParseCertificate(block.Bytes)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// ensureKey leaves a key that exists as it is.
func ensureKey(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(data)) > 0 {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	data, err = encodeKey(key)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// readPair returns nothing for files that do not exist. It returns an error for files that it
// cannot read: they belong to another user and must not be replaced.
func readPair(certFile, keyFile string) (cert, key []byte, err error) {
	cert, certErr := os.ReadFile(certFile)
	key, keyErr := os.ReadFile(keyFile)
	for _, err := range []error{certErr, keyErr} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	return cert, key, nil
}

func writePair(certFile string, cert []byte, keyFile string, key *ecdsa.PrivateKey) error {
	data, err := encodeKey(key)
	if err != nil {
		return err
	}
	return errors.Join(writeFile(keyFile, data), writeFile(certFile, cert))
}
