package app

import (
	"bytes"
	"context"
	"crypto/tls"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/cmd/berth/localhub"
	webhooks "github.com/berth-dev/berth/config/webhook"
	"github.com/berth-dev/berth/pkg/admission"
)

// localQueueConfig is where a local hub keeps its queues.
var localQueueConfig = types.NamespacedName{Namespace: "berth-system", Name: admission.QueueConfigName}

// webhookPatience is how long the controller may take to answer admission requests.
const webhookPatience = time.Minute

// queuesBlock is the line of a ConfigMap after which the queues begin.
var queuesBlock = regexp.MustCompile(`(?m)^ +["']?queues\.yaml["']?: *\|[-+]? *\n`)

// localQueues are the queues of a local hub.
type localQueues struct {
	data     map[string]string // of the ConfigMap
	webhooks *webhook.Options
	ca       []byte
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
	q := &localQueues{data: map[string]string{admission.QueuesKey: string(text)}}
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

// prepareQueues puts the queues on the hub and makes ready what the webhooks need, or takes away what an earlier start left.
func (o *upOptions) prepareQueues(ctx context.Context, hub *localhub.Hub) error {
	c, err := client.New(hub.Config(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	// While nobody answers them, webhooks refuse every Placement.
	for _, old := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		old.SetName(webhooks.Name)
		if err := client.IgnoreNotFound(c.Delete(ctx, old)); err != nil {
			return fmt.Errorf("taking away the webhooks of an earlier start: %w", err)
		}
	}
	if o.queues == nil {
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: localQueueConfig.Namespace}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("creating Namespace %s: %w", namespace.Name, err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: localQueueConfig.Namespace, Name: localQueueConfig.Name}, Data: o.queues.data}
	if err := c.Create(ctx, config.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating ConfigMap %s: %w", localQueueConfig, err)
	} else if err != nil {
		if err := c.Update(ctx, config); err != nil {
			return fmt.Errorf("updating ConfigMap %s: %w", localQueueConfig, err)
		}
	}
	serving, err := hub.Serving("webhook")
	if err != nil {
		return err
	}
	o.queues.ca = serving.CA
	o.queues.webhooks = &webhook.Options{
		Host: "127.0.0.1", Port: serving.Port, CertDir: serving.Dir, CertName: serving.CertName, KeyName: serving.KeyName,
	}
	return nil
}

// guard has the API server ask the controller about every Placement, once it answers.
func (q *localQueues) guard(ctx context.Context, cfg *rest.Config) error {
	address := net.JoinHostPort(q.webhooks.Host, strconv.Itoa(q.webhooks.Port))
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it only asks whether somebody listens
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, webhookPatience, true, func(ctx context.Context) (bool, error) {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return true, conn.Close()
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return errors.New("the controller does not answer admission requests; see its log in the data directory")
	}
	mutating, validating, err := webhooks.At("https://"+address, q.ca, localQueueConfig.Namespace, localQueueConfig.Name)
	if err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	for _, configuration := range []client.Object{mutating, validating} {
		if err := c.Create(ctx, configuration); err != nil {
			return fmt.Errorf("installing the webhooks: %w", err)
		}
	}
	return nil
}
