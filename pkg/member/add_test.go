package member

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestAdd: a cluster is added once, a second time changes nothing, and nothing is written if
// something is wrong.
func TestAdd(t *testing.T) {
	member := newFakeMember(t, "")
	down := newFakeMember(t, "")
	down.Close()
	all := []string{"Namespace paris created", "Namespace fleet created", "ManagedCluster paris created", "Secret fleet/paris created"}
	labelled := fixture.Set("eu")
	labelled.Spec.ClusterSelector = v1alpha1.ManagedClusterSelector{SelectorType: v1alpha1.LabelSelector}
	for name, tc := range map[string]struct {
		hub     []client.Object
		server  string
		user    string
		change  func(*Addition)
		want    []string
		wantErr string
	}{
		"new":       {hub: []client.Object{fixture.Set("eu")}, want: all},
		"a dry run": {hub: []client.Object{fixture.Set("eu")}, change: func(a *Addition) { a.DryRun = true }, want: all},
		"no set":    {change: func(a *Addition) { a.Set = "" }, want: all},
		"some exist": {
			hub:  []client.Object{fixture.Set("eu"), fixture.Cluster("paris").Label("a", "b").Obj(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}},
			want: []string{"Namespace paris unchanged", "Namespace fleet created", "ManagedCluster paris updated", "Secret fleet/paris created"},
		},
		"labels": {
			hub:    []client.Object{fixture.Set("eu"), fixture.Cluster("paris").Set("eu").Label("region", "us").Obj()},
			change: func(a *Addition) { a.Labels = map[string]string{"region": "eu"} },
			want:   []string{"Namespace paris created", "Namespace fleet created", "ManagedCluster paris updated", "Secret fleet/paris created"},
		},
		"another name":     {change: func(a *Addition) { a.Name = "a.b" }, wantErr: `NAME: "a.b" cannot be the name of a cluster`},
		"no such set":      {wantErr: "there is no ManagedClusterSet eu"},
		"a set by labels":  {hub: []client.Object{labelled}, wantErr: "ManagedClusterSet eu: spec.clusterSelector.selectorType: "},
		"in another set":   {hub: []client.Object{fixture.Set("eu"), fixture.Cluster("paris").Set("us").Obj()}, wantErr: "ManagedCluster paris: metadata.labels[cluster.open-cluster-management.io/clusterset]: the cluster is in the set us; to move it: kubectl label managedcluster paris "},
		"another's Secret": {hub: []client.Object{fixture.Set("eu"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "paris"}}}, wantErr: "Secret fleet/paris: metadata.labels[berth.dev/member]: "},
		"no context":       {change: func(a *Addition) { a.Context = "other" }, wantErr: `current-context "other": `},
		"no file":          {change: func(a *Addition) { a.Kubeconfig += "x" }, wantErr: "reading the kubeconfig of the member: "},
		"a program":        {user: "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}", wantErr: "users[u].user.exec: programs are not run"},
		"no answer":        {hub: []client.Object{fixture.Set("eu")}, server: down.URL, wantErr: "the member at " + down.URL + ": The member does not respond: "},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.hub...).Build()
			file := filepath.Join(t.TempDir(), "kubeconfig")
			server, user := member.URL, "token: t"
			if tc.server != "" {
				server = tc.server
			}
			if tc.user != "" {
				user = tc.user
			}
			text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}, {name: d, context: {cluster: c, user: u}}],\n"+
				" clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {%s}}]}", server, user)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var done []string
			a := &Addition{
				Hub: hub, Name: "paris", Set: "eu", Namespace: "fleet", Kubeconfig: file,
				Step: func(string) {}, Done: func(object, what string) { done = append(done, object+" "+what) },
			}
			if tc.change != nil {
				tc.change(a)
			}
			before := written(t, hub)
			err := a.Add(t.Context())
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("got %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, done); diff != "" {
				t.Errorf("what is done (-want +got):\n%s", diff)
			}
			after := written(t, hub)
			if diff := cmp.Diff(before, after); (err != nil || a.DryRun) && diff != "" {
				t.Errorf("it writes:\n%s", diff)
			}
			if err != nil || a.DryRun {
				return
			}
			done = nil
			if err := a.Add(t.Context()); err != nil || strings.Contains(strings.Join(done, " "), "created") || strings.Contains(strings.Join(done, " "), "updated") {
				t.Errorf("a second time: %v, %v", done, err)
			}
			secret := &corev1.Secret{}
			if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "paris"}, secret); err != nil {
				t.Fatal(err)
			}
			if name, config, err := readSecret(secret); err != nil || name != "paris" || config.Host != member.URL || strings.Contains(string(secret.Data["kubeconfig"]), "name: d") {
				t.Errorf("the reporter reads %s, %v, %v from\n%s", name, config, err, secret.Data["kubeconfig"])
			}
		})
	}
}

// written are the names and versions of all objects.
func written(t *testing.T, hub client.Client) []string {
	t.Helper()
	var all []string
	for _, list := range []client.ObjectList{&v1alpha1.ManagedClusterList{}, &corev1.NamespaceList{}, &corev1.SecretList{}} {
		if err := hub.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			all = append(all, fmt.Sprintf("%T %s %s", o, o.(client.Object).GetName(), o.(client.Object).GetResourceVersion()))
		}
	}
	return all
}
