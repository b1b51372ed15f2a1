package flicker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// fault is what the proxy makes of a request.
type fault struct {
	// code is the answer instead of the hub's; 0 for no fault, cut for no answer at all.
	code int
	// lost lets the hub carry the request out first, so that only the answer is lost.
	lost bool
}

const cut = -1

func (f fault) String() string {
	name := strconv.Itoa(f.code)
	if f.code == cut {
		name = "cut"
	}
	if f.lost {
		name += " after the write"
	}
	return name
}

// proxy stands in front of the hub's API server.
type proxy struct {
	server  *httptest.Server
	reverse *httputil.ReverseProxy

	mu     sync.Mutex
	fault  func(*http.Request) fault
	taken  func(*http.Request)
	faults map[string]int
	// writes and events count the pages and the events that the hub took.
	writes, events int
	// echoes is closed while the hub's news of pages may pass.
	echoes chan struct{}
}

func startProxy(config *rest.Config) *proxy {
	GinkgoHelper()
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{faults: map[string]int{}}
	p.calm()
	p.passEchoes()
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: p.modify,
		// A killed controller leaves requests behind.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p.server = httptest.NewServer(p)
	DeferCleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

func (p *proxy) kubeconfig() string {
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

// fail sets what happens to requests from now on.
func (p *proxy) fail(choose func(*http.Request) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = choose
}

// calm ends all faults.
func (p *proxy) calm() { p.fail(func(*http.Request) fault { return fault{} }) }

// afterWrites calls f after each page write that the hub has carried out and the controller does not know of yet.
func (p *proxy) afterWrites(f func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = f
}

// holdEchoes keeps the hub's news of pages from the controller.
func (p *proxy) holdEchoes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.echoes = make(chan struct{})
}

func (p *proxy) passEchoes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.echoes == nil {
		p.echoes = make(chan struct{})
	}
	select {
	case <-p.echoes:
	default:
		close(p.echoes)
	}
}

// took is how many pages and events the hub has taken since the last reset.
func (p *proxy) took() (writes, events int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes, p.events
}

// reset returns the counts so far and starts anew.
func (p *proxy) reset() (writes int, faults map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	writes, faults = p.writes, p.faults
	p.writes, p.events, p.faults = 0, 0, map[string]int{}
	return writes, faults
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	choose := p.fault
	p.mu.Unlock()
	f := choose(r)
	if f.code == 0 {
		p.reverse.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	p.faults[f.String()]++
	p.mu.Unlock()
	if f.lost {
		p.reverse.ServeHTTP(httptest.NewRecorder(), r)
	}
	if f.code == cut {
		panic(http.ErrAbortHandler)
	}
	refuse(w, f.code)
}

// refuse answers in the API server's words.
func refuse(w http.ResponseWriter, code int) {
	reasons := map[int]metav1.StatusReason{
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusConflict: metav1.StatusReasonConflict,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "0")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// Whether the client still listens does not matter.
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reasons[code], Code: int32(code), Message: "the proxy says so",
	})
}

// modify sees the hub's answers before the controller does.
func (p *proxy) modify(response *http.Response) error {
	r := response.Request
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := response.StatusCode < http.StatusMultipleChoices
	switch {
	case isEventWrite(r) && taken:
		p.events++
	case isPageWrite(r) && taken:
		p.writes++
		if p.taken != nil {
			p.taken(r)
		}
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/placementdecisions") && r.URL.Query().Get("watch") != "":
		response.Body = &echo{ReadCloser: response.Body, proxy: p, ctx: r.Context()}
	}
	return nil
}

// echo is a watch of pages that can be held up.
type echo struct {
	io.ReadCloser
	proxy *proxy
	ctx   context.Context
}

// Read implements io.Reader.
func (e *echo) Read(into []byte) (int, error) {
	n, err := e.ReadCloser.Read(into)
	e.proxy.mu.Lock()
	pass := e.proxy.echoes
	e.proxy.mu.Unlock()
	select {
	case <-pass:
	case <-e.ctx.Done():
	}
	return n, err
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

func isPageWrite(r *http.Request) bool {
	return isWrite(r) && strings.Contains(r.URL.Path, "/placementdecisions")
}

func isStatusWrite(r *http.Request) bool {
	return isWrite(r) && strings.Contains(r.URL.Path, "/placements/") && strings.HasSuffix(r.URL.Path, "/status")
}

func isEventWrite(r *http.Request) bool {
	return isWrite(r) && strings.HasSuffix(r.URL.Path, "/events")
}

// concerns reports whether a request is about a page of that name.
func concerns(r *http.Request, page string) bool {
	if strings.HasSuffix(r.URL.Path, "/"+page) {
		return true
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte(strconv.Quote(page)))
}
