// Package testhub starts a real etcd and kube-apiserver for a Ginkgo suite, with Berth's CRDs,
// roles, admission policies and the garbage collector, and runs Berth's controller on it with its
// own rights.
//
// It may import anything and is for tests only. Read hub.go first.
package testhub
