// Command reference writes the pages of docs/reference from the code: api.md from the CRDs,
// configuration.md from the schema of the configuration, command-line.md from the commands. It also
// writes docs/plugins/README.md, from the comments of the plugins, and the states and types of the
// page of berth explore. A test compares the files in the tree with its output.
//
// Usage, in the root of the repository: go run ./test/docs/reference
package main
