package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Labels of the Secrets that describe members. The value of MemberLabel is the name of the
// ManagedCluster; if it is empty, the Secret's name is.
const (
	MemberLabel     = "berth.dev/member"
	argoCDLabel     = "argocd.argoproj.io/secret-type"
	argoCDCluster   = "cluster"
	kubeconfigKey   = "kubeconfig"
	argoCDNameKey   = "name"
	argoCDServerKey = "server"
	argoCDConfigKey = "config"
)

// secretError is what is wrong with a key of a Secret.
type secretError struct {
	secret, key string
	err         error
}

func (e *secretError) Error() string { return fmt.Sprintf("Secret %s, %s: %v", e.secret, e.key, e.err) }
func (e *secretError) Unwrap() error { return e.err }

// readSecret returns the ManagedCluster that a Secret describes, and how to connect to the member.
// Its error names the Secret, the key and the field, and never has a part of a value that may be
// secret.
func readSecret(s *corev1.Secret) (name string, config *rest.Config, err error) {
	key, read := kubeconfigKey, readKubeconfig
	_, hasKubeconfig := s.Data[kubeconfigKey]
	if s.Labels[argoCDLabel] == argoCDCluster && !hasKubeconfig {
		key, read = argoCDConfigKey, func(data []byte) (*rest.Config, error) { return readArgoCD(string(s.Data[argoCDServerKey]), data) }
	}
	fail := func(key string, err error) (string, *rest.Config, error) {
		return "", nil, &secretError{secret: s.Namespace + "/" + s.Name, key: key, err: err}
	}
	name, where, err := memberName(s)
	if err != nil {
		return fail(where, err)
	}
	data, ok := s.Data[key]
	if !ok {
		return fail("key "+key, errors.New("is missing"))
	}
	if key == argoCDConfigKey {
		if err := checkServer(string(s.Data[argoCDServerKey])); err != nil {
			return fail("key "+argoCDServerKey, err)
		}
	}
	if config, err = read(data); err != nil {
		return fail("key "+key, err)
	}
	// Certificates and keys are checked here; no request is sent.
	if _, err := rest.HTTPClientFor(config); err != nil {
		return fail("key "+key, fmt.Errorf("the certificates or keys are invalid: %w", err))
	}
	return name, config, nil
}

// memberName returns the ManagedCluster of a Secret, and what the name was read from.
func memberName(s *corev1.Secret) (name, where string, err error) {
	value, labelled := s.Labels[MemberLabel]
	switch {
	case value != "":
		name, where = value, "label "+MemberLabel
	case labelled:
		name, where = s.Name, "name of the Secret"
	default:
		name, where = string(s.Data[argoCDNameKey]), "key "+argoCDNameKey
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", where, fmt.Errorf("%q cannot be the name of a ManagedCluster: label the Secret %s=NAME", name, MemberLabel)
	}
	return name, where, nil
}

func checkServer(server string) error {
	address, err := url.Parse(server)
	switch {
	case server == "":
		return errors.New("is missing")
	case err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http":
		return errors.New("is no address: write https://HOST:PORT")
	case address.User != nil || address.RawQuery != "":
		return errors.New("has a user, a password or a query, which are not supported: use the fields for credentials")
	}
	return nil
}

// yamlLine finds the line in an error about YAML, whose other words may be of the value.
var yamlLine = regexp.MustCompile(`line \d+`)

func readKubeconfig(data []byte) (*rest.Config, error) {
	raw, err := clientcmd.Load(data)
	if err != nil {
		where := ""
		if line := yamlLine.FindString(err.Error()); line != "" {
			where = " (" + line + ")"
		}
		return nil, errors.New("is no kubeconfig" + where)
	}
	used, ok := raw.Contexts[raw.CurrentContext]
	if !ok {
		return nil, fmt.Errorf("current-context: there is no context %q", raw.CurrentContext)
	}
	cluster, ok := raw.Clusters[used.Cluster]
	if !ok {
		return nil, fmt.Errorf("contexts[%s].context.cluster: there is no cluster %q", raw.CurrentContext, used.Cluster)
	}
	user, ok := raw.AuthInfos[used.AuthInfo]
	if !ok {
		return nil, fmt.Errorf("contexts[%s].context.user: there is no user %q", raw.CurrentContext, used.AuthInfo)
	}
	if err := checkServer(cluster.Server); err != nil {
		return nil, fmt.Errorf("clusters[%s].cluster.server: %w", used.Cluster, err)
	}
	if err := refuseFiles(used, cluster, user); err != nil {
		return nil, err
	}
	if address, err := url.Parse(cluster.ProxyURL); err != nil || address.User != nil {
		return nil, fmt.Errorf("clusters[%s].cluster.proxy-url: is no address, or has a user", used.Cluster)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, raw.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, errors.New("is an incomplete or inconsistent kubeconfig")
	}
	return config, nil
}

// refuseFiles refuses what would run a program of the reporter's machine or read its files: the
// author of a Secret must not be able to do either.
func refuseFiles(used *clientcmdapi.Context, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	const file, program = "files are not read: write the content into the Secret, as ", "programs are not run: use token or client-certificate-data"
	for _, field := range []struct {
		path, advice string
		set          bool
	}{
		{"clusters[" + used.Cluster + "].cluster.certificate-authority", file + "certificate-authority-data", cluster.CertificateAuthority != ""},
		{"users[" + used.AuthInfo + "].user.client-certificate", file + "client-certificate-data", user.ClientCertificate != ""},
		{"users[" + used.AuthInfo + "].user.client-key", file + "client-key-data", user.ClientKey != ""},
		{"users[" + used.AuthInfo + "].user.tokenFile", file + "token", user.TokenFile != ""},
		{"users[" + used.AuthInfo + "].user.exec", program, user.Exec != nil},
		{"users[" + used.AuthInfo + "].user.auth-provider", program, user.AuthProvider != nil},
	} {
		if field.set {
			return fmt.Errorf("%s: %s", field.path, field.advice)
		}
	}
	return nil
}

// argoCDConfig is the part of Argo CD's cluster configuration that is understood.
type argoCDConfig struct {
	Username    string `json:"username,omitempty"`
	Password    string `json:"password,omitempty"`
	BearerToken string `json:"bearerToken,omitempty"`
	ProxyURL    string `json:"proxyUrl,omitempty"`
	TLS         struct {
		Insecure   bool   `json:"insecure,omitempty"`
		ServerName string `json:"serverName,omitempty"`
		CAData     []byte `json:"caData,omitempty"`
		CertData   []byte `json:"certData,omitempty"`
		KeyData    []byte `json:"keyData,omitempty"`
	} `json:"tlsClientConfig"`
	Exec *struct{} `json:"execProviderConfig,omitempty"`
	AWS  *struct{} `json:"awsAuthConfig,omitempty"`
}

func readArgoCD(server string, data []byte) (*rest.Config, error) {
	var c argoCDConfig
	if err := json.Unmarshal(data, &c); err != nil {
		if field, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("%s: has the wrong type", strings.TrimPrefix(field.Field, "."))
		}
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("is no JSON (byte %d)", syntax.Offset)
		}
		return nil, errors.New("tlsClientConfig: caData, certData and keyData are PEM in base64")
	}
	config := &rest.Config{
		Host: server, Username: c.Username, Password: c.Password, BearerToken: c.BearerToken,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: c.TLS.Insecure, ServerName: c.TLS.ServerName, CAData: c.TLS.CAData, CertData: c.TLS.CertData, KeyData: c.TLS.KeyData,
		},
	}
	switch {
	case c.Exec != nil:
		return nil, errors.New("execProviderConfig: programs are not run: use bearerToken or tlsClientConfig.certData")
	case c.AWS != nil:
		return nil, errors.New("awsAuthConfig: is not supported: use bearerToken or tlsClientConfig.certData")
	case c.BearerToken == "" && c.Username == "" && len(c.TLS.CertData) == 0:
		return nil, errors.New("has no credentials: set bearerToken, or tlsClientConfig.certData and keyData")
	case c.TLS.Insecure && len(c.TLS.CAData) > 0:
		return nil, errors.New("tlsClientConfig: insecure and caData exclude each other")
	}
	if c.ProxyURL != "" {
		proxy, err := url.Parse(c.ProxyURL)
		if err != nil || proxy.Host == "" || proxy.User != nil {
			return nil, errors.New("proxyUrl: is no address, or has a user")
		}
		config.Proxy = http.ProxyURL(proxy)
	}
	return config, nil
}
