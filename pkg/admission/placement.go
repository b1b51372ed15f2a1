package admission

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// The stamper gets creates only, because updates never stamp. The verifier checks updates.
//
// +kubebuilder:webhookconfiguration:mutating=true,name=berth
// +kubebuilder:webhook:mutating=true,name=stamp.placements.berth.dev,path=/stamp-placement,groups=cluster.open-cluster-management.io,versions=*,resources=placements,verbs=create,failurePolicy=fail,matchPolicy=Equivalent,reinvocationPolicy=Never,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=berth-webhook,serviceNamespace=berth-system
// +kubebuilder:webhook:mutating=true,name=stamp.placementexplanations.berth.dev,path=/stamp-placement,groups=berth.dev,versions=*,resources=placementexplanations,verbs=create,failurePolicy=fail,matchPolicy=Equivalent,reinvocationPolicy=Never,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=berth-webhook,serviceNamespace=berth-system

// stamper writes the submitter of a Placement or PlacementExplanation to its user.info annotation.
type stamper struct{ placementReader }

// Handle implements admission.Handler for the mutating webhook.
func (s *stamper) Handle(ctx context.Context, request webhook.AdmissionRequest) webhook.AdmissionResponse {
	asked, metadata, err := s.read(ctx, &request.AdmissionRequest)
	if err != nil {
		return webhook.Errored(http.StatusBadRequest, err)
	}
	if asked == nil {
		return webhook.Allowed("")
	}
	decision := s.options.Access().Decide(*asked)
	switch {
	case !decision.Allowed:
		return webhook.Denied(decision.Reason)
	case decision.Stamp == nil:
		return webhook.Allowed("")
	}
	stamp := decision.Stamp.String()
	if metadata.Annotations == nil { // a JSON patch cannot add a key to a missing map
		return webhook.Patched("", webhook.JSONPatchOp{Operation: "add", Path: "/metadata/annotations",
			Value: map[string]string{identity.UserInfoAnnotation: stamp}})
	}
	key := strings.NewReplacer("~", "~0", "/", "~1").Replace(identity.UserInfoAnnotation)
	return webhook.Patched("", webhook.JSONPatchOp{Operation: "add", Path: "/metadata/annotations/" + key, Value: stamp})
}

// +kubebuilder:webhookconfiguration:mutating=false,name=berth
// +kubebuilder:webhook:mutating=false,name=verify.placements.berth.dev,path=/verify-placement,groups=cluster.open-cluster-management.io,versions=*,resources=placements,verbs=create;update,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=berth-webhook,serviceNamespace=berth-system
// +kubebuilder:webhook:mutating=false,name=verify.placementexplanations.berth.dev,path=/verify-placement,groups=berth.dev,versions=*,resources=placementexplanations,verbs=create;update,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=berth-webhook,serviceNamespace=berth-system

// verifier checks a Placement after all mutating webhooks, as it will be stored.
type verifier struct{ placementReader }

// Handle implements admission.Handler for the validating webhook.
func (v *verifier) Handle(ctx context.Context, request webhook.AdmissionRequest) webhook.AdmissionResponse {
	asked, _, err := v.read(ctx, &request.AdmissionRequest)
	if err != nil {
		return webhook.Errored(http.StatusBadRequest, err)
	}
	if asked == nil {
		return webhook.Allowed("")
	}
	if decision := v.options.Access().Verify(*asked); !decision.Allowed {
		return webhook.Denied(decision.Reason)
	}
	return webhook.Allowed("")
}

// The resources that get an annotation with their submitter.
var (
	placements   = schema.GroupResource{Group: v1alpha1.GroupName, Resource: "placements"}
	explanations = schema.GroupResource{Group: berthv1alpha1.GroupName, Resource: "placementexplanations"}
)

// placementReader converts requests of the API server to those of pkg/tenancy/identity.
type placementReader struct{ options Options }

// read returns the request and the metadata of its object. It returns nil for other requests than a
// create or update of a Placement or PlacementExplanation, such as a status update, which cannot
// change metadata.
func (p placementReader) read(ctx context.Context, request *admissionv1.AdmissionRequest) (*identity.AccessRequest, *metav1.ObjectMeta, error) {
	resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}
	if resource != placements && resource != explanations || request.SubResource != "" {
		return nil, nil, nil
	}
	update := request.Operation == admissionv1.Update
	if !update && request.Operation != admissionv1.Create {
		return nil, nil, nil
	}
	object, err := metadataOf(request.Object.Raw)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the object: %w", err)
	}
	by := identity.Identity{User: request.UserInfo.Username, Groups: request.UserInfo.Groups}
	asked := &identity.AccessRequest{
		Update:     update,
		By:         by,
		Annotation: valueOf(object.Annotations, identity.UserInfoAnnotation),
		Label:      valueOf(object.Labels, p.options.UserLabel),
	}
	if resource == placements {
		// A PlacementExplanation is in no queue; its template requests one.
		asked.Queue = tenancy.RequestedQueue(object.Annotations, object.Labels)
	}
	if !update {
		return asked, object, nil
	}
	old, err := metadataOf(request.OldObject.Raw)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the object as stored: %w", err)
	}
	asked.OldAnnotation = valueOf(old.Annotations, identity.UserInfoAnnotation)
	asked.OldLabel = valueOf(old.Labels, p.options.UserLabel)
	if resource == explanations {
		return asked, object, nil
	}
	asked.OldQueue = tenancy.RequestedQueue(old.Annotations, old.Labels)
	if maps.Equal(object.Annotations, old.Annotations) && maps.Equal(object.Labels, old.Labels) {
		return asked, object, nil // No input of a queue has changed.
	}
	var stored struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(request.OldObject.Raw, &stored); err != nil {
		return nil, nil, fmt.Errorf("reading the conditions of the object as stored: %w", err)
	}
	annotation := p.options.PublishedQueue(ctx, types.NamespacedName{Namespace: request.Namespace, Name: request.Name}, old.UID)
	if contradicts(stored.Status.Conditions, annotation) {
		annotation = "" // Another client wrote it.
	}
	tags := p.options.GuardedTags(annotation)
	asked.Tags, asked.OldTags = tagsOf(object, tags), tagsOf(old, tags)
	asked.Administers = func() bool { return p.options.Administers(annotation, by) }
	return asked, object, nil
}

// tagsOf returns the named tags of a Placement.
func tagsOf(object *metav1.ObjectMeta, names []string) map[string]string {
	tags := tenancy.Tags(object.Annotations, object.Labels)
	maps.DeleteFunc(tags, func(name, _ string) bool { return !slices.Contains(names, name) })
	return tags
}

// metadataOf decodes only the metadata, which is the same in every version.
func metadataOf(raw []byte) (*metav1.ObjectMeta, error) {
	object := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	return &object.ObjectMeta, nil
}

func valueOf(values map[string]string, key string) *string {
	if value, ok := values[key]; ok {
		return &value
	}
	return nil
}
