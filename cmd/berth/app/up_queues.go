package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/cmd/berth/localhub"
	webhooks "github.com/berth-dev/berth/config/webhook"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/tenancy"
)

// localQueueConfig is where a local hub keeps its queues.
var localQueueConfig = types.NamespacedName{Namespace: "berth-system", Name: admission.QueueConfigName}

// webhookPatience is how long the controller may take to answer admission requests.
const webhookPatience = time.Minute

// queuesBlock is the line of a ConfigMap after which the queues begin.
var queuesBlock = regexp.MustCompile(`(?m)^ +["']?queues\.yaml["']?: *\|[-+]? *\n`)

// localQueues are the queues of a local hub.
type localQueues struct {
	// from is where they are from, for the person who starts the hub.
	from string
	// data are the ConfigMap's; nil leaves it as the hub has it.
	data     map[string]string
	webhooks *webhook.Options
}

// readLocalQueues reads a queues.yaml, or a ConfigMap with one, and says what is wrong with it before anything starts.
func readLocalQueues(path string) (*localQueues, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the queues: %w", err)
	}
	q := &localQueues{from: path, data: map[string]string{admission.QueuesKey: string(text)}}
	var config corev1.ConfigMap
	if err := yaml.Unmarshal(text, &config); err == nil && config.Kind == "ConfigMap" {
		q.data = config.Data
	}
	// Blank lines before the queues make the lines of mistakes those of the file.
	before := 0
	if at := queuesBlock.FindIndex(text); at != nil && config.Kind == "ConfigMap" {
		before = bytes.Count(text[:at[1]], []byte("\n"))
	}
	if _, err := admission.CheckQueues([]byte(strings.Repeat("\n", before) + q.data[admission.QueuesKey])); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", "\n"+path+": "))
	}
	return q, nil
}

// prepareQueues has the API server ask the controller about every Placement, at the address where
// it will answer, and puts the queues on the hub. The webhooks of an earlier start are changed in
// place: while nobody answers them they refuse every Placement, and they are what tells a start
// without --queue-config that the hub has queues. Without those, and without the flag, it does
// nothing.
func (o *upOptions) prepareQueues(ctx context.Context, hub *localhub.Hub) error {
	c, err := client.New(hub.Config(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	if o.queues == nil {
		guarded, err := hasWebhooks(ctx, c)
		if err != nil || !guarded {
			return err
		}
		o.queues = &localQueues{from: "an earlier start"}
	}
	serving, err := hub.Serving("webhook")
	if err != nil {
		return err
	}
	o.queues.webhooks = &webhook.Options{
		Host: "127.0.0.1", Port: serving.Port, CertDir: serving.Dir, CertName: serving.CertName, KeyName: serving.KeyName,
	}
	address := "https://" + net.JoinHostPort(o.queues.webhooks.Host, strconv.Itoa(serving.Port))
	mutating, validating, err := webhooks.At(address, serving.CA, localQueueConfig.Namespace, localQueueConfig.Name)
	if err != nil {
		return err
	}
	for _, configuration := range []client.Object{mutating, validating} {
		if err := createOrReplace(ctx, c, configuration); err != nil {
			return fmt.Errorf("installing the webhooks: %w", err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: localQueueConfig.Namespace}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("creating Namespace %s: %w", namespace.Name, err)
	}
	if o.queues.data == nil {
		return nil
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: localQueueConfig.Namespace, Name: localQueueConfig.Name}, Data: o.queues.data}
	if err := createOrReplace(ctx, c, config); err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", localQueueConfig, err)
	}
	return nil
}

// hasWebhooks says whether an earlier start installed the webhooks.
func hasWebhooks(ctx context.Context, c client.Client) (bool, error) {
	for _, configuration := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		err := c.Get(ctx, client.ObjectKey{Name: webhooks.Name}, configuration)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("looking for the webhooks of an earlier start: %w", err)
		}
		if err == nil {
			return true, nil
		}
	}
	return false, nil
}

// createOrReplace leaves no moment without the object.
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

// awaitStamp returns once the API server has the controller stamp a Placement. The Placement is not
// stored.
func awaitStamp(ctx context.Context, cfg *rest.Config) error {
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	placement := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": clusterGroup + "/v1beta1", "kind": "Placement", "metadata": map[string]any{"name": "is-stamped"}, "spec": map[string]any{},
	}}
	var lastErr error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, webhookPatience, true, func(ctx context.Context) (bool, error) {
		var created *unstructured.Unstructured
		created, lastErr = c.Resource(clusterResource("placements")).Namespace(localQueueConfig.Namespace).
			Create(ctx, placement, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return lastErr == nil && created.GetAnnotations()[tenancy.UserInfoAnnotation] != "", nil
	})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.Join(errors.New("the controller does not answer admission requests; see its log in the data directory"), lastErr)
}
