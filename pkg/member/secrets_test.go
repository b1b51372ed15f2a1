package member

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hidden is in every value that must not be shown.
const hidden = "hunter2"

// kubeconfig has one cluster, user and context, with the fields given.
func kubeconfig(cluster, user string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {%s}}]
users: [{name: u, user: {%s}}]
`, cluster, user)
}

func memberSecret(name, label, text string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name, Labels: map[string]string{MemberLabel: label}},
		Data:       map[string][]byte{"kubeconfig": []byte(text)},
	}
}

func argoSecret(name, server, config string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "s", Labels: map[string]string{argoCDLabel: "cluster"}},
		Data:       map[string][]byte{"name": []byte(name), "server": []byte(server), "config": []byte(config)},
	}
}

// TestReadSecret: an error names the Secret, the key and the field, and shows no value.
func TestReadSecret(t *testing.T) {
	const server = "https://m:6443"
	good := kubeconfig("server: '"+server+"'", "token: "+hidden)
	without := func(s *corev1.Secret, key string) *corev1.Secret {
		delete(s.Data, key)
		return s
	}
	labelled := func(s *corev1.Secret, label string) *corev1.Secret {
		s.Labels[MemberLabel] = label
		return s
	}
	tests := map[string]struct {
		secret *corev1.Secret
		want   string // name and host
		token  string
		err    string
	}{
		"a kubeconfig":              {secret: memberSecret("s", "paris", good), want: "paris " + server, token: hidden},
		"named like the Secret":     {secret: memberSecret("s", "", good), want: "s " + server, token: hidden},
		"Argo CD's":                 {secret: argoSecret("rome", server, `{"bearerToken": "`+hidden+`"}`), want: "rome " + server, token: hidden},
		"Argo CD's, with our label": {secret: labelled(argoSecret("Rome EU", server, `{"bearerToken": "`+hidden+`"}`), "rome"), want: "rome " + server, token: hidden},

		"no kubeconfig":       {secret: without(memberSecret("s", "a", ""), "kubeconfig"), err: "Secret fleet/s, key kubeconfig: is missing"},
		"an invalid name":     {secret: memberSecret("s", "Paris_1", good), err: `Secret fleet/s, label berth.dev/member: "Paris_1" cannot be the name of a ManagedCluster: label the Secret berth.dev/member=NAME`},
		"Argo CD's free name": {secret: argoSecret("Rome EU", server, `{}`), err: `Secret fleet/s, key name: "Rome EU" cannot be the name of a ManagedCluster: label the Secret berth.dev/member=NAME`},
		"no YAML":             {secret: memberSecret("s", "a", "a: b\n"+hidden+"\nc: ["), err: "Secret fleet/s, key kubeconfig: is no kubeconfig (line 3)"},
		"a wrong type":        {secret: memberSecret("s", "a", "users: "+hidden), err: "Secret fleet/s, key kubeconfig: is no kubeconfig"},
		"another kind":        {secret: memberSecret("s", "a", "apiVersion: v1\nkind: Secret"), err: "Secret fleet/s, key kubeconfig: is no kubeconfig"},
		"no context":          {secret: memberSecret("s", "a", "apiVersion: v1\nkind: Config"), err: `Secret fleet/s, key kubeconfig: current-context: there is no context ""`},
		"no cluster": {
			secret: memberSecret("s", "a", strings.Replace(good, "name: c,", "name: d,", 1)),
			err:    `Secret fleet/s, key kubeconfig: contexts[x].context.cluster: there is no cluster "c"`,
		},
		"no user":       {secret: memberSecret("s", "a", strings.Replace(good, "name: u,", "name: d,", 1)), err: `Secret fleet/s, key kubeconfig: contexts[x].context.user: there is no user "u"`},
		"no server":     {secret: memberSecret("s", "a", kubeconfig("", "")), err: "Secret fleet/s, key kubeconfig: clusters[c].cluster.server: is missing"},
		"not a server":  {secret: memberSecret("s", "a", kubeconfig("server: m", "")), err: "Secret fleet/s, key kubeconfig: clusters[c].cluster.server: is no address: write https://HOST:PORT"},
		"with password": {secret: memberSecret("s", "a", kubeconfig("server: 'https://u:"+hidden+"@m'", "")), err: "Secret fleet/s, key kubeconfig: clusters[c].cluster.server: has a user, a password or a query, which are not supported: use the fields for credentials"},
		"a program":     {secret: memberSecret("s", "a", kubeconfig("server: '"+server+"'", "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}")), err: "Secret fleet/s, key kubeconfig: users[u].user.exec: programs are not run: use token or client-certificate-data"},
		"a token file":  {secret: memberSecret("s", "a", kubeconfig("server: '"+server+"'", "tokenFile: /var/run/secrets/token")), err: "Secret fleet/s, key kubeconfig: users[u].user.tokenFile: files are not read: write the content into the Secret, as token"},
		"a CA file":     {secret: memberSecret("s", "a", kubeconfig("server: '"+server+"', certificate-authority: /ca", "")), err: "Secret fleet/s, key kubeconfig: clusters[c].cluster.certificate-authority: files are not read: write the content into the Secret, as certificate-authority-data"},
		"a proxy with a password": {
			secret: memberSecret("s", "a", kubeconfig("server: '"+server+"', proxy-url: 'http://u:"+hidden+"@p'", "")),
			err:    "Secret fleet/s, key kubeconfig: clusters[c].cluster.proxy-url: is no address, or has a user",
		},
		"an invalid certificate": {
			secret: memberSecret("s", "a", kubeconfig("server: '"+server+"', certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(hidden)), "")),
			err:    "Secret fleet/s, key kubeconfig: the certificates or keys are invalid: ",
		},

		"Argo CD's without server":      {secret: without(argoSecret("a", "", "{}"), "server"), err: "Secret fleet/s, key server: is missing"},
		"Argo CD's without config":      {secret: without(argoSecret("a", server, ""), "config"), err: "Secret fleet/s, key config: is missing"},
		"Argo CD's, no JSON":            {secret: argoSecret("a", server, `{"bearerToken": `+hidden), err: "Secret fleet/s, key config: is no JSON (byte 17)"},
		"Argo CD's, a wrong type":       {secret: argoSecret("a", server, `{"tlsClientConfig": {"insecure": "`+hidden+`"}}`), err: "Secret fleet/s, key config: tlsClientConfig.insecure: has the wrong type"},
		"Argo CD's, no base64":          {secret: argoSecret("a", server, `{"tlsClientConfig": {"caData": "`+hidden+`!"}}`), err: "Secret fleet/s, key config: tlsClientConfig: caData, certData and keyData are PEM in base64"},
		"Argo CD's without credentials": {secret: argoSecret("a", server, `{}`), err: "Secret fleet/s, key config: has no credentials: set bearerToken, or tlsClientConfig.certData and keyData"},
		"Argo CD's with a program":      {secret: argoSecret("a", server, `{"execProviderConfig": {"command": "sh"}}`), err: "Secret fleet/s, key config: execProviderConfig: programs are not run: use bearerToken or tlsClientConfig.certData"},
		"Argo CD's for AWS":             {secret: argoSecret("a", server, `{"awsAuthConfig": {"clusterName": "a"}}`), err: "Secret fleet/s, key config: awsAuthConfig: is not supported: use bearerToken or tlsClientConfig.certData"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			member, config, err := readSecret(tc.secret)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) || !strings.HasSuffix(tc.err, ": ") && err.Error() != tc.err {
					t.Fatalf("got error %v\nwant      %s", err, tc.err)
				}
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("the error shows a secret: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := member + " " + config.Host; got != tc.want || config.BearerToken != tc.token {
				t.Errorf("got %s, token %q; want %s", got, config.BearerToken, tc.want)
			}
		})
	}
}
