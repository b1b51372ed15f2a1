// Package extenders asks extenders over HTTPS, in the background: no decision waits for a request.
// docs/extenders.md describes the protocol, docs/reference/extender.yaml the requests and answers.
//
// Read asker.go first: it takes the questions of the plugin in pkg/scheduler/extender and stores
// the answers. request.go asks one question, http.go sends one request. Errors are texts of this
// package, because those of net/http contain addresses.
//
// It may import the API types, the framework and the configuration.
package extenders
