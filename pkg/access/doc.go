// Package access asks the hub who the bearer token of a request belongs to, and what the user is
// permitted to do: for metrics, the debugger and the generator. It caches the answers.
//
// Read guard.go first. reviews.go has the cache and its limits. It imports nothing of Berth.
package access
