package testhub

import (
	"net"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"
)

// Proxy passes connections on to a hub while it is up.
type Proxy struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

// StartProxy returns a Proxy for the API server at host. It stops at the end of the node that calls
// it.
func StartProxy(host string) *Proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &Proxy{listener: listener, to: strings.TrimPrefix(host, "https://"), conns: map[net.Conn]bool{}}
	DeferCleanup(func() {
		listener.Close()
		p.Set(false)
	})
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go p.pass(from)
		}
	}()
	return p
}

// Config returns a configuration that connects through the proxy.
func (p *Proxy) Config(direct *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(direct)
	cfg.Host = "https://" + p.listener.Addr().String()
	cfg.TLSClientConfig = rest.TLSClientConfig{Insecure: true, CertData: cfg.CertData, KeyData: cfg.KeyData}
	return cfg
}

// Set cuts all connections, or lets new ones pass.
func (p *Proxy) Set(up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = !up
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer to.Close()
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	p.conns[from], p.conns[to] = true, true
	p.mu.Unlock()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = pair[0].(*net.TCPConn).WriteTo(pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}
