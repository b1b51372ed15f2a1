package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/cmd/berth/localhub"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/boundedfile"
	"github.com/berth-dev/berth/pkg/install"
)

// localQueueConfig is the ConfigMap with the queues of a local hub.
var localQueueConfig = types.NamespacedName{Namespace: "berth-system", Name: admission.QueueConfigName}

// queuesBlock matches the line of a ConfigMap after which the queues begin.
var queuesBlock = regexp.MustCompile(`(?m)^ +["']?queues\.yaml["']?: *\|[-+]? *\n`)

// localQueues are the queues of a local hub.
type localQueues struct {
	// from names the source of the queues, for the user.
	from string
	// data is the ConfigMap's data; nil leaves the hub's ConfigMap unchanged.
	data map[string]string
}

// readLocalQueues reads a queues.yaml, or a ConfigMap with one, and reports its mistakes before
// anything starts.
func readLocalQueues(path string) (*localQueues, error) {
	if path == "" {
		return nil, nil
	}
	text, err := boundedfile.ReadFile(path, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("reading the queues: %w", err)
	}
	q := &localQueues{from: path, data: map[string]string{admission.QueuesKey: string(text)}}
	if config := queueConfigMap(text); config != nil {
		q.data = config.Data
	}
	if text, err = queuesText(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := admission.CheckQueues(text); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", "\n"+path+": "))
	}
	return q, nil
}

// queueConfigMap returns the ConfigMap that a file contains; nil for a file with queues.
func queueConfigMap(file []byte) *corev1.ConfigMap {
	var config corev1.ConfigMap
	if err := yaml.Unmarshal(file, &config); err != nil || config.Kind != "ConfigMap" {
		return nil
	}
	return &config
}

// queuesText returns the queues in a file that contains them or a ConfigMap with them. Blank lines
// before the queues keep the line numbers of mistakes equal to those of the file.
func queuesText(file []byte) ([]byte, error) {
	config := queueConfigMap(file)
	if config == nil {
		return file, nil
	}
	text, ok := config.Data[admission.QueuesKey]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %s in its data", config.Name, admission.QueuesKey)
	}
	if at := queuesBlock.FindIndex(file); at != nil {
		text = strings.Repeat("\n", bytes.Count(file[:at[1]], []byte("\n"))) + text
	}
	return []byte(text), nil
}

// prepareWebhooks configures the validation webhooks with the controller's address, and with queues
// those of queues.
func (o *upOptions) prepareWebhooks(ctx context.Context, hub *localhub.Hub) error {
	serving, err := hub.Serving("webhook")
	if err != nil {
		return err
	}
	o.webhooks = &webhook.Options{
		Host: "127.0.0.1", Port: serving.Port, CertDir: serving.Dir, CertName: serving.CertName, KeyName: serving.KeyName,
	}
	address := "https://" + net.JoinHostPort(o.webhooks.Host, strconv.Itoa(serving.Port))
	if err := o.prepareQueues(ctx, hub, address, serving.CA); err != nil {
		return err
	}
	return install.ValidationWebhooks(ctx, hub.Config(), address, serving.CA)
}

// prepareQueues configures the webhooks with the controller's address and writes the queues to the
// hub. Webhooks of an earlier start are updated in place: until the controller answers, they refuse
// every Placement. They also show a start without --queue-file that the hub has queues. Without
// webhooks and without the flag, prepareQueues does nothing.
func (o *upOptions) prepareQueues(ctx context.Context, hub *localhub.Hub, address string, authority []byte) error {
	if o.queues == nil {
		guarded, err := install.HasWebhooks(ctx, hub.Config())
		if err != nil || !guarded {
			return err
		}
		o.queues = &localQueues{from: "an earlier start"}
	}
	if err := install.Webhooks(ctx, hub.Config(), address, authority, localQueueConfig); err != nil {
		return err
	}
	if err := install.Namespace(ctx, hub.Config(), localQueueConfig.Namespace); err != nil || o.queues.data == nil {
		return err
	}
	return install.ConfigMap(ctx, hub.Config(), localQueueConfig, o.queues.data)
}
