// Package outbound sends requests to servers that the platform team configures: extenders and
// receivers of notifications. Redirects are not followed, files with certificates are read again
// when they change, and errors have neither addresses nor credentials.
//
// It imports nothing of Berth.
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// Files are in PEM. Each may be empty; CertFile and KeyFile are given together.
type Files struct {
	// CAFile has the certificates that sign the server's. Default: those of the system.
	CAFile string
	// CertFile and KeyFile authenticate the client.
	CertFile, KeyFile string
}

// Client sends requests to one server.
type Client struct {
	files   Files
	timeout time.Duration

	mu sync.Mutex
	// http is built again when CAFile changes; caTime is the file's time.
	http   *http.Client
	caTime time.Time
}

// New returns a client whose requests may take timeout. It fails if a file cannot be used.
func New(files Files, timeout time.Duration) (*Client, error) {
	c := &Client{files: files, timeout: timeout}
	if _, err := c.current(); err != nil {
		return nil, err
	}
	if files.CertFile != "" {
		if _, err := c.certificate(nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ErrRedirect is in the error of an answer that is a redirect.
var ErrRedirect = errors.New("it answered with a redirect")

// Do sends a request and reads the answer up to a size. A larger answer, or one that takes longer
// than the timeout, is an error. With size 0 only the status and the header are read.
func (c *Client) Do(r *http.Request, maxSize int64) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(r.Context(), c.timeout)
	defer cancel()
	r.Header.Set("User-Agent", "berth")
	current, err := c.current()
	if err != nil {
		return nil, nil, err
	}
	response, err := current.Do(r.WithContext(ctx))
	if err != nil {
		return nil, nil, c.plain(err)
	}
	defer func() { _ = response.Body.Close() }() // Only read from: closing cannot lose anything.
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		return nil, nil, fmt.Errorf("%w (%d), which is not followed", ErrRedirect, response.StatusCode)
	}
	if maxSize == 0 {
		return response, nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxSize+1))
	switch {
	case ctx.Err() != nil:
		// A server may end its answer when the connection is closed.
		return nil, nil, c.plain(ctx.Err())
	case err != nil:
		return nil, nil, c.plain(err)
	case int64(len(body)) > maxSize:
		return nil, nil, fmt.Errorf("its answer is larger than %d KiB", maxSize>>10)
	}
	return response, body, nil
}

// current returns the HTTP client for the current files.
func (c *Client) current() (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed time.Time
	if c.files.CAFile != "" {
		info, err := os.Stat(c.files.CAFile)
		if err != nil {
			return nil, errors.New("caFile cannot be read")
		}
		changed = info.ModTime()
	}
	if c.http != nil && changed.Equal(c.caTime) {
		return c.http, nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.files.CAFile != "" {
		text, err := os.ReadFile(c.files.CAFile)
		if err != nil {
			return nil, errors.New("caFile cannot be read")
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("caFile has no certificate")
		}
	}
	if c.files.CertFile != "" {
		settings.GetClientCertificate = c.certificate
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.caTime = changed
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c.http, nil
}

// certificate reads the files for each new connection.
func (c *Client) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return nil, errCertificate
	}
	return &pair, nil
}

var errCertificate = errors.New("certFile and keyFile cannot be read, or do not belong together")

// plain returns an error without addresses.
func (c *Client) plain(err error) error {
	var timeout net.Error
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no answer within %s", c.timeout)
	case errors.Is(err, errCertificate):
		return errCertificate
	case errors.As(err, &certificate):
		return errors.New("its certificate is not valid for Berth")
	case errors.As(err, &name):
		return errors.New("the name of its host cannot be resolved")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("it refuses connections")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closed the connection")
	}
	return errors.New("the connection failed")
}
