// Package plan plans what an attempt publishes and records: steps 5 to 8. A Plan is complete before
// anything of it is written.
//
// It may import api, framework, plugins, limits, decide, selection and changes. Read plan.go first.
package plan
