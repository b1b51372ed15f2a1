// Command configschema writes the JSON schema (draft 2020-12) of the
// PlacementSchedulerConfiguration. It reads the types in pkg/scheduler/config and those of the
// plugins' arguments, with their comments and markers. Read table.go first: it maps plugins to
// their arguments.
//
// Usage, in the root of the repository: configschema FILE
package main
