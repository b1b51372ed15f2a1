// Package queueconfig reads and validates queue configurations in the language of Apache YuniKorn.
//
// It may import tenancy and tenancy/identity, and nothing of Kubernetes. Read config.go first.
// fields.go lists the fields of the language, the validate files check their values, and tree.go
// builds the Tree.
package queueconfig
