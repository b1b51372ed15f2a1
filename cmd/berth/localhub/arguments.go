package localhub

import "fmt"

// etcdArgs returns the arguments of a single etcd member that accepts only clients with a
// certificate of the hub's authority. Its writes are durable (no --unsafe-no-fsync). The data
// contains the peer address, so it must not change, although nothing connects to it.
func etcdArgs(files layout, pki *pki, port int) []string {
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	return []string{
		"--name=berth",
		"--data-dir=" + files.path("etcd"),
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		"--listen-peer-urls=https://127.0.0.1:0",
		"--initial-advertise-peer-urls=https://127.0.0.1:2380",
		"--initial-cluster=berth=https://127.0.0.1:2380",
		"--cert-file=" + pki.etcdServer.certFile,
		"--key-file=" + pki.etcdServer.keyFile,
		"--trusted-ca-file=" + pki.etcdServer.caFile,
		"--client-cert-auth=true",
		"--peer-cert-file=" + pki.etcdServer.certFile,
		"--peer-key-file=" + pki.etcdServer.keyFile,
		"--peer-trusted-ca-file=" + pki.etcdServer.caFile,
		"--peer-client-cert-auth=true",
		"--log-level=warn",
	}
}

// apiServerArgs returns the arguments of an API server that needs only loopback. The endpoint
// reconciler is off because a loopback address is no endpoint; the ServiceAccount admission plugin
// is off because nothing creates the service accounts that it requires for Pods.
func apiServerArgs(pki *pki, ports *ports) []string {
	return []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", ports.apiServer.number),
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + pki.apiServer.certFile,
		"--tls-private-key-file=" + pki.apiServer.keyFile,
		"--client-ca-file=" + pki.apiServer.caFile,
		"--anonymous-auth=false",
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki.serviceAccountKey,
		"--service-account-signing-key-file=" + pki.serviceAccountKey,
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", ports.etcd.number),
		"--etcd-cafile=" + pki.etcdClient.caFile,
		"--etcd-certfile=" + pki.etcdClient.certFile,
		"--etcd-keyfile=" + pki.etcdClient.keyFile,
		"--profiling=false",
	}
}
