// Package localhub runs a hub on one machine: etcd, kube-apiserver and gc (tools/hub/cmd/gc) as
// child processes that listen on loopback only. One data directory keeps everything for the next
// start:
//
//	lock              held (flock) by the process that runs the hub, and its pid
//	kubeconfig        the administrator's kubeconfig
//	ports.json        the ports of the last start, used again while they are free
//	pki/              certificate authority, certificates, service account keys
//	etcd/             the data, written durably
//	logs/             one log per child, and the one before it
//	run/              one pid file per living child
//
// The hub stops its children in order. If the hub itself is killed, the kernel (Linux) or the next
// start (elsewhere) ends them. Where system_unix.go is not built, such as on Windows, Start returns
// an error.
//
// It imports nothing of Berth. Read hub.go first.
package localhub
