// Package validation has the webhooks that refuse mistakes in Placements and cluster sets, as YAML
// generated from the markers in pkg/admission/validation.
//
// It imports config/webhook.
package validation

import (
	_ "embed"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/berth-dev/berth/config/webhook"
)

//go:embed manifests.yaml
var manifests []byte

// At returns the configurations of the webhooks for handlers at a URL such as
// https://127.0.0.1:9443 instead of behind a Service. The authorities in caBundle (PEM) have signed
// their certificate. It returns an error only if the embedded YAML is damaged.
func At(url string, caBundle []byte) (
	*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration, error,
) {
	return webhook.Configurations(manifests, url, caBundle)
}
