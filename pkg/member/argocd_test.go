package member

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

func addressed(name, url string, ca []byte) *v1alpha1.ManagedCluster {
	c := fixture.Cluster(name).Obj()
	c.Spec.ManagedClusterClientConfigs = []v1alpha1.ClientConfig{{URL: url, CABundle: ca}}
	return c
}

func caBundle(t testing.TB) []byte {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// TestArgoCDSecret: what an agent may write as its address.
func TestArgoCDSecret(t *testing.T) {
	t.Parallel()
	ca := caBundle(t)
	for name, tc := range map[string]struct {
		url   string
		ca    []byte
		token string
		want  string
	}{
		"an address":                   {url: "https://paris.example.com:6443", ca: ca, token: "t"},
		"with a path, without a CA":    {url: "https://hub.example.com/k8s/clusters/c-1", token: "t"},
		"a token that ends its line":   {url: "https://paris.example.com", token: "t\n"},
		"a line break":                 {url: "https://paris.example.com\n  config: '{}'", token: "t", want: "is no address"},
		"a quote":                      {url: `https://paris.example.com/"},"execProviderConfig":{`, token: "t"},
		"http":                         {url: "http://paris.example.com", token: "t", want: "must begin with https://"},
		"another scheme":               {url: "file:///etc/passwd", token: "t", want: "is no address"},
		"a user":                       {url: "https://a:b@paris.example.com", token: "t", want: "has a user"},
		"a fragment":                   {url: "https://paris.example.com#x", token: "t", want: "has a fragment"},
		"Argo CD's own cluster":        {url: "https://Kubernetes.default.svc.:443", token: "t", want: "Argo CD's own cluster"},
		"a long address":               {url: "https://paris.example.com/" + strings.Repeat("a", 3000), token: "t", want: "more than 2048 bytes"},
		"a CA that is none":            {url: "https://paris.example.com", ca: []byte("x"), token: "t", want: "caBundle: is no PEM"},
		"no token":                     {url: "https://paris.example.com", want: "is empty, too long or no token"},
		"a token with a line break":    {url: "https://paris.example.com", token: "a\nb", want: "is empty, too long or no token"},
		"a token of a million letters": {url: "https://paris.example.com", token: strings.Repeat("a", 1e6), want: "is empty, too long or no token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret, err := argoCDSecret(addressed("paris", tc.url, tc.ca), tc.token)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, error %v, want %q", secret, err, tc.want)
			}
		})
	}
}

// FuzzArgoCDSecret: a secret has exactly what the cluster and its token have.
func FuzzArgoCDSecret(f *testing.F) {
	ca := caBundle(f)
	f.Add("https://paris.example.com", []byte(nil), "token")
	f.Add("https://paris.example.com/\"}", ca, "x\",\"execProviderConfig\":{\"command\":\"sh\"},\"y\":\"")
	f.Fuzz(func(t *testing.T, url string, ca []byte, token string) {
		secret, err := argoCDSecret(addressed("paris", url, ca), token)
		if err != nil {
			return
		}
		var fields map[string]any
		if err := json.Unmarshal(secret.Data["config"], &fields); err != nil {
			t.Fatal(err)
		}
		for field := range fields {
			if field != "bearerToken" && field != "tlsClientConfig" {
				t.Errorf("the config has the field %s", field)
			}
		}
		name, config, err := readSecret(secret)
		if err != nil || name != "paris" || config.Host != url || config.BearerToken != strings.TrimSpace(token) || !bytes.Equal(config.CAData, ca) || config.Insecure {
			t.Errorf("got %s, %v, error %v", name, config, err)
		}
	})
}

// TestArgoCDClusters: each cluster gets its own Secret, and no cluster the address of another one.
func TestArgoCDClusters(t *testing.T) {
	t.Parallel()
	aged := func(c *v1alpha1.ManagedCluster, age time.Duration) v1alpha1.ManagedCluster {
		c.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0).Add(-age))
		return *c
	}
	clusters := []v1alpha1.ManagedCluster{
		aged(addressed("imitator", "https://PARIS.example.com:443/", nil), 0),
		aged(addressed("paris", "https://paris.example.com", nil), time.Hour),
		aged(addressed("rome", "https://rome.example.com", nil), 0),
		aged(addressed("other", "https://manual.example.com", nil), 0),
		aged(addressed("in-cluster", "https://in-cluster.example.com", nil), 0),
		aged(addressed("again", "https://again.example.com", nil), 0),
		aged(addressed("tokenless", "https://tokenless.example.com", nil), 0),
		aged(fixture.Cluster("local").Obj(), 0),
	}
	manual := argoSecret("manual", "https://manual.example.com:443", `{}`)
	manual.Namespace, manual.Name = "argocd", "manual"
	again := argoSecret("again", "https://192.0.2.1", `{}`)
	again.Namespace, again.Name = "argocd", "added-by-hand"
	objects := []runtime.Object{manual, again}
	for _, name := range []string{"imitator", "paris", "rome", "other", "in-cluster", "again"} {
		objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "argocd-manager"}, Data: map[string][]byte{"token": []byte("token-of-" + name)}})
	}
	hub := fake.NewClientset(objects...)
	for range 2 {
		got := map[string]string{}
		writer := &ArgoCDClusters{Hub: hub, Namespace: "argocd"}
		err := writer.Apply(t.Context(), clusters, func(cluster string, err error) {
			got[cluster] = "applied"
			if err != nil {
				got[cluster] = err.Error()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		const taken = "spec.managedClusterClientConfigs[0].url: Secret %s already has this address, by which Argo CD identifies a cluster"
		want := map[string]string{
			"paris": "applied", "rome": "applied",
			"imitator":   strings.Replace(taken, "%s", "cluster-paris", 1),
			"other":      strings.Replace(taken, "%s", "manual", 1),
			"in-cluster": "metadata.name: Secret of Argo CD's own cluster already has this name, by which Argo CD identifies a cluster",
			"again":      "metadata.name: Secret added-by-hand already has this name, by which Argo CD identifies a cluster",
			"tokenless":  "has no Secret argocd-manager in its namespace",
			"local":      "has no address in spec.managedClusterClientConfigs",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	secret, err := hub.CoreV1().Secrets("argocd").Get(t.Context(), "cluster-rome", metav1.GetOptions{})
	if err != nil || !strings.Contains(string(secret.Data["config"]), `"token-of-rome"`) {
		t.Errorf("got %v, error %v", secret, err)
	}
}
