package admission

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/pkg/tenancy"
)

// The paths of the handlers, by which config/webhook names them.
const (
	stampPath  = "/stamp-placement"
	verifyPath = "/verify-placement"
	queuesPath = "/check-queue-config"
)

// Options are what the handlers ask of the rest of Berth. Its functions are called from several goroutines at once, during
// requests that somebody waits for: they answer from memory.
type Options struct {
	// Access gives the settings in force. Required.
	Access func() tenancy.AccessControl
	// UserLabel is the key of the label that names a user. Default tenancy.DefaultUserLabel.
	UserLabel string
	// Administers tells whether the adminacl of the queue recorded for the Placement, or of a queue above it, grants who. Nil
	// grants nobody.
	Administers func(ctx context.Context, placement types.NamespacedName, who tenancy.Identity) bool
	// QueueConfig is the ConfigMap that holds the queues; others are none of Berth's. Required.
	QueueConfig types.NamespacedName
	// CheckQueues returns what is wrong with a queue configuration, and what is legal and yet without effect, in words for
	// its author. Required.
	CheckQueues func(text []byte) (warnings []string, err error)
}

// Register puts the handlers on a server. It returns an error, and registers nothing, where options are missing.
func Register(server webhook.Server, o Options) error {
	if o.Access == nil || o.CheckQueues == nil || o.QueueConfig.Name == "" || o.QueueConfig.Namespace == "" {
		return errors.New("registering the admission handlers: Access, QueueConfig and CheckQueues are required")
	}
	if o.UserLabel == "" {
		o.UserLabel = tenancy.DefaultUserLabel
	}
	reader := placementReader{options: o}
	server.Register(stampPath, &webhook.Admission{Handler: &stamper{reader}})
	server.Register(verifyPath, &webhook.Admission{Handler: &verifier{reader}})
	server.Register(queuesPath, &webhook.Admission{Handler: &queueChecker{config: o.QueueConfig, check: o.CheckQueues}})
	return nil
}
