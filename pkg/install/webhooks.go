package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/validation"
	"github.com/berth-dev/berth/config/webhook"
)

// webhookTimeout bounds the wait until admission requests are answered.
const webhookTimeout = time.Minute

// HasWebhooks is true if the hub has one of the webhook configurations.
func HasWebhooks(ctx context.Context, config *rest.Config) (bool, error) {
	c, err := newClient(config)
	if err != nil {
		return false, err
	}
	for _, configuration := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		err := c.Get(ctx, client.ObjectKey{Name: webhook.Name}, configuration)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("looking for webhooks: %w", err)
		}
		if err == nil {
			return true, nil
		}
	}
	return false, nil
}

// Webhooks makes the API server send admission requests to url, such as https://127.0.0.1:9443.
// caBundle (PEM) has the authorities of its certificate. queueConfig is the ConfigMap with the
// queues. Existing configurations are updated in place.
func Webhooks(ctx context.Context, config *rest.Config, url string, caBundle []byte, queueConfig types.NamespacedName) error {
	mutating, validating, err := webhook.At(url, caBundle, queueConfig.Namespace, queueConfig.Name)
	if err != nil {
		return err
	}
	return installWebhooks(ctx, config, mutating, validating)
}

// ValidationWebhooks makes the API server send Placements, cluster sets and clusters to url for
// validation. The parameters are those of Webhooks.
func ValidationWebhooks(ctx context.Context, config *rest.Config, url string, caBundle []byte) error {
	mutating, validating, err := validation.At(url, caBundle)
	if err != nil {
		return err
	}
	return installWebhooks(ctx, config, mutating, validating)
}

func installWebhooks(ctx context.Context, config *rest.Config, configurations ...client.Object) error {
	c, err := newClient(config)
	if err != nil {
		return err
	}
	for _, configuration := range configurations {
		if err := createOrReplace(ctx, c, configuration); err != nil {
			return fmt.Errorf("installing the webhooks: %w", err)
		}
	}
	return nil
}

// Namespace creates a Namespace unless it exists.
func Namespace(ctx context.Context, config *rest.Config, name string) error {
	c, err := newClient(config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("creating Namespace %s: %w", name, err)
	}
	return nil
}

// ConfigMap creates a ConfigMap with the data, or replaces the one that exists.
func ConfigMap(ctx context.Context, config *rest.Config, name types.NamespacedName, data map[string]string) error {
	c, err := newClient(config)
	if err != nil {
		return err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Data: data}
	if err := createOrReplace(ctx, c, object); err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", name, err)
	}
	return nil
}

func newClient(config *rest.Config) (client.Client, error) {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	return c, nil
}

// createOrReplace creates an object, or updates the existing one, so that the object never
// disappears.
func createOrReplace(ctx context.Context, c client.Client, object client.Object) error {
	err := c.Create(ctx, object.DeepCopyObject().(client.Object))
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored := object.DeepCopyObject().(client.Object)
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), stored); err != nil {
			return err
		}
		object.SetResourceVersion(stored.GetResourceVersion())
		return c.Update(ctx, object.DeepCopyObject().(client.Object))
	})
}

// AwaitQueueWebhooks waits until the webhooks write an annotation to a Placement that is created in
// the namespace as a dry run.
func AwaitQueueWebhooks(ctx context.Context, config *rest.Config, namespace, annotation string) error {
	return awaitAnswer(ctx, config, probePlacement(namespace), func(created *unstructured.Unstructured, err error) bool {
		return err == nil && created.GetAnnotations()[annotation] != ""
	})
}

// AwaitValidationWebhooks waits until the webhooks refuse a mistake, and warn about a status.
func AwaitValidationWebhooks(ctx context.Context, config *rest.Config) error {
	mistaken := probePlacement(metav1.NamespaceDefault)
	mistaken.SetAnnotations(map[string]string{v1alpha1.ProfileAnnotation: "profile-that-does-not-exist"})
	err := awaitAnswer(ctx, config, mistaken, func(_ *unstructured.Unstructured, err error) bool { return apierrors.IsInvalid(err) })
	if err != nil {
		return err
	}
	return awaitWarning(ctx, config, "probe", "status:")
}

// awaitWarning waits until the API server answers a new cluster with a warning that has the text.
func awaitWarning(ctx context.Context, config *rest.Config, name, text string) error {
	warned := &warning{text: text}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = warned
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupName + "/v1", "kind": "ManagedCluster",
		"metadata": map[string]any{"name": name}, "status": map[string]any{"capacity": map[string]any{"cpu": "1"}},
	}}
	return awaitAnswer(ctx, config, cluster, func(*unstructured.Unstructured, error) bool { return warned.came.Load() })
}

// warning notes that a warning with a text came.
type warning struct {
	text string
	came atomic.Bool
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warning) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	if strings.Contains(text, w.text) {
		w.came.Store(true)
	}
}

func probePlacement(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupName + "/v1beta1", "kind": "Placement",
		"metadata": map[string]any{"generateName": "probe-", "namespace": namespace}, "spec": map[string]any{},
	}}
}

// AwaitAdmissionPolicies waits until the API server has read the policies, the schema of Placements
// and the kinds of the parameters. It takes some seconds after each start; until then, some edits
// pass unseen, and others are refused. If something else on the hub refuses a Placement in the
// namespace, it does not wait for the policy that records editors.
func AwaitAdmissionPolicies(ctx context.Context, config *rest.Config, namespace string) error {
	// Policies that mutate are read apart from the others, and those in the order of their files.
	err := awaitAnswer(ctx, config, probePlacement(namespace), func(created *unstructured.Unstructured, err error) bool {
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || err == nil && created.GetAnnotations()[berthv1alpha1.EditedByAnnotation] != ""
	})
	if err == nil {
		err = awaitWarning(ctx, config, "probe.berth", "can be no namespace")
	}
	if err != nil {
		return err
	}
	// No policy with parameters is asked about a new Placement.
	resource, _ := meta.UnsafeGuessKindToResource(probePlacement("").GroupVersionKind())
	return await(ctx, config, func(ctx context.Context, c dynamic.Interface) (bool, error) {
		some, err := c.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || len(some.Items) == 0 {
			return err == nil, err
		}
		one := &some.Items[0]
		err = c.Resource(resource).Namespace(one.GetNamespace()).Delete(ctx, one.GetName(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil || !strings.Contains(err.Error(), "paramKind"), err
	})
}

// awaitAnswer creates an object as a dry run until the answer is the expected one.
func awaitAnswer(ctx context.Context, config *rest.Config, object *unstructured.Unstructured, expected func(*unstructured.Unstructured, error) bool) error {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return await(ctx, config, func(ctx context.Context, c dynamic.Interface) (bool, error) {
		created, err := c.Resource(resource).Namespace(object.GetNamespace()).
			Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return expected(created, err), err
	})
}

// await asks the API server until the answer is the expected one.
func await(ctx context.Context, config *rest.Config, ask func(context.Context, dynamic.Interface) (bool, error)) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	var lastErr error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, webhookTimeout, true, func(ctx context.Context) (answered bool, _ error) {
		answered, lastErr = ask(ctx, c)
		return answered, nil
	})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.Join(errors.New("the hub does not answer admission requests as it must: see the logs in the data directory"), lastErr)
}
