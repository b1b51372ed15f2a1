package explore

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
)

//go:embed page
var embedded embed.FS

// policy is the Content-Security-Policy: the page connects only to this server, runs only its
// files, and cannot be framed.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Server serves the page and its data. The local one answers only requests from this machine that
// have the token in their path.
type Server struct {
	// Options must equal those of the controller.
	Options simulator.Options
	// By is the key of the domains for which the page shows whether Placements can lose them; nil
	// for none.
	By *resilience.Key

	// A local server has a viewer and a token, a shared one has viewers.
	viewer  *Viewer
	token   string
	viewers *tokenViewers
	files   http.Handler
}

// NewServer returns a Server for one viewer, with a new random token.
func NewServer(o simulator.Options, viewer *Viewer) *Server {
	s := newServer(o)
	s.viewer, s.token = viewer, rand.Text()
	return s
}

func newServer(o simulator.Options) *Server {
	page, err := fs.Sub(embedded, "page")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return &Server{Options: o, files: http.FileServerFS(page)}
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
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		header.Set("Allow", "GET, POST")
		http.Error(w, "only GET and POST are allowed", http.StatusMethodNotAllowed)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(requestTimeout))
	if s.viewers != nil {
		s.serveShared(w, r)
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
	s.serve(w, r, s.viewer, path)
}

// serve answers a request of a viewer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, v *Viewer, path string) {
	switch {
	case r.Method == http.MethodPost:
		s.post(w, r, v, path)
	case path == "api/session":
		reply(w, r, func() (any, error) { return s.session(r.Context(), v), nil })
	case path == "api/events":
		shown, err := v.worldOf(r.Context(), "", r.URL.Query().Get("ns"))
		if err != nil {
			reply(w, r, func() (any, error) { return nil, err })
			return
		}
		end, err := v.openStream()
		if err != nil {
			reply(w, r, func() (any, error) { return nil, err })
			return
		}
		defer end()
		stream(w, r, shown.(*LiveWorld))
	case strings.HasPrefix(path, "api/"):
		reply(w, r, func() (any, error) { return s.get(r, v, path) })
	default:
		http.StripPrefix(strings.TrimSuffix(r.URL.Path, path), s.files).ServeHTTP(w, r)
	}
}

func (s *Server) session(ctx context.Context, v *Viewer) *Session {
	session := &Session{User: v.userName(ctx), Hub: v.Hub, Context: v.Context, CSRF: v.CSRF, Live: v.Live != nil, Recording: v.past != nil}
	if v.streams.Load() >= maxStreams {
		session.NoStream = errStreams.Error()
	}
	if s.By != nil {
		session.Resilience = s.By.String()
	}
	return session
}

// get answers a GET request for data.
func (s *Server) get(r *http.Request, v *Viewer, path string) (any, error) {
	query := r.URL.Query()
	switch path {
	case "api/time":
		if v.past == nil {
			return nil, fmt.Errorf("a recording: %w: berth explore was started without --recording", errUnknown)
		}
		return v.past.line(), nil
	case "api/resilience":
		now, err := v.worldOf(r.Context(), "", "")
		if err != nil {
			return nil, err
		}
		return v.survey.get(now, s.Options, s.By), nil
	case "api/what-if":
		w, err := v.whatIfs.find(query.Get("id"))
		if err != nil {
			return nil, err
		}
		return w.get(), nil
	}
	shown, err := v.worldOf(r.Context(), query.Get("world"), query.Get("ns"))
	if err != nil {
		return nil, err
	}
	switch path {
	case "api/fleet":
		return shown.fleet(), nil
	case "api/columns":
		return columns(r.Context(), shown, query["placement"])
	case "api/scores":
		return ask1(r.Context(), shown, question{key: keyOf(query.Get("placement"))}, func(w *world, a answer) (*Scores, error) {
			return w.scores(query.Get("placement"), a)
		})
	case "api/placement":
		return v.placement(r.Context(), shown, query.Get("placement"))
	case "api/cluster":
		return v.cluster(r.Context(), shown, query.Get("cluster"))
	case "api/yaml":
		var text *ObjectYAML
		err := shown.use(func(w *world, _ int64) (err error) {
			text, err = w.yaml(query.Get("kind"), query.Get("name"))
			return err
		})
		return text, err
	case "api/cell":
		return v.cell(r.Context(), shown, query.Get("placement"), query.Get("cluster"))
	}
	return nil, fmt.Errorf("%s: %w", path, errUnknown)
}

// maxColumnsAsked is how many columns one request may ask for.
const maxColumnsAsked = 100

func columns(ctx context.Context, v anyWorld, placements []string) (c *Columns, err error) {
	if len(placements) > maxColumnsAsked {
		return nil, fmt.Errorf("placement: %w: %d Placements, at most %d are allowed", errInvalid, len(placements), maxColumnsAsked)
	}
	keys := make([]types.NamespacedName, len(placements))
	for i, placement := range placements {
		keys[i] = keyOf(placement)
	}
	v.decide(ctx, keys)
	err = v.use(func(w *world, rows int64) error {
		c, err = columnsOf(w, rows, placements)
		return err
	})
	return c, err
}

// ask1 decides a question, and reads a world with the answer.
func ask1[T any](ctx context.Context, v anyWorld, q question, read func(*world, answer) (T, error)) (result T, err error) {
	// A hub that is still being read has no answers.
	if err := v.use(func(*world, int64) error { return nil }); err != nil {
		return result, err
	}
	a := v.answer(ctx, q)
	err = v.use(func(w *world, _ int64) error {
		result, err = read(w, a)
		return err
	})
	return result, err
}

// post answers a POST request.
func (s *Server) post(w http.ResponseWriter, r *http.Request, v *Viewer, path string) {
	switch path {
	case "api/what-if":
		reply(w, r, func() (any, error) {
			request := WhatIfRequest{}
			if err := readPost(w, r, v, &request); err != nil {
				return nil, err
			}
			shown, err := v.worldOf(r.Context(), r.URL.Query().Get("world"), r.URL.Query().Get("ns"))
			if err != nil {
				return nil, err
			}
			return v.whatIfs.start(shown, s.Options, request.Edits, v.slots)
		})
	case "api/act":
		reply(w, r, func() (any, error) {
			request := ActRequest{}
			if err := readPost(w, r, v, &request); err != nil {
				return nil, err
			}
			return v.act(r.Context(), request)
		})
	default:
		http.Error(w, "there is nothing to POST to", http.StatusNotFound)
	}
}

const (
	// maxBody bounds the body of a POST request, bodyTimeout how long it may take to come.
	maxBody     = 64 << 10
	bodyTimeout = 10 * time.Second
	// requestTimeout is how long an answer may take, except for a stream.
	requestTimeout = 3 * time.Minute
)

// errForgery is the error for a POST request that the page did not send.
var errForgery = errors.New("the request does not have the session's X-Berth-CSRF header: load the page again")

// readPost checks that the page of the viewer sent a request, and decodes its body.
func readPost(w http.ResponseWriter, r *http.Request, v *Viewer, into any) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Berth-CSRF")), []byte(v.CSRF)) != 1 || site != "" && site != "same-origin" {
		return errForgery
	}
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return fmt.Errorf("Content-Type: %w: it must be application/json", errInvalid)
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("the body: %w: %w", errInvalid, err)
	}
	if decoder.More() {
		return fmt.Errorf("the body: %w: there is something after the object", errInvalid)
	}
	return nil
}

// isLoopback is true if a Host header names a loopback address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// compressed is the size from which an answer is compressed.
const compressed = 4 << 10

// reply writes JSON; an error is {"error": …}.
func reply(w http.ResponseWriter, r *http.Request, of func() (any, error)) {
	object, err := of()
	status := http.StatusOK
	switch {
	case errors.Is(err, errUnknown):
		status = http.StatusNotFound
	case errors.Is(err, errInvalid):
		status = http.StatusBadRequest
	case apierrors.IsUnauthorized(err):
		status = http.StatusUnauthorized
	case errors.Is(err, errForgery), apierrors.IsForbidden(err):
		status = http.StatusForbidden
	case errors.Is(err, errRefused):
		status = http.StatusConflict
	case errors.Is(err, errStreams):
		w.Header().Set("Retry-After", "30")
		status = http.StatusTooManyRequests
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
	w.Header().Set("Vary", "Accept-Encoding")
	if len(text) < compressed || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		// An error means that the client has disconnected.
		_, _ = w.Write(text)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	_, _ = zip.Write(text)
	_ = zip.Close()
}
