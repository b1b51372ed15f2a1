package admission

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Limits of one request. Every client that reaches the port can send one, unless client
// certificates are verified.
const (
	// maxBody bounds a request, in bytes. It has the object before and after an update, with its
	// status; etcd stores at most 1.5 MiB of each.
	maxBody = 4 << 20
	// maxBodyTime is how long the sender may take for the body; it is the timeout of the webhooks.
	maxBodyTime = 5 * time.Second
	// maxChecks is how many checks of queue configurations may be read or wait at once.
	maxChecks = 8
)

// limitBody reads the body, of at most maxBody bytes, before it calls the next handler.
func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A connection without deadlines is a test's.
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxBodyTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			http.Error(w, fmt.Sprintf("the request has more than %d bytes", maxBody), http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, "the request could not be read", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// LimitRequests limits requests to a handler in number, size and time. A request beyond the number
// waits, without its body being read, and gets 503 after most.
func LimitRequests(number int, most time.Duration, next http.Handler) http.Handler {
	next = limitBody(next)
	inProgress := make(chan struct{}, number)
	serve := func(w http.ResponseWriter, r *http.Request) {
		defer func() { <-inProgress }()
		next.ServeHTTP(w, r)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case inProgress <- struct{}{}:
			serve(w, r)
			return
		default:
		}
		late := time.NewTimer(most)
		defer late.Stop()
		select {
		case inProgress <- struct{}{}:
			serve(w, r)
		case <-r.Context().Done():
		case <-late.C:
			http.Error(w, fmt.Sprintf("busy: %d requests are in progress", number), http.StatusServiceUnavailable)
		}
	})
}

// oneAtATime runs one request at a time. Others wait until their clients stop waiting.
func oneAtATime(next http.Handler) http.Handler {
	running := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			http.Error(w, "busy: another queue configuration is being checked", http.StatusServiceUnavailable)
		}
	})
}
