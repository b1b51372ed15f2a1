// Package testhub starts a real etcd and kube-apiserver for a Ginkgo suite, and runs Berth's
// controller on it. Start installs CRDs, roles, admission policies and the garbage collector. A
// suite that needs less, or other flags or CRDs, calls StartServer.
//
// It may import any package of Berth and is for tests only. Read hub.go first: Start, StartServer
// and the clients of users. objects.go has what suites share to create, edit and read objects, in
// functions that Eventually can call. controller.go runs the controller. programs.go finds and runs
// binaries.
package testhub
