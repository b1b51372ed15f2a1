// Command configschema writes the JSON schema (draft 2020-12) of the
// PlacementSchedulerConfiguration, from the types in pkg/scheduler/config and those of the plugins'
// arguments, with their comments and markers. table.go says which arguments belong to which plugin
// and is the file to read first.
//
// Usage, in the root of the repository: configschema FILE
package main
