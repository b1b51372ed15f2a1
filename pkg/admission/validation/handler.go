package validation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/turns"
)

// The paths of the handlers, by which config/validation names them.
const (
	validatePath = "/validate"
	statusPath   = "/warn-status"
)

const (
	// compileTime is how long a request may compile expressions; an expression that was started is
	// finished. What is not checked in time is allowed.
	compileTime = time.Second
	// turnTime is how long a request may wait for its turn.
	turnTime = 2 * time.Second
	// workers is how many objects are validated at a time, one of each namespace. maxWaiting is how
	// many more of one namespace may wait.
	workers    = 2
	maxWaiting = 3
	// maxRequests is how many requests to a handler may be in progress at once. Others wait for
	// at most requestTime.
	maxRequests = 32
	requestTime = time.Second
)

// Validate returns the mistakes of a Placement, as Scheduler.Validate does. It ends early without
// errors when ctx ends, and is called from several goroutines at once.
type Validate func(ctx context.Context, pl *v1alpha1.Placement) field.ErrorList

// ValidatePolicy returns the mistakes of a SelectionPolicy, as Scheduler.ValidatePolicy does.
type ValidatePolicy func(ctx context.Context, policy *berthv1alpha1.SelectionPolicy) field.ErrorList

// Warn returns what is probably a mistake in a valid Placement, as decide.Warnings does. It is
// called from several goroutines at once.
type Warn func(pl *v1alpha1.Placement) []string

// Register registers the handlers with a server. hub reads Placements and SelectionPolicies, from a
// cache, to warn about policies that are not required; with nil there are no such warnings. warn
// may be nil.
func Register(server webhook.Server, validate Validate, validatePolicy ValidatePolicy, warn Warn, hub client.Reader) error {
	if validate == nil || validatePolicy == nil {
		return errors.New("registering the validation handlers: no function to validate Placements or SelectionPolicies")
	}
	validator := newValidator(validate, validatePolicy, hub)
	validator.warn = warn
	server.Register(validatePath, admission.LimitRequests(maxRequests, requestTime, &webhook.Admission{Handler: validator}))
	server.Register(statusPath, admission.LimitRequests(maxRequests, requestTime, &webhook.Admission{Handler: statusWarner{}}))
	return nil
}

// +kubebuilder:webhookconfiguration:mutating=false,name=berth-validation
// +kubebuilder:webhook:mutating=false,name=validate.berth.dev,path=/validate,groups=cluster.open-cluster-management.io;berth.dev,versions=*,resources=placements;managedclustersets;selectionpolicies,verbs=create;update,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=berth-webhook,serviceNamespace=berth-system

// validator refuses Placements, SelectionPolicies and ManagedClusterSets with mistakes. It warns
// about probable mistakes, and about a SelectionPolicy that its Placement does not require.
type validator struct {
	validate       Validate
	validatePolicy ValidatePolicy
	warn           Warn
	hub            client.Reader
	// turns are those of namespaces: one with many requests does not delay those of others.
	turns turns.Turns
}

func newValidator(validate Validate, validatePolicy ValidatePolicy, hub client.Reader) *validator {
	return &validator{validate: validate, validatePolicy: validatePolicy, hub: hub, turns: turns.Turns{Workers: workers, MaxWaiting: maxWaiting}}
}

// Handle implements the Handler of controller-runtime.
func (v *validator) Handle(ctx context.Context, request webhook.AdmissionRequest) webhook.AdmissionResponse {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update || request.SubResource != "" {
		return webhook.Allowed("")
	}
	var mistakes field.ErrorList
	var warnings []string
	var err error
	kind := schema.GroupKind{Group: v1alpha1.GroupName}
	switch request.Resource.Resource {
	case "placements":
		kind.Kind = "Placement"
		mistakes, warnings, err = v.placement(ctx, &request.AdmissionRequest)
	case "selectionpolicies":
		kind = schema.GroupKind{Group: berthv1alpha1.GroupName, Kind: "SelectionPolicy"}
		mistakes, warnings, err = v.policy(ctx, &request.AdmissionRequest)
	case "managedclustersets":
		kind.Kind = "ManagedClusterSet"
		mistakes, err = clusterSet(&request.AdmissionRequest)
	}
	switch {
	case errors.Is(err, turns.ErrBusy):
		// The namespace's own requests are the reason, so they are not allowed unchecked.
		status := apierrors.NewTooManyRequests(fmt.Sprintf("validating %s %q: %v %s; try again", kind.Kind, request.Name, err, request.Namespace), 1).Status()
		return webhook.AdmissionResponse{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
	case errors.Is(err, errLate):
		return webhook.Allowed("").WithWarnings(append(warnings, fmt.Sprintf(
			"%s %q was not validated, because objects of other namespaces are being validated; the conditions will report mistakes", kind.Kind, request.Name))...)
	case err != nil:
		return webhook.Errored(http.StatusBadRequest, err)
	case len(mistakes) == 0:
		return webhook.Allowed("").WithWarnings(warnings...)
	}
	status := apierrors.NewInvalid(kind, request.Name, mistakes).Status()
	return webhook.AdmissionResponse{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
}

// placement returns the mistakes of a Placement that the stored one does not have, and warnings.
func (v *validator) placement(ctx context.Context, request *admissionv1.AdmissionRequest) (field.ErrorList, []string, error) {
	object, old, err := read[v1alpha1.Placement](request)
	if err != nil || object.DeletionTimestamp != nil || old != nil && sameInputs(object, old) {
		return nil, nil, err
	}
	object.Namespace = request.Namespace
	warnings := v.placementWarnings(ctx, object, request.Namespace)
	validate := func(ctx context.Context, pl *v1alpha1.Placement) field.ErrorList {
		mistakes := v.validate(ctx, pl)
		if v.warn != nil && pl == object && len(mistakes) == 0 {
			warnings = append(warnings, v.warn(object)...)
		}
		return mistakes
	}
	mistakes, err := validateInTurn(ctx, &v.turns, request.Namespace, validate, object, old)
	return mistakes, warnings, err
}

// placementWarnings warns about a SelectionPolicy that the Placement does not require.
func (v *validator) placementWarnings(ctx context.Context, object *v1alpha1.Placement, namespace string) []string {
	if _, required := object.Annotations[v1alpha1.SelectionPolicyAnnotation]; required || v.hub == nil {
		return nil
	}
	policies := &berthv1alpha1.SelectionPolicyList{}
	if err := v.hub.List(ctx, policies, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	for i := range policies.Items {
		if policies.Items[i].Spec.Placement == object.Name {
			return []string{berthv1alpha1.NotRequired(object, &policies.Items[i])}
		}
	}
	return nil
}

// policy returns the mistakes of a SelectionPolicy that the stored one does not have, and warnings.
func (v *validator) policy(ctx context.Context, request *admissionv1.AdmissionRequest) (field.ErrorList, []string, error) {
	object, old, err := read[berthv1alpha1.SelectionPolicy](request)
	if err != nil || object.DeletionTimestamp != nil {
		return nil, nil, err
	}
	mistakes, err := validateInTurn(ctx, &v.turns, request.Namespace, v.validatePolicy, object, old)
	pl := &v1alpha1.Placement{}
	if v.hub == nil || v.hub.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: object.Spec.Placement}, pl) != nil {
		return mistakes, nil, err
	}
	if warning := berthv1alpha1.NotRequired(pl, object); warning != "" {
		return mistakes, []string{warning}, err
	}
	return mistakes, nil, err
}

// errLate means that the turn of a request did not come in time because of other namespaces.
var errLate = errors.New("the turn did not come in time")

// validateInTurn returns the mistakes that the stored object does not have; old may be nil. The
// error is turns.ErrBusy or errLate.
func validateInTurn[T any](
	ctx context.Context, all *turns.Turns, namespace string, validate func(context.Context, *T) field.ErrorList, object, old *T,
) (mistakes field.ErrorList, err error) {
	waiting, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	err = all.Do(waiting, namespace, func() {
		compiling, cancel := context.WithTimeout(ctx, compileTime)
		defer cancel()
		mistakes = mistakesOf(func(o *T) field.ErrorList { return validate(compiling, o) }, object, old)
	})
	if err != nil && !errors.Is(err, turns.ErrBusy) {
		err = errLate
	}
	return mistakes, err
}

// validatedAnnotations are those of a Placement in which mistakes are found.
var validatedAnnotations = []string{v1alpha1.ProfileAnnotation, v1alpha1.SelectionPolicyAnnotation, berthv1alpha1.PinnedRevisionAnnotation}

// sameInputs reports whether nothing differs that is validated.
func sameInputs(a, b *v1alpha1.Placement) bool {
	differs := func(key string) bool {
		x, inA := a.Annotations[key]
		y, inB := b.Annotations[key]
		return x != y || inA != inB
	}
	return !slices.ContainsFunc(validatedAnnotations, differs) && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// clusterSet returns the mistakes of a set that the stored one does not have.
func clusterSet(request *admissionv1.AdmissionRequest) (field.ErrorList, error) {
	object, old, err := read[v1alpha1.ManagedClusterSet](request)
	if err != nil || object.DeletionTimestamp != nil {
		return nil, err
	}
	return mistakesOf(validateSet, object, old), nil
}

// onlyNew returns the mistakes without those of the stored object. The position in a list does not
// matter: an item that moves is not a new mistake.
func onlyNew(mistakes, stored field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(mistakes, func(m *field.Error) bool {
		return slices.ContainsFunc(stored, func(s *field.Error) bool { return s.ErrorBody() == m.ErrorBody() })
	})
}

// read decodes the object, and the stored one in an update.
func read[T any](request *admissionv1.AdmissionRequest) (object, old *T, err error) {
	object = new(T)
	if err := json.Unmarshal(request.Object.Raw, object); err != nil {
		return nil, nil, fmt.Errorf("reading the object: %w", err)
	}
	if request.Operation != admissionv1.Update {
		return object, nil, nil
	}
	old = new(T)
	if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
		return nil, nil, fmt.Errorf("reading the object as stored: %w", err)
	}
	return object, old, nil
}

// +kubebuilder:webhookconfiguration:mutating=true,name=berth-validation
// +kubebuilder:webhook:mutating=true,name=status.berth.dev,path=/warn-status,groups=cluster.open-cluster-management.io,versions=*,resources=managedclusters;addonplacementscores,verbs=create;update,failurePolicy=ignore,matchPolicy=Equivalent,reinvocationPolicy=Never,sideEffects=None,timeoutSeconds=5,admissionReviewVersions=v1,serviceName=berth-webhook,serviceNamespace=berth-system

// statusWarner warns about an object with a status, which the API server ignores outside the
// status subresource. It is a mutating webhook, because validating ones get the object without the
// ignored status. It changes nothing.
type statusWarner struct{}

// Handle implements the Handler of controller-runtime.
func (statusWarner) Handle(_ context.Context, request webhook.AdmissionRequest) webhook.AdmissionResponse {
	if request.SubResource != "" || request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return webhook.Allowed("")
	}
	object, old, err := read[withStatus](&request.AdmissionRequest)
	if err != nil {
		return webhook.Errored(http.StatusBadRequest, err)
	}
	fields, _ := object.Status.(map[string]any)
	if isZero(object.Status) || old != nil && apiequality.Semantic.DeepEqual(object.Status, old.Status) {
		return webhook.Allowed("")
	}
	return webhook.Allowed("").WithWarnings(fmt.Sprintf(
		"status: ignored, because status is a subresource (fields %v); to set it, run kubectl apply --server-side --subresource=status -f FILE",
		slices.Sorted(maps.Keys(fields))))
}

// isZero reports whether a JSON value has only zero values, such as those that a typed client sends
// for fields that nobody set.
func isZero(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, field := range v {
			if !isZero(field) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return value == nil || reflect.ValueOf(value).IsZero()
}

// withStatus is the part of an object that statusWarner reads. Other fields are for the schema.
type withStatus struct {
	Status any `json:"status"`
}
