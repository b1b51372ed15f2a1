// Package app is the command line of berth, one file per subcommand. It may import any package of
// Berth, and no other package but main imports it, apart from programs that compile plugins of
// their own into berth.
//
// Read root.go first: it lists the subcommands and says how errors become messages and exit codes.
package app
