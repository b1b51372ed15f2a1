// Package resilience describes which failure domains of the fleet a Placement can lose: the domains
// (domain.go), what the loss of each one does, and the report (report.go). It is pure; its callers
// decide with the engine.
//
// It may import api and, of pkg, scheduler/framework.
package resilience
