// Package app is the command line of berth, one file per subcommand. It may import any package of
// Berth. Only main imports it, and programs that compile their own plugins into berth.
//
// Read root.go first: it lists the subcommands and turns errors into messages and exit codes.
package app
