// Package admission holds the handlers the API server asks before it stores an object: one stamps
// the submitter's identity on a Placement, one verifies that stamp, one checks bindings and queue
// configurations.
//
// It turns admission requests and objects into values for pkg/tenancy, which decides. It may import
// api, the framework and tenancy with the packages below it.
package admission
