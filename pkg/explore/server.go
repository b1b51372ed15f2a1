package explore

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
)

//go:embed page
var embedded embed.FS

// policy is the Content-Security-Policy: the page connects only to this server, runs only its
// files, and cannot be framed.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Server answers only GET requests from this machine that have the token. It never changes the hub.
type Server struct {
	// Read returns the objects on the hub. It is called each time the page is loaded, not
	// concurrently.
	Read func(ctx context.Context) (simulator.Objects, error)
	// Options must equal those of the controller.
	Options simulator.Options
	// By is the key of the domains for which the page shows whether Placements can lose them; nil
	// for none.
	By *resilience.Key

	token string
	files http.Handler
	mu    sync.Mutex // held while deciding
	last  *view      // nil before the page is first loaded
	// resilience is for the last view; nil without a key. stopSurvey ends its computation.
	resilience *Resilience
	stopSurvey context.CancelFunc
}

// NewServer returns a Server with a new random token.
func NewServer(read func(context.Context) (simulator.Objects, error), o simulator.Options) *Server {
	page, err := fs.Sub(embedded, "page")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return &Server{Read: read, Options: o, token: rand.Text(), files: http.FileServerFS(page)}
}

// Path returns the path of the page, which contains the token. Other paths return 404.
func (s *Server) Path() string { return "/" + s.token + "/" }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet {
		header.Set("Allow", http.MethodGet)
		http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
		return
	}
	// DNS rebinding: another site can make its name resolve to this machine, but the browser then
	// sends that name as Host.
	if !isLoopback(r.Host) {
		http.Error(w, "the host must be localhost or a loopback address", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		http.Error(w, "requests from other origins are not allowed", http.StatusForbidden)
		return
	}
	token, path, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		http.Error(w, "use the address that berth explore printed when it started", http.StatusNotFound)
		return
	}
	s.serve(w, r, path)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, path string) {
	query := r.URL.Query()
	switch path {
	case "api/matrix":
		answer(w, func() (any, error) { return s.matrix(r.Context()) })
	case "api/resilience":
		answer(w, func() (any, error) { return s.latestResilience(), nil })
	case "api/placement":
		answer(w, func() (any, error) { return s.placement(query.Get("placement")) })
	case "api/cell":
		answer(w, func() (any, error) { return s.cell(r.Context(), query.Get("placement"), query.Get("cluster")) })
	default:
		http.StripPrefix("/"+s.token, s.files).ServeHTTP(w, r)
	}
}

// isLoopback is true if a Host header names a loopback address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// matrix reads the hub and decides every Placement.
func (s *Server) matrix(ctx context.Context) (*Matrix, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	v, err := newView(ctx, objects, now, s.Options)
	if err != nil {
		return nil, err
	}
	s.last = v
	s.startSurvey(objects, now)
	return &v.matrix, nil
}

func (s *Server) placement(name string) (*Placement, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.last.placements[name] == nil {
		return nil, fmt.Errorf("the Placement %q: %w", name, errUnknown)
	}
	return s.last.placements[name], nil
}

func (s *Server) cell(ctx context.Context, placement, cluster string) (*Cell, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return nil, fmt.Errorf("the matrix has not been loaded: %w", errUnknown)
	}
	return s.last.cell(ctx, placement, cluster)
}

// answer writes JSON; an error is {"error": …}.
func answer(w http.ResponseWriter, of func() (any, error)) {
	object, err := of()
	status := http.StatusOK
	switch {
	case errors.Is(err, errUnknown):
		status = http.StatusNotFound
	case err != nil:
		status = http.StatusBadGateway
	}
	if err != nil {
		object = map[string]string{"error": err.Error()}
	}
	text, err := json.Marshal(object)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client has disconnected.
	_, _ = w.Write(text)
}
