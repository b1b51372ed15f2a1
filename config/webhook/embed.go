// Package webhook has the webhook configurations for Berth's admission handlers, as YAML generated
// from the markers in pkg/admission.
//
// It imports nothing of Berth.
package webhook

import (
	"bytes"
	_ "embed"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

// Name is the name of both configurations.
const Name = "berth"

//go:embed manifests.yaml
var manifests []byte

// At returns the configurations of the webhooks for handlers at a URL such as
// https://127.0.0.1:9443 instead of behind a Service. The authorities in caBundle (PEM) have signed
// their certificate. The queues are in the ConfigMap namespace/name. It returns an error only if
// the embedded YAML is damaged.
func At(url string, caBundle []byte, namespace, name string) (
	*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration, error,
) {
	mutating, validating, err := Configurations(manifests, url, caBundle)
	if err != nil {
		return nil, nil, err
	}
	for i := range validating.Webhooks {
		webhook := &validating.Webhooks[i]
		for j := range webhook.MatchConditions {
			webhook.MatchConditions[j].Expression = fmt.Sprintf("object.metadata.namespace == %q && object.metadata.name == %q", namespace, name)
		}
	}
	return mutating, validating, nil
}

// Configurations reads the two configurations in manifests, for handlers at a URL as in At.
func Configurations(manifests []byte, url string, caBundle []byte) (
	*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration, error,
) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, document := range documents(manifests) {
		kind := struct{ Kind string }{}
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, nil, fmt.Errorf("reading the webhooks: %w", err)
		}
		var into any
		switch kind.Kind {
		case "MutatingWebhookConfiguration":
			into = mutating
		case "ValidatingWebhookConfiguration":
			into = validating
		default:
			continue // the comment before the first
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			return nil, nil, fmt.Errorf("reading the webhooks: %w", err)
		}
	}
	labels := map[string]string{"app.kubernetes.io/managed-by": "berth"}
	mutating.Labels, validating.Labels = labels, labels
	for i := range mutating.Webhooks {
		direct(&mutating.Webhooks[i].ClientConfig, url, caBundle)
	}
	for i := range validating.Webhooks {
		direct(&validating.Webhooks[i].ClientConfig, url, caBundle)
	}
	return mutating, validating, nil
}

func documents(manifests []byte) [][]byte { return bytes.Split(manifests, []byte("\n---\n")) }

func direct(to *admissionregistrationv1.WebhookClientConfig, url string, caBundle []byte) {
	address := url
	if to.Service != nil && to.Service.Path != nil {
		address += *to.Service.Path
	}
	*to = admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: caBundle}
}
