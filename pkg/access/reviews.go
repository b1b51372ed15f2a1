package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// Limits of the guard's requests to the hub. A cached answer needs no request.
const (
	// allowedTime and refusedTime are how long an answer is cached. A revoked permission ends after
	// allowedTime at the latest.
	allowedTime = time.Minute
	refusedTime = 10 * time.Second
	// failedTime is how long a failed request to the hub is cached.
	failedTime = time.Second
	// maxReviews is the maximum number of cached answers.
	maxReviews = 1024
	// maxTokenLength is in bytes; tokens of service accounts have about 1,000.
	maxTokenLength = 16 << 10
	// These limit the reviews that a client address may cause: per second, and in one burst. A
	// token that was allowed before is reviewed regardless, so that other clients cannot lock out
	// a user with the permission.
	reviewsPerSecond, reviewsAtOnce = 1, 10
	// These limit the reviews of permissions that a user with a valid token may cause.
	userReviewsPerSecond, userReviewsAtOnce = 10, 200
	// maxAddresses bounds the client addresses and users that are counted.
	maxAddresses = 1024
)

// ErrTooMany means that the client must wait before another of its tokens is reviewed.
var ErrTooMany = errors.New("too many tokens from this address: try again in a second")

// Access is the user of a request, nil without a valid token, and whether the user has the
// permission.
type Access struct {
	User    *authenticationv1.UserInfo
	Allowed bool
}

// reviewKey identifies a token and a question. The token itself is not kept.
type reviewKey [sha256.Size]byte

// review is the answer for one key. asking holds an element while the hub is asked, so that
// concurrent requests cost one review.
type review struct {
	asking chan struct{}

	// The lock of reviews guards the rest.
	Access
	err error
	// until is when the answer expires; zero before the first answer.
	until time.Time
}

// source is where requests come from, and the reviews that it may cause.
type source struct {
	name      string
	perSecond rate.Limit
	atOnce    int
}

// reviews caches the hub's answers. mu guards the two maps and the answers.
type reviews struct {
	now func() time.Time

	mu      sync.Mutex
	byKey   map[reviewKey]*review
	sources map[string]*rate.Limiter
}

func newReviews(now func() time.Time) *reviews {
	return &reviews{now: now, byKey: map[reviewKey]*review{}, sources: map[string]*rate.Limiter{}}
}

// decide returns the cached answer for a key, or asks the hub.
func (r *reviews) decide(ctx context.Context, key reviewKey, from source, ask func(context.Context) (Access, error)) (Access, error) {
	entry := r.find(key)
	select {
	case entry.asking <- struct{}{}:
		defer func() { <-entry.asking }()
	case <-ctx.Done():
		return Access{}, ctx.Err()
	}
	if answer, ok, err := r.cached(entry, from); ok {
		return answer, err
	}
	answer, err := ask(ctx)
	if err != nil && ctx.Err() != nil {
		// The client is gone, or the time is up: the next request asks again.
		return Access{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	lifetime := refusedTime
	switch {
	case err != nil:
		lifetime = failedTime
	case answer.Allowed:
		lifetime = allowedTime
	}
	if entry.err = err; err == nil {
		entry.Access = answer
	}
	entry.until = r.now().Add(lifetime)
	return answer, err
}

// cached returns a cached answer, or ErrTooMany if the source must wait. ok is
// false if the hub must be asked.
func (r *reviews) cached(entry *review, from source) (answer Access, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	switch {
	case now.Before(entry.until) && entry.err != nil:
		return Access{}, true, entry.err
	case now.Before(entry.until):
		return entry.Access, true, nil
	case entry.Allowed || r.allowReview(from, now):
		return Access{}, false, nil
	}
	return Access{}, true, ErrTooMany
}

// find returns the entry of a key. At maxReviews entries it drops expired refusals; if that is not
// enough, all refusals; then all entries.
func (r *reviews) find(key reviewKey) *review {
	r.mu.Lock()
	defer r.mu.Unlock()
	if entry := r.byKey[key]; entry != nil {
		return entry
	}
	if len(r.byKey) >= maxReviews {
		now := r.now()
		maps.DeleteFunc(r.byKey, func(_ reviewKey, entry *review) bool { return !entry.Allowed && now.After(entry.until) })
	}
	if len(r.byKey) >= maxReviews {
		maps.DeleteFunc(r.byKey, func(_ reviewKey, entry *review) bool { return !entry.Allowed })
	}
	if len(r.byKey) >= maxReviews {
		clear(r.byKey)
	}
	entry := &review{asking: make(chan struct{}, 1)}
	r.byKey[key] = entry
	return entry
}

// allowReview counts a review for a source. It returns false if the source causes too many, or if
// there are too many sources.
func (r *reviews) allowReview(from source, now time.Time) bool {
	limiter := r.sources[from.name]
	if limiter == nil {
		if len(r.sources) >= maxAddresses {
			maps.DeleteFunc(r.sources, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) })
		}
		if len(r.sources) >= maxAddresses {
			return false
		}
		limiter = rate.NewLimiter(from.perSecond, from.atOnce)
		r.sources[from.name] = limiter
	}
	return limiter.AllowN(now, 1)
}
