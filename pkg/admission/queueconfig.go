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

// QueuesKey is the key of the ConfigMap under which the queues are.
const QueuesKey = "queues.yaml"

// QueueConfigName is the usual name of the ConfigMap with the queues.
const QueueConfigName = "yunikorn-configs"

// A broken document that gets by does no harm, as it is not loaded, while a ConfigMap that cannot
// be written where nothing answers might be what keeps the answer away: this one fails open.
//
// +kubebuilder:webhook:mutating=false,name=queues.configmaps.berth.dev,path=/check-queue-config,groups="",versions=v1,resources=configmaps,verbs=create;update,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=berth-webhook,serviceNamespace=berth-system,patch=`{"matchConditions":[{"name":"queue-config","expression":"object.metadata.namespace == 'berth-system' && object.metadata.name == 'yunikorn-configs'"}]}`

// queueChecker refuses a queue configuration that would not load, and warns of settings that would
// take their default.
type queueChecker struct {
	config types.NamespacedName
	check  func([]byte) (warnings []string, err error)
}

// Handle answers the API server's validating step.
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
	warnings, err := q.check([]byte(config.Data[QueuesKey]))
	if err != nil {
		return webhook.Denied(fmt.Sprintf("%s: %v", QueuesKey, err))
	}
	_, settings := identity.ParseAccessControl(config.Data)
	return webhook.Allowed("").WithWarnings(append(warnings, settings...)...)
}
