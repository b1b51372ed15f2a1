// Package resilience describes which failure domains of the fleet a Placement can lose: the domains
// (domain.go), what the loss of each one means, and the report (report.go). It is pure; the engine's
// decisions come from its callers.
//
// It may import api and, of pkg, scheduler/framework.
package resilience
