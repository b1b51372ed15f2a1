// Package simulator decides offline: objects in files → Snapshot → report; the same engine, no API
// server.
//
// load.go turns files, folders and standard input into typed objects and is the file to read first.
// source.go reads the bytes, scenario.go the recorded snapshots of a scenario file, and admit.go
// does to each object what an API server does before it stores one: prune, default, validate, with
// the very CRDs that Berth installs.
//
// It may import api, config/crd and, of pkg, scheduler, builtin, inventory, decisions and tenancy.
package simulator
