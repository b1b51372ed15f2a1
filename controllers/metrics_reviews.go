package controllers

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

// Limits of what the guard asks the hub. A request for which an answer is remembered costs the hub
// nothing.
const (
	// allowedTime and refusedTime are how long an answer counts: a right that is taken away ends
	// after allowedTime at the latest.
	allowedTime = time.Minute
	refusedTime = 10 * time.Second
	// failedTime is how long a failure to ask counts.
	failedTime = time.Second
	// maxReviews bounds the remembered answers.
	maxReviews = 1024
	// maxTokenLength is in bytes; tokens of service accounts have about 1,000.
	maxTokenLength = 16 << 10
	// A client address may cause so many reviews a second, and so many at once. A token that was
	// let in before is reviewed again however many reviews the address has caused, so that nobody
	// can keep out the reader of the metrics.
	reviewsPerSecond, reviewsAtOnce = 1, 10
	// maxAddresses bounds the addresses that are counted.
	maxAddresses = 1024
)

// errTooMany says that the client must wait before another token of its is reviewed.
var errTooMany = errors.New("too many tokens to review")

// access is who asks, nil for nobody, and whether they may.
type access struct {
	user    *authenticationv1.UserInfo
	allowed bool
}

// reviewKey names a question: a token, a verb and a path. The token itself is not kept.
type reviewKey [sha256.Size]byte

// review is the answer to one question. asking holds a token while the hub is asked, so that many
// who ask at once cost one review.
type review struct {
	asking chan struct{}

	// The rest is guarded by the lock of reviews.
	access
	err error
	// until is when the answer ends; zero before the first one.
	until time.Time
}

// reviews remembers what the hub said.
type reviews struct {
	now func() time.Time

	mu      sync.Mutex
	byKey   map[reviewKey]*review
	sources map[string]*rate.Limiter
}

func newReviews(now func() time.Time) *reviews {
	return &reviews{now: now, byKey: map[reviewKey]*review{}, sources: map[string]*rate.Limiter{}}
}

// decide returns the remembered answer to a question, or asks the hub.
func (r *reviews) decide(ctx context.Context, key reviewKey, address string, ask func(context.Context) (access, error)) (access, error) {
	one := r.find(key)
	select {
	case one.asking <- struct{}{}:
		defer func() { <-one.asking }()
	case <-ctx.Done():
		return access{}, ctx.Err()
	}
	if said, ok, err := r.remembered(one, address); ok {
		return said, err
	}
	said, err := ask(ctx)
	if err != nil && ctx.Err() != nil {
		// The client went away, or the time is up: the next one asks.
		return access{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	life := refusedTime
	switch {
	case err != nil:
		life = failedTime
	case said.allowed:
		life = allowedTime
	}
	if one.err = err; err == nil {
		one.access = said
	}
	one.until = r.now().Add(life)
	return said, err
}

// remembered returns the answer that still counts, or that the address must wait. It is not ok when
// the hub is to be asked.
func (r *reviews) remembered(one *review, address string) (said access, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	switch {
	case now.Before(one.until) && one.err != nil:
		return access{}, true, one.err
	case now.Before(one.until):
		return one.access, true, nil
	case one.allowed || r.admit(address, now):
		return access{}, false, nil
	}
	return access{}, true, errTooMany
}

// find returns the entry of a question. When there are too many, those that have ended go, refused
// ones first.
func (r *reviews) find(key reviewKey) *review {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.byKey[key]; one != nil {
		return one
	}
	if len(r.byKey) >= maxReviews {
		now := r.now()
		maps.DeleteFunc(r.byKey, func(_ reviewKey, one *review) bool { return !one.allowed && now.After(one.until) })
	}
	if len(r.byKey) >= maxReviews {
		maps.DeleteFunc(r.byKey, func(_ reviewKey, one *review) bool { return !one.allowed })
	}
	if len(r.byKey) >= maxReviews {
		clear(r.byKey)
	}
	one := &review{asking: make(chan struct{}, 1)}
	r.byKey[key] = one
	return one
}

// admit counts a review that an address causes; false when it causes too many, or there are too
// many addresses.
func (r *reviews) admit(address string, now time.Time) bool {
	limiter := r.sources[address]
	if limiter == nil {
		if len(r.sources) >= maxAddresses {
			maps.DeleteFunc(r.sources, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= reviewsAtOnce })
		}
		if len(r.sources) >= maxAddresses {
			return false
		}
		limiter = rate.NewLimiter(reviewsPerSecond, reviewsAtOnce)
		r.sources[address] = limiter
	}
	return limiter.AllowN(now, 1)
}
