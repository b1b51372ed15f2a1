package admission

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
)

// VerifyClients returns an option for a webhook server that refuses every caller without a client
// certificate from one of the authorities in a file (PEM). The file is read again for each
// connection; while it is unreadable, the last authorities are used. It returns an error if the
// file has no certificate now.
func VerifyClients(caFile string) (func(*tls.Config), error) {
	first, err := readAuthorities(caFile)
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[x509.CertPool]
	last.Store(first)
	return func(config *tls.Config) {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, first
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if current, err := readAuthorities(caFile); err == nil {
				last.Store(current)
			}
			each := config.Clone()
			each.GetConfigForClient, each.ClientCAs = nil, last.Load()
			return each, nil
		}
	}, nil
}

func readAuthorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities of client certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading the authorities of client certificates: %s has no certificate", file)
	}
	return pool, nil
}
