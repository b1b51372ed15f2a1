package admission

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// QueuesKey is the key of the queues in the ConfigMap's data.
const QueuesKey = "queues.yaml"

// QueueConfigName is the usual name of the ConfigMap with the queues.
const QueueConfigName = "yunikorn-configs"

// This webhook fails open. An invalid configuration does no harm, because it is not loaded. If it
// failed closed while the controller does not respond, users could not repair the ConfigMap that
// may be the cause.
//
// +kubebuilder:webhook:mutating=false,name=queues.configmaps.berth.dev,path=/check-queue-config,groups="",versions=v1,resources=configmaps,verbs=create;update,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=berth-webhook,serviceNamespace=berth-system,patch=`{"matchConditions":[{"name":"queue-config","expression":"object.metadata.namespace == 'berth-system' && object.metadata.name == 'yunikorn-configs'"}]}`

// queueChecker denies an invalid queue configuration, and warns about invalid settings, which get
// their default.
type queueChecker struct {
	config types.NamespacedName
	check  func([]byte) (warnings []string, err error)
}

// Handle implements admission.Handler for the validating webhook.
func (q *queueChecker) Handle(_ context.Context, request webhook.AdmissionRequest) webhook.AdmissionResponse {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return webhook.Allowed("")
	}
	config := corev1.ConfigMap{}
	if err := json.Unmarshal(request.Object.Raw, &config); err != nil {
		return webhook.Errored(http.StatusBadRequest, fmt.Errorf("reading the ConfigMap: %w", err))
	}
	if request.Namespace != q.config.Namespace || config.Name != q.config.Name {
		return webhook.Allowed("")
	}
	text, err := queuesIn(&config)
	if err != nil {
		return webhook.Denied(err.Error())
	}
	warnings, err := q.check(text)
	if err != nil {
		return webhook.Denied(fmt.Sprintf("data[%q]: %v", QueuesKey, err))
	}
	_, settings := identity.ParseAccessControl(config.Data)
	return webhook.Allowed("").WithWarnings(append(warnings, settings...)...)
}

// queuesIn returns the text of the queues in a ConfigMap.
func queuesIn(config *corev1.ConfigMap) ([]byte, error) {
	text, ok := config.Data[QueuesKey]
	if !ok {
		return nil, fmt.Errorf("queue config is not set: data has no key %s", QueuesKey)
	}
	return []byte(text), nil
}
