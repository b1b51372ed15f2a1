// Package server is a model of the Kubernetes API server: it keeps objects in memory and is
// reached by an http.RoundTripper, so that the real clients, caches and controllers run on it
// without a socket, also in a testing/synctest bubble.
//
// It has no managed fields, so no apply, no dry run, no authorization, and the kinds that Berth
// uses only.
//
// It may import the CRDs, and is for tests only. A differential test compares it with the real
// kube-apiserver. Read server.go first.
package server
