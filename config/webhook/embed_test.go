package webhook

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// shown has the fields of a webhook that decide whether a request can bypass it.
type shown struct {
	URL, CA, Failure, Match string
	Rules                   []admissionregistrationv1.RuleWithOperations
	Condition               string
}

func show(c admissionregistrationv1.WebhookClientConfig, failure *admissionregistrationv1.FailurePolicyType,
	match *admissionregistrationv1.MatchPolicyType, rules []admissionregistrationv1.RuleWithOperations,
	conditions []admissionregistrationv1.MatchCondition,
) shown {
	s := shown{CA: string(c.CABundle), Failure: string(*failure), Match: string(*match), Rules: rules}
	if c.URL != nil && c.Service == nil {
		s.URL = *c.URL
	}
	for _, condition := range conditions {
		s.Condition += condition.Expression
	}
	return s
}

func TestAt(t *testing.T) {
	mutating, validating, err := At("https://127.0.0.1:7", []byte("authority"), "ns", "queues")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]shown{}
	for _, w := range mutating.Webhooks {
		if *w.ReinvocationPolicy != admissionregistrationv1.NeverReinvocationPolicy {
			t.Errorf("%s is asked again after its own stamp", w.Name)
		}
		got[w.Name] = show(w.ClientConfig, w.FailurePolicy, w.MatchPolicy, w.Rules, w.MatchConditions)
	}
	for _, w := range validating.Webhooks {
		got[w.Name] = show(w.ClientConfig, w.FailurePolicy, w.MatchPolicy, w.Rules, w.MatchConditions)
	}
	rules := func(group, version, resource string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}
	}
	const group, create, update = "cluster.open-cluster-management.io", admissionregistrationv1.Create, admissionregistrationv1.Update
	want := map[string]shown{
		"stamp.placements.berth.dev": {"https://127.0.0.1:7/stamp-placement", "authority", "Fail", "Equivalent",
			rules(group, "*", "placements", create), ""},
		"verify.placements.berth.dev": {"https://127.0.0.1:7/verify-placement", "authority", "Fail", "Equivalent",
			rules(group, "*", "placements", create, update), ""},
		"stamp.placementexplanations.berth.dev": {"https://127.0.0.1:7/stamp-placement", "authority", "Fail", "Equivalent",
			rules("berth.dev", "*", "placementexplanations", create), ""},
		"verify.placementexplanations.berth.dev": {"https://127.0.0.1:7/verify-placement", "authority", "Fail", "Equivalent",
			rules("berth.dev", "*", "placementexplanations", create, update), ""},
		"queues.configmaps.berth.dev": {"https://127.0.0.1:7/check-queue-config", "authority", "Ignore", "Equivalent",
			rules("", "v1", "configmaps", create, update), `object.metadata.namespace == "ns" && object.metadata.name == "queues"`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, meta := range []metav1.ObjectMeta{mutating.ObjectMeta, validating.ObjectMeta} {
		if meta.Name != Name || meta.Labels["app.kubernetes.io/managed-by"] != "berth" {
			t.Errorf("%q with labels %v does not say whose it is", meta.Name, meta.Labels)
		}
	}
}

func TestServiceIsTheOneNamed(t *testing.T) {
	text, err := os.ReadFile("../webhook-server/added/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	service := corev1.Service{}
	if err := yaml.UnmarshalStrict(text, &service); err != nil {
		t.Fatal(err)
	}
	for _, document := range documents(manifests) {
		configuration := admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := yaml.Unmarshal(document, &configuration); err != nil {
			t.Fatal(err)
		}
		for _, w := range configuration.Webhooks {
			if s := w.ClientConfig.Service; s == nil || s.Name != service.Name || s.Namespace != service.Namespace {
				t.Errorf("%s is behind %v, not the Service %s", w.Name, s, service.Name)
			}
		}
	}
}
