// Package admission has the webhook handlers that the API server calls before it stores an object.
// One writes the submitter's identity to a Placement, one verifies that identity, and one checks
// bindings and queue configurations.
//
// It converts admission requests and objects into values for pkg/tenancy, which decides. It may
// import api, the framework and tenancy with the packages below it.
package admission
