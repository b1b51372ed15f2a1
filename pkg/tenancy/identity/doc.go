// Package identity reads the submitter of a Placement, decides which users may name another
// submitter, and resolves the groups of users.
//
// It may import tenancy, and nothing of Kubernetes. Read identity.go first.
package identity
