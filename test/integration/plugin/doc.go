// Package plugin tests `kubectl placement` as its users run it, as a process under that name, on a
// real API server with the controller and the policy on approvals. It runs
// docs/kubectl-placement.md, too.
package plugin
