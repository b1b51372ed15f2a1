package localhub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfigs writes the administrator's kubeconfig, and gc's, which has a context for each of
// its controllers and no administrator. It returns the administrator's as a client configuration.
func writeKubeconfigs(files layout, pki *pki, port int) (*rest.Config, error) {
	admin := kubeconfigFor(port, map[string]*credentials{"berth": pki.admin})
	admin.CurrentContext = "berth"
	for path, kubeconfig := range map[string]*api.Config{
		files.path("kubeconfig"):           admin,
		files.path("pki", "gc.kubeconfig"): kubeconfigFor(port, map[string]*credentials{collectorName: pki.collector, namespacesName: pki.namespaces}),
	} {
		data, err := clientcmd.Write(*kubeconfig)
		if err != nil {
			return nil, err
		}
		if err := writeFile(path, data); err != nil {
			return nil, err
		}
	}
	config, err := clientcmd.NewDefaultClientConfig(*admin, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// kubeconfigFor returns a kubeconfig for the hub's API server with a context for each user.
func kubeconfigFor(port int, users map[string]*credentials) *api.Config {
	const cluster = "berth"
	kubeconfig := api.NewConfig()
	for name, user := range users {
		kubeconfig.Clusters[cluster] = &api.Cluster{
			Server:                   fmt.Sprintf("https://127.0.0.1:%d", port),
			CertificateAuthorityData: user.ca,
		}
		kubeconfig.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: user.cert, ClientKeyData: user.key}
		kubeconfig.Contexts[name] = &api.Context{Cluster: cluster, AuthInfo: name}
	}
	return kubeconfig
}

// probe returns a function that checks /readyz on a loopback port, for etcd and kube-apiserver.
func probe(credentials *credentials, port int) func(context.Context) error {
	return func(ctx context.Context) error {
		pair, err := tls.X509KeyPair(credentials.cert, credentials.key)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(credentials.ca)
		client := &http.Client{
			Timeout: 5 * time.Second,
			Transport: &http.Transport{
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12},
			},
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/readyz", port), nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 4096)) // only makes the message better
			return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
		}
		return nil
	}
}

// writeFile replaces a file atomically. Only the owner can read it.
func writeFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
