// Package queueconfig reads queue configurations, in the language of Apache YuniKorn, and validates
// them.
//
// It may import tenancy and tenancy/identity, and nothing of Kubernetes. Read config.go first;
// fields.go has the language, the files named validate say what may be wrong, and tree.go builds
// the Tree.
package queueconfig
