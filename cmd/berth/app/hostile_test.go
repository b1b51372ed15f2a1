package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/test/fixture"
)

// hubKinds are the kinds of a hub, by resource, in the consumers' versions.
var hubKinds = map[string]hubKind{
	"placements":                {v1alpha1.GroupName, "v1beta1", "Placement", true},
	"placementdecisions":        {v1alpha1.GroupName, "v1beta1", "PlacementDecision", true},
	"managedclusters":           {v1alpha1.GroupName, "v1", "ManagedCluster", false},
	"managedclustersets":        {v1alpha1.GroupName, "v1beta2", "ManagedClusterSet", false},
	"managedclustersetbindings": {v1alpha1.GroupName, "v1beta2", "ManagedClusterSetBinding", true},
	"addonplacementscores":      {v1alpha1.GroupName, "v1alpha1", "AddOnPlacementScore", true},
	"placementchanges":          {berthv1alpha1.GroupName, "v1alpha1", "PlacementChange", true},
	"placementevictions":        {berthv1alpha1.GroupName, "v1alpha1", "PlacementEviction", true},
	"selectionpolicies":         {berthv1alpha1.GroupName, "v1alpha1", "SelectionPolicy", true},
	"disruptionpolicies":        {berthv1alpha1.GroupName, "v1alpha1", "DisruptionPolicy", true},
}

type hubKind struct {
	group, version, kind string
	namespaced           bool
}

func (k hubKind) apiVersion() string { return k.group + "/" + k.version }

// hostileLists are what the hostile hub has, by resource: hostile text wherever its schema, or a
// hub without one, lets it in.
func hostileLists() map[string][]any {
	held := fixture.Placement("shop", "web").Number(1).Annotation(hostile, hostile).Obj()
	held.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.PlacementConditionDecisionPending, Status: "True", Reason: v1alpha1.ReasonHeld, Message: "Change 0123abcd-x (1 added: " + hostile,
	}}
	typed := func(plural string) metav1.TypeMeta {
		return metav1.TypeMeta{Kind: hubKinds[plural].kind, APIVersion: hubKinds[plural].apiVersion()}
	}
	held.TypeMeta = typed("placements")
	page := fixture.Page("shop", hostile).Of("web").OwnedBy("web").Lists(hostile).Obj()
	page.TypeMeta = typed("placementdecisions")
	record := changes.NewRecord(held, 3, 7, changes.NewChange([]string{hostile}, []string{hostile + "2"}))
	record.TypeMeta, record.Name = typed("placementchanges"), hostile
	record.Spec.Cause, record.Spec.Profile = hostile, hostile
	record.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Rejected, By: hostile, Comment: hostile}
	record.Status = berthv1alpha1.PlacementChangeStatus{
		Phase: berthv1alpha1.PhaseHeld, Message: hostile, Holds: []berthv1alpha1.ChangeHold{{Plugin: hostile, Reason: hostile}},
	}
	truncated := record.DeepCopy()
	truncated.Spec.Revision, truncated.Spec.Truncated, truncated.Spec.From = 9, true, hostile
	evicted := fixture.Eviction("shop", hostile, hostile, hostile).Valid(metav1.ConditionTrue).Obj()
	evicted.TypeMeta = typed("placementevictions")
	selecting := &berthv1alpha1.SelectionPolicy{TypeMeta: typed("selectionpolicies"), ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: hostile}}
	selecting.Spec = berthv1alpha1.SelectionPolicySpec{Placement: hostile, ClusterNames: berthv1alpha1.ClusterNames{Exclude: []string{hostile}}}
	return map[string][]any{
		"placements":         {held, fixture.Placement("shop", hostile).Obj()},
		"placementdecisions": {page, fixture.Page(hostile, "page").Of(hostile).Lists(hostile).Obj()},
		"managedclusters": {
			fixture.Cluster(hostile).Set("s").Taint("key", hostile, v1alpha1.TaintEffectNoSelect).Obj(), fixture.Cluster("plain").Set("s").Obj(),
		},
		"managedclustersets":        {fixture.Set("s")},
		"managedclustersetbindings": {fixture.Binding("shop", "s")},
		"addonplacementscores":      {},
		"placementchanges":          {record, truncated},
		"placementevictions":        {evicted},
		"disruptionpolicies":        {},
		"selectionpolicies":         {selecting},
	}
}

// recordHostile writes a recording whose names, values and messages are hostile, and returns its
// folder.
func recordHostile(t *testing.T) string {
	t.Helper()
	r, err := recording.New(recording.Options{Dir: t.TempDir(), Version: hostile, Now: time.Now, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	inv := inventory.New(inventory.Options{OnInput: r.OnInput()})
	for _, objects := range hostileLists() {
		for _, object := range objects {
			inv.Update(object.(client.Object))
		}
	}
	inv.Started()
	r.Begin(inv)
	r.Decided(&recording.Decision{
		Namespace: "shop", Name: hostile, UID: inv.Placement(inventory.Key{Namespace: "shop", Name: hostile}).UID, Now: time.Now(), Profile: hostile, Cause: hostile,
		Outcome: hostile, Failure: hostile, Added: []string{hostile}, Removed: []string{hostile},
	}, nil)
	ended, end := context.WithCancel(context.Background())
	end()
	r.Run(ended)
	return r.Dir()
}

// startHostileHub answers as a hub whose names, values and messages are hostile, and returns the
// path of a kubeconfig for it.
func startHostileHub(t *testing.T) string {
	t.Helper()
	answers := map[string]any{"/api": metav1.APIVersions{Versions: []string{"v1"}}, "/api/v1": metav1.APIResourceList{GroupVersion: "v1"}}
	groups := map[string]*metav1.APIGroup{}
	resources := map[string]*metav1.APIResourceList{}
	for plural, of := range hubKinds {
		path := of.apiVersion()
		if groups[of.group] == nil {
			groups[of.group] = &metav1.APIGroup{Name: of.group}
			answers["/apis/"+of.group] = groups[of.group]
		}
		if resources[path] == nil {
			resources[path] = &metav1.APIResourceList{GroupVersion: path}
			groups[of.group].Versions = append(groups[of.group].Versions, metav1.GroupVersionForDiscovery{GroupVersion: path, Version: of.version})
			answers["/apis/"+path] = resources[path]
		}
		resources[path].APIResources = append(resources[path].APIResources, metav1.APIResource{
			Name: plural, Kind: of.kind, Namespaced: of.namespaced, Verbs: metav1.Verbs{"get", "list", "patch"},
		})
		list := map[string]any{"kind": of.kind + "List", "apiVersion": path, "metadata": map[string]any{}, "items": hostileLists()[plural]}
		answers["/apis/"+path+"/"+plural] = list
		answers["/apis/"+path+"/namespaces/shop/"+plural] = list
	}
	answers["/apis"] = metav1.APIGroupList{Groups: []metav1.APIGroup{*groups[v1alpha1.GroupName], *groups[berthv1alpha1.GroupName]}}
	answers["/apis/"+v1alpha1.GroupName+"/v1beta1/namespaces/shop/placements/web"] = hostileLists()["placements"][0]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !found || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 403, Reason: "Forbidden", Message: hostile}
		}
		_ = json.NewEncoder(w).Encode(answer) // a client that went away
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}, {name: ` + quotedHostile() + `}],
 clusters: [{name: c, cluster: {server: "` + server.URL + `"}}], users: [{name: u}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// quotedHostile is the hostile text in YAML.
func quotedHostile() string {
	data, _ := json.Marshal(hostile) // a string always can
	return string(escapeControls(data, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) }))
}

// TestHostileText feeds every command hostile text, from the hub, from files and as arguments. A
// terminal is shown no control character, and no line that the text forges.
func TestHostileText(t *testing.T) {
	kubeconfig := startHostileHub(t)
	t.Setenv("KUBECONFIG", kubeconfig)
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var objects []any
	for kind, list := range hostileLists() {
		for _, o := range list {
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			object := map[string]any{}
			if err := json.Unmarshal(text, &object); err != nil {
				t.Fatal(err)
			}
			object["kind"], object["apiVersion"] = hubKinds[kind].kind, hubKinds[kind].apiVersion()
			// The schema takes these names no more than an API server does.
			if metadata, ok := object["metadata"].(map[string]any); ok && strings.Contains(metadata["name"].(string), "evil") {
				if kind != "managedclusters" {
					continue
				}
				metadata["name"] = "tainted"
			}
			objects = append(objects, object)
		}
	}
	fleet := write("fleet.json", quotedList(t, objects))
	refused := write("refused.yaml", "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {namespace: shop, name: "+quotedHostile()+"}\n")
	queues := write("queues.yaml", "partitions: [{name: default, queues: [{name: root, queues: [{name: a, properties: {berth.dev/clustersets: "+quotedHostile()+"}}]}], placementrules: [{name: tag, value: "+quotedHostile()+"}]}]\n")
	// A hub answers in UTF-8.
	onHub := strings.ToValidUTF8(hostile, "\ufffd")
	recorded := recordHostile(t)
	words := map[string][][]string{
		"":                {{hostile}, {"--" + hostile}, {"help", hostile}, {"__complete", "explain", ""}, {"__complete", "top", "--context", ""}, {"__complete", "explain", "--cluster", ""}},
		"approve":         {{"web", "--yes"}, {"web", "--yes", "-o", "wide"}, {"web", "-y", "-o", "json"}, {"web", "-y", "-o", "yaml"}, {"web", "-y", "--revision", hostile}, {"web", "-y", "--comment", hostile}, {hostile}, {"-A", "-y"}},
		"add-cluster":     {{hostile, "--member-kubeconfig", kubeconfig}, {"plain", "--member-kubeconfig", hostile}, {"plain", "--member-kubeconfig", kubeconfig, "--set", hostile}, {"plain", "--member-kubeconfig", kubeconfig, "--members-from-secrets", hostile}, {"plain", "--member-kubeconfig", kubeconfig, "--member-context", hostile}, {"plain", "--member-kubeconfig", kubeconfig, "--label", hostile}},
		"argocd-clusters": {{}, {"--argocd-namespace", hostile}, {hostile}},
		"controller":      {{"--config", hostile}, {"--queue-config", hostile}, {hostile}},
		"diff":            {{"--label", onHub + ":a=b"}, {"--remove", "cluster/" + onHub}, {"--remove", "cluster/" + onHub, "-o", "wide"}, {"--remove", "cluster/" + onHub, "-o", "json"}, {"--remove", "cluster/" + onHub, "-o", "yaml"}, {"--taint", hostile}},
		"drain":           {{onHub, "--yes"}, {onHub}, {hostile + "/" + hostile}, {"plain", "-y", "--wait"}},
		"evict":           {{"web", "--cluster", onHub, "-y"}, {"web", "--cluster", "plain", "-y"}, {hostile, "--cluster", hostile, "-y"}, {"web", "--cluster", hostile + "/" + hostile}, {"web", "--cluster", "plain", "--exclude-for", hostile}},
		"explain":         {{"web"}, {"web", "-o", "wide"}, {"web", "-o", "json"}, {"web", "-o", "yaml"}, {hostile}, {hostile + "/" + hostile}, {"-A"}, {"web", "--cluster", onHub}, {"web", "--cluster", hostile + "/" + hostile}, {"web", "--context", hostile}},
		"explore":         {{"--config", hostile}, {"--address", hostile}, {"--domains", hostile}},
		"generator":       {{hostile}, {"--address", hostile}, {"--cert-dir", hostile, "--address", "127.0.0.1:0", "--secure"}, {"--argocd-namespace", hostile}, {"--kubeconfig", hostile}},
		"history":         {{"web"}, {"web", "-o", "wide"}, {"web", "-o", "json"}, {"web", "-o", "yaml"}, {"web", "--revision", "5"}, {"web", "--revision", "9", "-o", "yaml"}, {"web", "--revision", "10"}, {hostile}, {"-A"}, {"-A", "-o", "wide"}, {"-A", "--since", "1h"}, {"web", "--since", hostile}},
		"pin":             {{"web", "-y"}, {"web", "-y", "--revision", "7"}, {"web", "--revision", hostile}, {hostile, "-y"}},
		"placement":       {{hostile}},
		"queues":          {{hostile}},
		"queues check":    {{"-f", queues}, {"-f", hostile}},
		"queues place":    {{"-f", queues, "--user", hostile}, {"-f", queues, "--user", "u", "--tag", hostile + "=" + hostile, "-o", "json"}, {"-f", queues, "--user", hostile, "--queue", hostile}},
		"reject":          {{"web", "--yes"}, {"web", "--yes", "-o", "wide"}, {hostile, "-n", hostile}},
		"replay":          {{recorded}, {recorded, "-o", "wide"}, {recorded, "-o", "json"}, {recorded, "--verify"}, {recorded, "--verify", "-o", "yaml"}, {recorded, "--placement", "shop/" + hostile, "--at", "2999-01-01T00:00:00Z", "--cluster", hostile}, {recorded, "--at", hostile, "--placement", "a/b"}, {recorded, "--since", hostile}, {hostile}},
		"report":          {{hostile, "--member-kubeconfig", kubeconfig, "--once"}, {"plain", "--member-kubeconfig", hostile}},
		"resilience":      {{"-A", "--domains", "cluster"}, {"web", "--domains", "cluster", "-o", "wide"}, {"-A", "--domains", "label:" + hostile}, {"-A", "--domains", "claim:" + hostile}, {"-A", "--domains", hostile}, {hostile, "--domains", "cluster"}, {"-A", "--domains", "cluster", "-o", "json"}, {"-A", "--domains", "cluster", "-o", "yaml"}, {"-A", "--domains", "cluster", "-o", "markdown"}},
		"resume":          {{"web", "--yes"}, {hostile, "-y"}, {"-A", "-y"}},
		"suspend":         {{"web", "--yes"}, {hostile, "-y"}, {"-A", "-y"}},
		"undo":            {{"web", "-y"}, {"web", "-y", "--revision", "7"}, {"web", "--revision", hostile}, {hostile, "-y"}},
		"unpin":           {{"web", "-y"}, {hostile + "/" + hostile}},
		"undrain":         {{onHub, "--yes"}, {hostile + "/" + hostile}, {"plain", "-y"}},
		"simulate":        {{"-f", fleet}, {"-f", fleet, "-o", "wide"}, {"-f", fleet, "-o", "json"}, {"-f", fleet, "-o", "yaml"}, {"-f", refused}, {"-f", hostile}, {"-f", fleet, "--placement", hostile + "/" + hostile}},
		"status":          {{"web"}, {"web", "-o", "wide"}, {"web", "-o", "json"}, {"web", "-o", "yaml"}, {}, {"-A", "-o", "wide"}, {hostile}},
		"top":             {{}, {"-o", "wide"}, {"-o", "json"}, {"-o", "yaml"}, {"-l", hostile}, {"--sort-by", hostile}},
		"up":              {{"--queue-file", hostile}, {"--config", hostile}, {"--data-dir", "a\x00" + hostile}},
		"version":         {{hostile}, {}},

		"placement controller": {{hostile}, {"--config", hostile}, {"--tls-min-version", hostile}, {"--disable-leader-election=" + hostile}},
	}
	type command struct {
		root  func(...Option) *cobra.Command
		words [][]string
	}
	commands := map[string]command{}
	for _, newRoot := range []func(...Option) *cobra.Command{NewCommand, NewKubectlCommand} {
		root := newRoot()
		eachCommand(root, func(cmd *cobra.Command) {
			tc := command{newRoot, words[strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), root.CommandPath()))]}
			if commands[cmd.CommandPath()] = tc; len(tc.words) == 0 {
				t.Errorf("%s is given no hostile text: add it here", cmd.CommandPath())
			}
		})
	}
	for path, tc := range commands {
		for _, words := range tc.words {
			t.Run(path+" "+strings.NewReplacer(hostile, "HOSTILE", onHub, "HOSTILE").Replace(strings.Join(words, " ")), func(t *testing.T) {
				root := tc.root()
				var out, stderr bytes.Buffer
				root.SetOut(&out)
				root.SetErr(&stderr)
				root.SetIn(strings.NewReader(""))
				way := strings.Fields(strings.TrimPrefix(path, root.CommandPath()))
				Run(root, append(way, words...))
				checkShown(t, out.String()+stderr.String())
				if out.Len()+stderr.Len() == 0 {
					t.Error("nothing was printed")
				}
			})
		}
	}
}

func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, do)
	}
}

func quotedList(t *testing.T, items []any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkShown demands that a text controls no terminal, and that no line of it is the hostile
// text's.
func checkShown(t *testing.T, shown string) {
	t.Helper()
	if strings.ContainsFunc(shown, func(r rune) bool { return r != '\n' && r != '\t' && controls(r) }) || strings.Contains(shown, "\x9b") {
		t.Errorf("control characters are printed: %q", shown)
	}
	for line := range strings.Lines(shown) {
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("the text makes a line of its own: %q", shown)
		}
	}
}

// TestHostileDecisions: `up` shows the samples' decisions, whatever they are.
func TestHostileDecisions(t *testing.T) {
	cfg, err := connect(kubeconfigAt(startHostileHub(t)), "hub", "kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := printDecisions(t.Context(), rest.CopyConfig(cfg), []types.NamespacedName{{Namespace: "shop", Name: "web"}}, escaping(&out)); err != nil {
		t.Fatal(err)
	}
	checkShown(t, out.String())
	if !strings.Contains(out.String(), `evil\u001b]52;`) {
		t.Errorf("the cluster is not shown: %q", out.String())
	}
}

// TestSuggestedCommands: what `up` offers to copy is what it says, in a shell too.
func TestSuggestedCommands(t *testing.T) {
	var out bytes.Buffer
	printNext(&out, "/tmp/my data/$(id)/kubeconfig", []string{"/opt/$(id)/bin", "/opt/hub"}, "/tmp/my data/$(id)", []types.NamespacedName{{Namespace: "shop", Name: "a;id"}})
	for _, want := range []string{
		"  export KUBECONFIG='/tmp/my data/$(id)/kubeconfig' PATH='/opt/$(id)/bin':/opt/hub:$PATH\n", "  kubectl get placements --all-namespaces\n",
		" rm -rf '/tmp/my data/$(id)'\n", " describe placement 'a;id' -n shop\n", " describe placementdecision 'a;id-decision-1' -n shop\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}
