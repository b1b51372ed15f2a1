package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Fault is the effect of the proxy on a request.
type Fault struct {
	// Code replaces the response of the hub. 0 is no fault, Cut is no response.
	Code int
	// Lost makes the hub execute the request first, so that only the response is lost.
	Lost bool
	// After delays the request, unless the client gives up. Without a Code the request then goes to
	// the hub.
	After time.Duration
	// RetryAfter is the Retry-After of a 429, in seconds.
	RetryAfter int
	// Held, if set, delays the response of the hub until the channel is closed.
	Held <-chan struct{}
}

// Cut closes the connection without a response.
const Cut = -1

// String returns the kind of fault for reports.
func (f Fault) String() string {
	name := strconv.Itoa(f.Code)
	switch {
	case f.Held != nil:
		name = "answer held back"
	case f.Code == Cut && f.After > 0:
		name = "time-out"
	case f.Code == Cut:
		name = "cut"
	case f.Code == 0:
		name = "delayed"
	}
	if f.Lost {
		name += " after the write"
	}
	return name
}

// Proxy forwards the requests of one controller to the API server, and injects faults.
type Proxy struct {
	server  *httptest.Server
	reverse *httputil.ReverseProxy

	mu         sync.Mutex
	fault      func(*http.Request) Fault
	afterWrite func(*http.Request)
	faults     map[string]int
	// written has the name of each page that the hub created or changed, by resource version.
	written map[uint64]string
	watches map[*stream]bool
}

// StartProxy starts a proxy that ends with the suite, or the spec that starts it.
func StartProxy(config *rest.Config) *Proxy {
	GinkgoHelper()
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	p := &Proxy{faults: map[string]int{}, watches: map[*stream]bool{}, written: map[uint64]string{}}
	p.EndFaults()
	p.reverse = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// The responses of the hub are read here, too.
			r.Out.Header.Del("Accept-Encoding")
		},
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: p.modify,
		ErrorLog:       log.New(io.Discard, "", 0),
		// A killed controller leaves open requests, and a killed hub does not respond.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p.server = httptest.NewServer(p)
	DeferCleanup(func() {
		p.EndFaults()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Kubeconfig writes a file that connects to the hub through the proxy.
func (p *Proxy) Kubeconfig() string {
	GinkgoHelper()
	config := clientcmdapi.NewConfig()
	config.Clusters["hub"] = &clientcmdapi.Cluster{Server: p.server.URL}
	config.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub"}
	config.CurrentContext = "hub"
	path := filepath.Join(GinkgoT().TempDir(), "proxied")
	Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	Expect(os.Chmod(path, 0o600)).To(Succeed())
	return path
}

// Config is the client configuration for the hub through the proxy.
func (p *Proxy) Config() *rest.Config { return &rest.Config{Host: p.server.URL, QPS: -1} }

// Fail sets the faults of all later requests.
func (p *Proxy) Fail(faultFor func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = faultFor
}

// EndFaults ends all faults.
func (p *Proxy) EndFaults() { p.Fail(func(*http.Request) Fault { return Fault{} }) }

// AfterWrites calls f after each page write that the hub has executed, before the controller gets
// the response.
func (p *Proxy) AfterWrites(f func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.afterWrite = f
}

// CutWatches closes every open watch, also in the middle of an event, and returns their number.
func (p *Proxy) CutWatches() int {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.watches))
	p.faults["watch cut"] += len(open)
	p.mu.Unlock()
	for _, s := range open {
		// A second close is no error.
		_ = s.Close()
	}
	return len(open)
}

// Written returns the name of each page that the hub ever created or changed, by resource version.
func (p *Proxy) Written() map[uint64]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.written)
}

// Writes returns how many pages the hub ever created or changed.
func (p *Proxy) Writes() int { return len(p.Written()) }

// Faults returns how often each fault was caused.
func (p *Proxy) Faults() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.faults)
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	faultFor := p.fault
	p.mu.Unlock()
	f := faultFor(r)
	if f == (Fault{}) {
		p.reverse.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	p.faults[f.String()]++
	p.mu.Unlock()
	if f.Lost {
		p.reverse.ServeHTTP(httptest.NewRecorder(), r)
	}
	if f.After > 0 {
		// The server notices a closed connection only after the body is read.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		select {
		case <-time.After(f.After):
		case <-r.Context().Done():
		}
	}
	switch {
	case f.Code == Cut || r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	case f.Held != nil:
		p.reverse.ServeHTTP(&late{w, f.Held, r.Context().Done()}, r)
	case f.Code == 0:
		p.reverse.ServeHTTP(w, r)
	default:
		refuse(w, f)
	}
}

// late writes a response when it may, unless the client has gone.
type late struct {
	http.ResponseWriter
	held, gone <-chan struct{}
}

// WriteHeader implements http.ResponseWriter.
func (l *late) WriteHeader(code int) {
	select {
	case <-l.held:
	case <-l.gone:
	}
	l.ResponseWriter.WriteHeader(code)
}

// refuse responds with a Status of the API server.
func refuse(w http.ResponseWriter, f Fault) {
	code := f.Code
	reasons := map[int]metav1.StatusReason{
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusConflict: metav1.StatusReasonConflict,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	}
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The client may have gone; the error does not matter.
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reasons[code], Code: int32(code), Message: "the proxy says so",
	})
}

// modify processes the responses of the hub before the controller gets them.
func (p *Proxy) modify(response *http.Response) error {
	r := response.Request
	taken := response.StatusCode < http.StatusMultipleChoices
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case IsPageWrite(r) && taken:
		if r.Method != http.MethodDelete {
			if err := p.recordWrite(response); err != nil {
				return err
			}
		}
		if p.afterWrite != nil {
			p.afterWrite(r)
		}
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" && taken:
		s := &stream{response.Body, p}
		p.watches[s] = true
		response.Body = s
	}
	return nil
}

// recordWrite adds a write to written. The caller holds the lock.
func (p *Proxy) recordWrite(response *http.Response) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading what was written: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var written struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(body, &written); err != nil {
		return fmt.Errorf("decoding what was written: %w", err)
	}
	version, err := strconv.ParseUint(written.Metadata.ResourceVersion, 10, 64)
	if err == nil {
		p.written[version] = written.Metadata.Name
	}
	return err
}

// stream is a watch that can be cut.
type stream struct {
	io.ReadCloser
	proxy *Proxy
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.proxy.mu.Lock()
	delete(s.proxy.watches, s)
	s.proxy.mu.Unlock()
	return s.ReadCloser.Close()
}

// IsWrite reports whether a request changes the hub.
func IsWrite(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// IsPageWrite reports whether a request writes a PlacementDecision.
func IsPageWrite(r *http.Request) bool {
	return IsWrite(r) && strings.Contains(r.URL.Path, "/placementdecisions")
}

// IsEventWrite reports whether a request writes an event.
func IsEventWrite(r *http.Request) bool {
	return IsWrite(r) && strings.HasSuffix(r.URL.Path, "/events")
}

// IsLease reports whether a request is about leases.
func IsLease(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases") }
