// Package plugin tests `kubectl placement` as a process under that name, on a real API server with
// the controller and the admission policy for approvals. It also runs the commands of
// docs/kubectl-placement.md.
package plugin
