// Package rbac has the roles for people, as YAML.
//
// It imports nothing of Berth.
package rbac

import "embed"

// Roles holds the roles for people.
//
//go:embed user_roles.yaml
var Roles embed.FS
