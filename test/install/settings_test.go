package install

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestSettings compares one field of an object with what settings of the chart make of it.
func TestSettings(t *testing.T) {
	const deployment, podSpec = "Deployment.apps berth-system/berth", "spec template spec "
	const budget = "PodDisruptionBudget.policy berth-system/berth"
	tests := map[string]struct{ values, title, path, want string }{
		"another name of the chart":        {"nameOverride: placement", "Deployment.apps berth-system/berth-placement", "spec selector matchLabels", "{app.kubernetes.io/name: placement, app.kubernetes.io/instance: berth}"},
		"a name that the release contains": {"nameOverride: ber", deployment, "spec replicas", "2"},
		"another name":                     {"fullnameOverride: chosen", "Deployment.apps berth-system/chosen", podSpec + "serviceAccountName", "chosen"},
		"an image by tag":                  {"image: {repository: mirror/berth}", deployment, podSpec + "containers 0 image", "mirror/berth:v0.1.0"},
		"an image by digest":               {"image: {tag: v1, digest: '" + digest + "'}", deployment, podSpec + "containers 0 image", "berth@" + digest},
		"the reporter's image": {
			"{reporter: {enabled: true}, image: {digest: '" + digest + "'}}", "Deployment.apps berth-system/berth-reporter", podSpec + "containers 0 image", "berth@" + digest,
		},
		"a named account":               {"serviceAccount: {name: mine}", "ServiceAccount berth-system/mine", "metadata name", "mine"},
		"a named account's pods":        {"serviceAccount: {name: mine}", deployment, podSpec + "serviceAccountName", "mine"},
		"a named account's permissions": {"serviceAccount: {create: false, name: mine}", "ClusterRoleBinding.rbac.authorization.k8s.io /berth", "subjects 0 name", "mine"},
		"an account of others":          {"serviceAccount: {create: false, name: mine}", "ServiceAccount berth-system/mine", "", "null"},
		"annotations of the account":    {"serviceAccount: {annotations: {a: b}}", "ServiceAccount berth-system/berth", "metadata annotations", "{a: b}"},
		"more arguments": {
			"{metrics: {enabled: false}, extraArgs: [--pprof-address=localhost:6060]}", deployment, podSpec + "containers 0 args",
			"[controller, '--health-probe-bind-address=:8081', --workers=16, --log-level=info, --log-format=json, '--pprof-address=localhost:6060']",
		},
		"ClusterProfiles": {
			"{metrics: {enabled: false}, clusterProfiles: {namespaces: [a, b], names: qualified}}", deployment, podSpec + "containers 0 args",
			"[controller, '--health-probe-bind-address=:8081', --workers=16, --log-level=info, --log-format=json, " +
				"'--housekeeping=*,cluster-profile', '--cluster-profile-namespace=a,b', --cluster-profile-names=qualified]",
		},
		"only ClusterProfiles": {
			"{metrics: {enabled: false}, housekeeping: false, clusterProfiles: {namespaces: [a]}}", deployment, podSpec + "containers 0 args 5", "--housekeeping=cluster-profile",
		},
		"permissions for ClusterProfiles":        {"clusterProfiles: {namespaces: [a]}", "ClusterRoleBinding.rbac.authorization.k8s.io /berth-cluster-profiles", "roleRef name", "berth-cluster-profiles"},
		"no permissions without ClusterProfiles": {"", "ClusterRole.rbac.authorization.k8s.io /berth-cluster-profiles", "", "null"},
		"environment variables":                  {"extraEnv: [{name: GOGC, value: '200'}]", deployment, podSpec + "containers 0 env", "[{name: GOGC, value: '200'}]"},
		"labels of the pods": {
			"{commonLabels: {team: a, app.kubernetes.io/part-of: platform}, podLabels: {team: b, app.kubernetes.io/name: another}}", deployment, "spec template metadata labels",
			"{team: b, app.kubernetes.io/part-of: platform, app.kubernetes.io/name: berth, app.kubernetes.io/instance: berth, app.kubernetes.io/version: v0.1.0, " +
				"app.kubernetes.io/managed-by: Helm, helm.sh/chart: berth-0.1.0}",
		},
		"labels of the reporter's pods": {
			"{reporter: {enabled: true}, commonLabels: {team: a}, podLabels: {mesh: none}}", "Deployment.apps berth-system/berth-reporter", "spec template metadata labels",
			"{team: a, mesh: none, app.kubernetes.io/name: berth-reporter, app.kubernetes.io/instance: berth}",
		},
		"pods that may stop":   {"podDisruptionBudget: {maxUnavailable: 50%}", budget, "spec maxUnavailable", "50%"},
		"no disruption budget": {"podDisruptionBudget: {enabled: false}", budget, "", "null"},
		"spread": {
			"topologySpreadConstraints: [{topologyKey: rack, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]", deployment, podSpec + "topologySpreadConstraints",
			"[{topologyKey: rack, maxSkew: 2, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app.kubernetes.io/name: berth, app.kubernetes.io/instance: berth}}}]",
		},
		"spread of a wider group": {
			"topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]", deployment,
			podSpec + "topologySpreadConstraints 0 labelSelector matchLabels a", "b",
		},
		"no spread":         {"topologySpreadConstraints: []", deployment, podSpec + "topologySpreadConstraints", "null"},
		"history":           {"revisionHistoryLimit: 0", deployment, "spec revisionHistoryLimit", "0"},
		"a failing webhook": {"webhook: {certificate: cert-manager}", "ValidatingWebhookConfiguration.admissionregistration.k8s.io /berth-validation", "webhooks 0 failurePolicy", "Ignore"},
		"a Secret of one's own": {
			"webhook: {certificate: secret, secretName: mine, caBundle: Y2E=}", deployment, podSpec + "volumes 0 secret secretName", "mine",
		},
		"an authority of one's own": {
			"{fullnameOverride: chosen, webhook: {certificate: secret, caBundle: Y2E=}}", "MutatingWebhookConfiguration.admissionregistration.k8s.io /chosen-validation",
			"webhooks 0 clientConfig", "{caBundle: Y2E=, service: {name: chosen-webhook, namespace: berth-system, path: /warn-status}}",
		},
		"no recording":            {"", "PersistentVolumeClaim berth-system/berth-recording", "", "null"},
		"a recording":             {"recording: {enabled: true}", "PersistentVolumeClaim berth-system/berth-recording", "spec", "{accessModes: [ReadWriteMany], resources: {requests: {storage: 2Gi}}}"},
		"a recording's folder":    {"{metrics: {enabled: false}, recording: {enabled: true, maxSize: 4Gi}}", deployment, podSpec + "containers 0 args 6", "--record-max-size=4Gi"},
		"a recording's group":     {"recording: {enabled: true}", deployment, podSpec + "securityContext fsGroup", "65532"},
		"a claim of one's own":    {"recording: {enabled: true, existingClaim: mine}", deployment, podSpec + "volumes 0 persistentVolumeClaim claimName", "mine"},
		"no claim of the chart":   {"recording: {enabled: true, existingClaim: mine}", "PersistentVolumeClaim berth-system/berth-recording", "", "null"},
		"a volume of one replica": {"{replicas: 1, recording: {enabled: true, accessModes: [ReadWriteOnce]}}", deployment, "spec strategy type", "Recreate"},
		"no certificate":          {"", "ValidatingWebhookConfiguration.admissionregistration.k8s.io /berth-validation", "", "null"},
		"no queues":               {"webhook: {certificate: cert-manager}", "ValidatingWebhookConfiguration.admissionregistration.k8s.io /berth", "", "null"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := helm("berth-system", tc.values)
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, fieldOf(objects, tc.title, tc.path)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", tc.title, tc.path, diff)
			}
		})
	}
}

// fieldOf is the field of the object with a title; keys and indices are separated by spaces. It is
// nil if there is none.
func fieldOf(objects []*unstructured.Unstructured, of, path string) any {
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return title(o) == of })
	if i < 0 {
		return nil
	}
	var value any = objects[i].Object
	for key := range strings.FieldsSeq(path) {
		switch at := value.(type) {
		case map[string]any:
			value = at[key]
		case []any:
			value = at[key[0]-'0']
		default:
			return nil
		}
	}
	if number, ok := value.(int64); ok {
		return float64(number) // as in want
	}
	return value
}

// TestCommonLabels: all objects but CRDs have them, and no selector does.
func TestCommonLabels(t *testing.T) {
	objects, err := helm("berth-system", everything)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		if labels := o.GetLabels(); labels["team"] != "placement" || labels["app.kubernetes.io/part-of"] != "platform" {
			t.Errorf("%s has the labels %v", title(o), labels)
		}
		for _, path := range []string{"spec selector matchLabels", "spec selector", "spec podSelector matchLabels"} {
			selector, _ := fieldOf(objects, title(o), path).(map[string]any)
			if _, found := selector["team"]; found {
				t.Errorf("%s selects by %v", title(o), slices.Sorted(maps.Keys(selector)))
			}
		}
	}
}
