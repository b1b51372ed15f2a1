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

	"github.com/berth-dev/berth/pkg/simulator"
)

//go:embed page
var embedded embed.FS

// policy restricts the page to this server: it loads and reaches no other, runs only code from the
// server's files, and cannot be framed.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Server answers only GET requests from this machine that have the token. It never changes the hub.
type Server struct {
	// Read returns what the hub has now. It is called whenever the page is loaded, once at a time.
	Read func(ctx context.Context) (simulator.Objects, error)
	// Options are those the controller has.
	Options simulator.Options

	token string
	files http.Handler
	mu    sync.Mutex // held while deciding
	last  *view      // nil before the first
}

// NewServer makes up a token that lasts as long as the server.
func NewServer(read func(context.Context) (simulator.Objects, error), o simulator.Options) *Server {
	page, err := fs.Sub(embedded, "page")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return &Server{Read: read, Options: o, token: rand.Text(), files: http.FileServerFS(page)}
}

// Path is the only path that there is anything under; it has the token.
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
		http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
		return
	}
	// Another site can have its name resolve to this machine, but not have the browser send another
	// name than its own.
	if !isLoopback(r.Host) {
		http.Error(w, "ask for localhost, or a loopback address", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		http.Error(w, "pages of other origins get no answer", http.StatusForbidden)
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
	case "api/placement":
		answer(w, func() (any, error) { return s.placement(query.Get("placement")) })
	case "api/cell":
		answer(w, func() (any, error) { return s.cell(r.Context(), query.Get("placement"), query.Get("cluster")) })
	default:
		http.StripPrefix("/"+s.token, s.files).ServeHTTP(w, r)
	}
}

// isLoopback says whether a Host header names this machine itself.
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
	v, err := newView(ctx, objects, time.Now(), s.Options)
	if err != nil {
		return nil, err
	}
	s.last = v
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
	// A reader that went away has nothing to be told.
	_, _ = w.Write(text)
}
