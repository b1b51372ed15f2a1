package member

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// ArgoCDTokenSecret is the Secret, in the namespace of a cluster, with the token of Argo CD.
const ArgoCDTokenSecret = "argocd-manager"

const (
	argoCDSecretPrefix = "cluster-"
	argoCDTokenKey     = "token"
	argoCDOwnName      = "in-cluster"
	// maxToken and maxURL are lengths in bytes.
	maxToken = 16 << 10
	maxURL   = 2 << 10
)

// ArgoCDClusters writes the cluster secrets of Argo CD for ManagedClusters. The address and its CA
// are written by the agent of the cluster, so they are checked, and written only as values.
type ArgoCDClusters struct {
	Hub       kubernetes.Interface
	Namespace string
	DryRun    bool
}

// ErrNoArgoCDAddress and ErrNoArgoCDToken are why a cluster gets no Secret yet.
var (
	ErrNoArgoCDAddress = errors.New("has no address in spec.managedClusterClientConfigs")
	ErrNoArgoCDToken   = errors.New("has no Secret " + ArgoCDTokenSecret + " in its namespace")
)

// Apply applies one Secret for each cluster that has an address and a token, and tells the result
// of each. It deletes nothing.
func (a *ArgoCDClusters) Apply(ctx context.Context, clusters []v1alpha1.ManagedCluster, tell func(cluster string, err error)) error {
	existing, err := a.Hub.CoreV1().Secrets(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: argoCDLabel + "=" + argoCDCluster})
	if err != nil {
		return fmt.Errorf("listing the Secrets of namespace %s: %w", a.Namespace, err)
	}
	// Argo CD identifies a cluster by its address or its name. Addresses have a colon, names none.
	owner := map[string]string{argoCDOwnName: "of Argo CD's own cluster"}
	for i := range existing.Items {
		secret := &existing.Items[i]
		owner[canonicalAddress(string(secret.Data[argoCDServerKey]))], owner[string(secret.Data[argoCDNameKey])] = secret.Name, secret.Name
	}
	// Of two clusters with one address, the older one has it.
	clusters = slices.SortedStableFunc(slices.Values(clusters), func(x, y v1alpha1.ManagedCluster) int {
		if order := x.CreationTimestamp.Compare(y.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(x.Name, y.Name)
	})
	for i := range clusters {
		tell(clusters[i].Name, a.apply(ctx, &clusters[i], owner))
	}
	return nil
}

func (a *ArgoCDClusters) apply(ctx context.Context, cluster *v1alpha1.ManagedCluster, owner map[string]string) error {
	if len(cluster.Spec.ManagedClusterClientConfigs) == 0 {
		return ErrNoArgoCDAddress
	}
	credentials, err := a.Hub.CoreV1().Secrets(cluster.Name).Get(ctx, ArgoCDTokenSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ErrNoArgoCDToken
	}
	if err != nil {
		return fmt.Errorf("reading its token: %w", err)
	}
	secret, err := argoCDSecret(cluster, string(credentials.Data[argoCDTokenKey]))
	if err != nil {
		return err
	}
	address := canonicalAddress(string(secret.Data[argoCDServerKey]))
	if other, taken := owner[address]; taken && other != secret.Name {
		return fmt.Errorf("spec.managedClusterClientConfigs[0].url: Secret %s already has this address, by which Argo CD identifies a cluster", other)
	}
	if other, taken := owner[cluster.Name]; taken && other != secret.Name {
		return fmt.Errorf("metadata.name: Secret %s already has this name, by which Argo CD identifies a cluster", other)
	}
	owner[address], owner[cluster.Name] = secret.Name, secret.Name
	object := applycorev1.Secret(secret.Name, a.Namespace).WithLabels(secret.Labels).WithData(secret.Data)
	options := metav1.ApplyOptions{FieldManager: "berth"}
	if a.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = a.Hub.CoreV1().Secrets(a.Namespace).Apply(ctx, object, options)
	return err
}

// argoCDSecret returns the cluster secret of a cluster, which readSecret reads.
func argoCDSecret(cluster *v1alpha1.ManagedCluster, token string) (*corev1.Secret, error) {
	address := cluster.Spec.ManagedClusterClientConfigs[0]
	if err := checkAgentAddress(address.URL); err != nil {
		return nil, fmt.Errorf("spec.managedClusterClientConfigs[0].url: %w", err)
	}
	if len(address.CABundle) > 0 {
		if _, err := certutil.ParseCertsPEM(address.CABundle); err != nil {
			return nil, errors.New("spec.managedClusterClientConfigs[0].caBundle: is no PEM with certificates")
		}
	}
	token = strings.TrimSpace(token)
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("key %[3]s of Secret %[1]s/%[2]s: is empty, too long or no token", cluster.Name, ArgoCDTokenSecret, argoCDTokenKey)
	}
	config := argoCDConfig{BearerToken: token}
	config.TLS.CAData = bytes.Clone(address.CABundle)
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: argoCDSecretPrefix + cluster.Name, Labels: map[string]string{argoCDLabel: argoCDCluster}},
		Data:       map[string][]byte{argoCDNameKey: []byte(cluster.Name), argoCDServerKey: []byte(address.URL), argoCDConfigKey: text},
	}
	if _, _, err := readSecret(secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// checkAgentAddress checks an address that the agent of a cluster wrote.
func checkAgentAddress(server string) error {
	if err := checkServer(server); err != nil {
		return err
	}
	address, err := url.Parse(server)
	if err != nil {
		return err
	}
	host := strings.ToLower(strings.TrimSuffix(address.Hostname(), "."))
	switch {
	case len(server) > maxURL:
		return fmt.Errorf("has more than %d bytes", maxURL)
	case strings.ContainsFunc(server, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("has characters that no address has")
	case address.Scheme != "https":
		return errors.New("must begin with https://, because the token is sent there")
	case address.Fragment != "":
		return errors.New("has a fragment")
	case host == "kubernetes" || strings.HasPrefix(host, "kubernetes.default"):
		return errors.New("is the address of Argo CD's own cluster")
	}
	return nil
}

// canonicalAddress returns one text for the spellings of an address.
func canonicalAddress(server string) string {
	address, err := url.Parse(server)
	if err != nil {
		return server
	}
	port := address.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(address.Scheme)]
	}
	host := strings.ToLower(strings.TrimSuffix(address.Hostname(), "."))
	return net.JoinHostPort(host, port) + strings.TrimRight(address.EscapedPath(), "/")
}
