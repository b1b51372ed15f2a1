// Package actions decides and makes the writes by which people act on a hub: approve, reject,
// evict, drain, undrain, suspend, resume, undo, pin and unpin. The commands of those names and the
// page of `berth explore` use it.
//
// Read actions.go first: Prepare reads the hub and returns what would be done, Do does exactly
// that; Check comes between them. permissions.go has the permissions that an action needs,
// command.go the same action on the command line, read.go what others read of a Placement, too.
//
// It may import api and changes.
package actions
