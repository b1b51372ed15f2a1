package install

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var root = filepath.Join("..", "..")

// kustomize is `kubectl kustomize config/<name>`.
func kustomize(name string) ([]*unstructured.Unstructured, error) {
	return build(filesys.MakeFsOnDisk(), filepath.Join(root, "config", name))
}

func build(files filesys.FileSystem, folder string) ([]*unstructured.Unstructured, error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	text, err := rendered.AsYaml()
	if err != nil {
		return nil, err
	}
	return parse(folder, text)
}

// installed is a kustomization with config/default and components of config.
func installed(components ...string) ([]*unstructured.Unstructured, error) {
	return installedFrom(filesys.MakeFsOnDisk(), components...)
}

func installedFrom(files filesys.FileSystem, components ...string) ([]*unstructured.Unstructured, error) {
	folder, err := os.MkdirTemp("", "overlay")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	config, err := filepath.Abs(filepath.Join(root, "config"))
	if err != nil {
		return nil, err
	}
	// Files are named relative to the kustomization's folder, without links in its path.
	if folder, err = filepath.EvalSymlinks(folder); err == nil {
		config, err = filepath.Rel(folder, config)
	}
	if err != nil {
		return nil, err
	}
	overlay := "resources:\n- " + config + "/default\ncomponents:\n"
	for _, name := range components {
		overlay += "- " + config + "/" + name + "\n"
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		return nil, err
	}
	return build(files, folder)
}

// helm is `helm template berth charts/berth -n <namespace>` with values in YAML.
func helm(namespace, values string) ([]*unstructured.Unstructured, error) {
	return helmAs("berth", namespace, values)
}

// helmAs is the same for a release of another name.
func helmAs(name, namespace, values string) ([]*unstructured.Unstructured, error) {
	files, err := helmFiles(name, namespace, values)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		parsed, err := parse(name, []byte(text))
		if err != nil {
			return nil, err
		}
		objects = append(objects, parsed...)
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return strings.Compare(title(a), title(b)) })
	return objects, nil
}

// helmFiles are the rendered templates by path.
func helmFiles(name, namespace, values string) (map[string]string, error) {
	chart, err := loader.LoadDir(filepath.Join(root, "charts", "berth"))
	if err != nil {
		return nil, err
	}
	set := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, set, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

func parse(from string, text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, document := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w in\n%s", from, err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// title names an object in a message.
func title(o *unstructured.Unstructured) string {
	return strings.TrimPrefix(fmt.Sprintf("%s %s/%s", o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()), " ")
}

// everything are values that switch all of the chart on.
const everything = `
image: {repository: mirror/berth, tag: v9, pullSecrets: [{name: pull}]}
commonLabels: {team: placement, app.kubernetes.io/part-of: platform}
podLabels: {sidecar: "false"}
serviceAccount: {annotations: {example.com/role: berth}}
extraArgs: [--pprof-address=localhost:6060]
extraEnv: [{name: GOGC, value: "200"}]
podDisruptionBudget: {maxUnavailable: 50%}
topologySpreadConstraints: [{topologyKey: example.com/rack, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: system-cluster-critical
tolerations: [{operator: Exists}]
config: {apiVersion: config.berth.dev/v1alpha1, kind: PlacementSchedulerConfiguration}
queues:
  enabled: true
  configMap: queues
  config: |
    partitions:
    - name: default
      queues: [{name: root}]
webhook:
  certificate: cert-manager
  clientCASecret: berth-webhook-clients
  apiServers: [10.0.0.10/32, "fd00::10/128"]
multicluster: {enabled: true, installCRD: true, namespace: fleet, schedulerName: example}
clusterProfiles: {namespaces: [fleet, other]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
rules: {enabled: true}
dashboard: {enabled: true}
reporter: {enabled: true}
explore: {enabled: true}
generator: {enabled: true, argocdNamespace: argocd}
`

// renderings are all ways of installing that are tried, by name.
var renderings = map[string]func() ([]*unstructured.Unstructured, error){
	"config/default":          func() ([]*unstructured.Unstructured, error) { return kustomize("default") },
	"config/beside-ocm":       func() ([]*unstructured.Unstructured, error) { return installed("beside-ocm") },
	"config/queues":           func() ([]*unstructured.Unstructured, error) { return installed("queues") },
	"config/validation":       func() ([]*unstructured.Unstructured, error) { return installed("validation") },
	"config/monitoring":       func() ([]*unstructured.Unstructured, error) { return kustomize("monitoring") },
	"config/dashboard":        func() ([]*unstructured.Unstructured, error) { return kustomize("dashboard") },
	"config/explore":          func() ([]*unstructured.Unstructured, error) { return kustomize("explore") },
	"config/generator":        func() ([]*unstructured.Unstructured, error) { return kustomize("generator") },
	"config/reporter":         func() ([]*unstructured.Unstructured, error) { return kustomize("reporter") },
	"config/multicluster":     func() ([]*unstructured.Unstructured, error) { return kustomize("multicluster") },
	"config/cluster-profiles": func() ([]*unstructured.Unstructured, error) { return kustomize("cluster-profiles") },
	"charts/berth":            func() ([]*unstructured.Unstructured, error) { return helm("berth-system", "") },
	"charts/berth, everything on": func() ([]*unstructured.Unstructured, error) {
		return helm("berth-system", everything)
	},
	"charts/berth, everything off": func() ([]*unstructured.Unstructured, error) {
		return helm("berth-system", `
{replicas: 1, installCRDs: false, admissionPolicies: false, userRoles: false, housekeeping: false, networkPolicy: false, metrics: {enabled: false},
 podDisruptionBudget: {enabled: false}, topologySpreadConstraints: [], serviceAccount: {create: false, name: default}}`)
	},
	"charts/berth, validation only": func() ([]*unstructured.Unstructured, error) {
		return helm("berth-system", "webhook: {certificate: cert-manager}")
	},
	"charts/berth, own certificate, plain metrics": func() ([]*unstructured.Unstructured, error) {
		return helm("berth-system", `
{queues: {enabled: true}, webhook: {certificate: secret, caBundle: Y2E=}, metrics: {secure: false}, serviceMonitor: {enabled: true}}`)
	},
}

func TestTheChartsFilesAreTheSources(t *testing.T) {
	files := filepath.Join(root, "charts", "berth", "files")
	copied := map[string]bool{}
	err := filepath.WalkDir(files, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(files, path)
		if err != nil {
			return err
		}
		copied[filepath.ToSlash(name)] = true
		source := filepath.Join(root, "config", name)
		if folder, file := filepath.Split(name); folder == "crd/" {
			source = filepath.Join(root, "config", "crd", "bases", file)
		}
		want, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("make manifests would change %s (-source +chart):\n%s", name, diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, into := range map[string]string{"crd/bases": "crd", "admission": "admission"} {
		sources, err := filepath.Glob(filepath.Join(root, "config", folder, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range sources {
			if name := filepath.Base(source); name != "kustomization.yaml" && !copied[into+"/"+name] {
				t.Errorf("the chart lacks %s of config/%s: add it to CHART_PARTS in the Makefile", name, folder)
			}
		}
	}
}

// TestTheChartIsTheKustomization compares what both give a hub, beside labels and what the chart
// has settings for.
func TestTheChartIsTheKustomization(t *testing.T) {
	parts := append(slices.Clone(components), []component{
		{"cluster-profiles", "{clusterProfiles: {namespaces: [fleet]}}", ""},
		{"generator-argocd", "{generator: {enabled: true, argocdNamespace: argocd}}", ""},
		{"", "", ""},
	}...)
	for _, tc := range parts {
		t.Run(tc.name, func(t *testing.T) {
			var names []string
			if tc.name != "" {
				names = []string{tc.name}
			}
			wanted, err := installed(names...)
			if err != nil {
				t.Fatal(err)
			}
			rendered, err := helm("berth-system", tc.values)
			if err != nil {
				t.Fatal(err)
			}
			chart := essence(rendered)
			for title, want := range essence(wanted) {
				// The chart's multicluster also configures the plugin.
				if tc.name == "multicluster" && title == "Deployment.apps berth-system/berth" {
					continue
				}
				// The namespace is Helm's; a role that is bound to nobody the chart leaves out.
				if title == "Namespace /berth-system" || strings.Contains(title, "Role") && chart[title] == nil && !bound(wanted, title) {
					continue
				}
				if diff := cmp.Diff(want, chart[title]); diff != "" {
					t.Errorf("%s (-kustomize +helm):\n%s", title, diff)
				}
			}
		})
	}
}

// bound says whether a binding names the role with a title.
func bound(objects []*unstructured.Unstructured, title string) bool {
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		return name != "" && strings.HasSuffix(title, "/"+name)
	})
}

// essence are objects by title without what charts and kustomizations write differently by nature.
func essence(objects []*unstructured.Unstructured) map[string]map[string]any {
	result := map[string]map[string]any{}
	for _, o := range objects {
		name, o := title(o), o.DeepCopy()
		for _, path := range [][]string{
			{"metadata"}, {"spec", "selector"}, {"spec", "podSelector"}, {"spec", "template", "metadata"}, {"spec", "ingress"}, {"spec", "ports"},
			{"spec", "revisionHistoryLimit"},
		} {
			unstructured.RemoveNestedField(o.Object, path...)
		}
		if pod, found, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec"); found {
			delete(pod, "topologySpreadConstraints")
			container := pod["containers"].([]any)[0].(map[string]any)
			for _, key := range []string{"image", "imagePullPolicy", "args", "ports"} {
				delete(container, key)
			}
			o.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"] = pod
		}
		result[name] = o.Object
	}
	return result
}

func TestValuesAreChecked(t *testing.T) {
	tests := map[string]struct{ values, want string }{
		"unknown":                     {"replica: 3", "replica"},
		"wrong type":                  {"replicas: many", "replicas"},
		"no replica":                  {"replicas: 0", "replicas"},
		"no configuration":            {"config: {profiles: []}", "config"},
		"webhooks without authority":  {"webhook: {certificate: secret}", "caBundle"},
		"another authority":           {"webhook: {certificate: letsencrypt}", "certificate"},
		"queues without webhooks":     {"queues: {enabled: true}", "queues.enabled needs webhook.certificate"},
		"no account":                  {"serviceAccount: {create: false}", "serviceAccount"},
		"no digest":                   {"image: {digest: latest}", "digest"},
		"no argument":                 {"extraArgs: [workers=3]", "extraArgs"},
		"half a constraint":           {"topologySpreadConstraints: [{topologyKey: zone}]", "maxSkew"},
		"a name with capitals":        {"fullnameOverride: Berth", "fullnameOverride"},
		"a monitor of nothing":        {"{metrics: {enabled: false}, serviceMonitor: {enabled: true}}", "serviceMonitor.enabled needs metrics.enabled"},
		"misspelt in a nested object": {"metrics: {secured: false}", "secured"},
		"no failure":                  {"reporter: {failureThreshold: 0}", "failureThreshold"},
		"no interval":                 {"reporter: {interval: often}", "interval"},
		"no namespace":                {"multicluster: {namespace: Fleet}", "namespace"},
		"no namespace of profiles":    {"clusterProfiles: {namespaces: [Fleet]}", "namespaces"},
		"one namespace twice":         {"clusterProfiles: {namespaces: [a, a]}", "namespaces"},
		"names of another kind":       {"clusterProfiles: {names: long}", "names"},
		"a namespace and qualified names": {
			"{multicluster: {enabled: true, namespace: fleet}, clusterProfiles: {names: qualified}}", "multicluster.namespace must be empty with clusterProfiles.names: qualified",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := helm("berth-system", tc.values)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want one that names %s", err, tc.want)
			}
		})
	}
}

func TestCRDsOutliveTheRelease(t *testing.T) {
	objects, err := helm("berth-system", "multicluster: {enabled: true, installCRD: true}")
	if err != nil {
		t.Fatal(err)
	}
	crds := 0
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			crds++
			if o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s goes with the release", o.GetName())
			}
		}
	}
	if crds != 12 {
		t.Errorf("%d CRDs, want 12", crds)
	}
}

// TestBesideOCM: only the CRDs of Berth's own kinds are installed beside Open Cluster Management's.
func TestBesideOCM(t *testing.T) {
	for name, render := range map[string]func() ([]*unstructured.Unstructured, error){
		"kustomization": func() ([]*unstructured.Unstructured, error) { return installed("beside-ocm") },
		"chart":         func() ([]*unstructured.Unstructured, error) { return helm("berth-system", "ocmCRDs: false") },
	} {
		objects, err := render()
		if err != nil {
			t.Fatal(err)
		}
		var crds []string
		for _, o := range objects {
			if o.GetKind() == "CustomResourceDefinition" {
				crds = append(crds, o.GetName())
			}
		}
		slices.Sort(crds)
		if diff := cmp.Diff([]string{"disruptionpolicies.berth.dev", "placementchanges.berth.dev", "placementevictions.berth.dev", "placementexplanations.berth.dev", "selectionpolicies.berth.dev"}, crds); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMulticlusterIsWrittenByEveryProfile(t *testing.T) {
	const output = "{name: DecisionPublisher, args: {clusterProfiles: {enabled: true, schedulerName: berth}}}"
	const head = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\n"
	tests := map[string]struct{ values, want string }{
		"off":                     {"config: {apiVersion: v, kind: PlacementSchedulerConfiguration}", "{apiVersion: v, kind: PlacementSchedulerConfiguration}"},
		"without a configuration": {"multicluster: {enabled: true}", head + "profiles: [{name: default, pluginConfig: [" + output + "]}]"},
		"elsewhere": {
			"multicluster: {enabled: true, namespace: fleet, schedulerName: s}",
			head + "profiles: [{name: default, pluginConfig: [{name: DecisionPublisher, args: {clusterProfiles: {enabled: true, namespace: fleet, schedulerName: s}}}]}]",
		},
		"qualified": {
			"{multicluster: {enabled: true}, clusterProfiles: {names: qualified}}",
			head + "profiles: [{name: default, pluginConfig: [{name: DecisionPublisher, args: {clusterProfiles: {enabled: true, names: qualified, schedulerName: berth}}}]}]",
		},
		"with profiles": {
			`{multicluster: {enabled: true}, config: {apiVersion: config.berth.dev/v1alpha1, kind: PlacementSchedulerConfiguration, profiles: [
				{plugins: {}}, {name: a, pluginConfig: [{name: Approval}]}, {name: b, pluginConfig: [{name: DecisionPublisher}]}]}}`,
			head + "profiles: [{plugins: {}, pluginConfig: [" + output + "]}, {name: a, pluginConfig: [{name: Approval}, " + output +
				"]}, {name: b, pluginConfig: [{name: DecisionPublisher}]}]",
		},
		"with other profiles only": {
			"{multicluster: {enabled: true}, config: {apiVersion: config.berth.dev/v1alpha1, kind: PlacementSchedulerConfiguration, profiles: [{name: a}]}}",
			head + "profiles: [{name: a, pluginConfig: [" + output + "]}, {name: default, pluginConfig: [" + output + "]}]",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := helm("berth-system", tc.values)
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(configurationIn(objects)), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

// configurationIn is the scheduler's configuration that the pods mount; empty where there is none.
func configurationIn(objects []*unstructured.Unstructured) string {
	for _, o := range objects {
		if text, found, _ := unstructured.NestedString(o.Object, "data", "config.yaml"); o.GetKind() == "ConfigMap" && found {
			return text
		}
	}
	return ""
}

// TestKindsOfOthers decodes, strictly, the kinds of other projects.
func TestKindsOfOthers(t *testing.T) {
	for name, render := range renderings {
		objects, err := render()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, o := range objects {
			var into any
			switch o.GetKind() {
			case "ServiceMonitor":
				into = &monitoringv1.ServiceMonitor{}
			case "PrometheusRule":
				into = &monitoringv1.PrometheusRule{}
			case "Certificate":
				into = &certmanagerv1.Certificate{}
			case "Issuer":
				into = &certmanagerv1.Issuer{}
			default:
				continue
			}
			text, err := yaml.Marshal(o.Object)
			if err == nil {
				err = yaml.UnmarshalStrict(text, into)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", name, title(o), err)
			}
		}
	}
}
