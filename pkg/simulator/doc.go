// Package simulator decides offline: objects in files → Snapshot → report. It uses the same engine
// as the controller, and no API server.
//
// Read load.go first: it turns files, folders and standard input into typed objects. source.go
// reads the bytes. scenario.go reads the recorded snapshots of a scenario file. admit.go treats
// each object as an API server does before it stores one: prune, default, validate, with the CRDs
// that Berth installs; refuse.go and policies.go then apply the checks of the webhook and the
// admission policies. resilience.go decides without the clusters of each failure domain.
//
// It may import api, config/crd, config/admission and, of pkg, scheduler, builtin, inventory,
// lifecycle, decisions, changes, admission, resilience and tenancy.
package simulator
