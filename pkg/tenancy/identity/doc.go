// Package identity reads who submitted a Placement, decides whose word about that counts, and finds
// the groups of users.
//
// It may import tenancy, and nothing of Kubernetes. Read identity.go first.
package identity
