package localhub

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// Serving has the certificate and port of a server on this machine, for calls from the hub's API
// server.
type Serving struct {
	// Dir holds the files CertName and KeyName.
	Dir, CertName, KeyName string
	// CA is the certificate of the signing authority, as PEM.
	CA []byte
	// Port is a port of 127.0.0.1 that was free when Serving was called.
	Port int
}

// Serving issues a certificate for 127.0.0.1 and localhost, under a name. The data directory keeps
// it; later starts reuse and renew it.
func (h *Hub) Serving(name string) (*Serving, error) {
	serving, err := issueServing(h.layout.path("pki"), name, time.Now())
	if err != nil {
		return nil, fmt.Errorf("issuing the certificate %s: %w", name, err)
	}
	free, err := listen(0)
	if err != nil {
		return nil, fmt.Errorf("finding a port for %s: %w", name, err)
	}
	free.release()
	serving.Port = free.number
	return serving, nil
}

func issueServing(dir, name string, now time.Time) (*Serving, error) {
	ca, err := ensureAuthority(dir, now)
	if err != nil {
		return nil, err
	}
	issued, err := ca.ensure(dir, name, x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"localhost"},
	}, now)
	if err != nil {
		return nil, err
	}
	return &Serving{Dir: dir, CertName: filepath.Base(issued.certFile), KeyName: filepath.Base(issued.keyFile), CA: issued.ca}, nil
}
