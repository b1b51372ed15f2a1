package admission

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// The paths of the handlers, by which config/webhook names them.
const (
	stampPath  = "/stamp-placement"
	verifyPath = "/verify-placement"
	queuesPath = "/check-queue-config"
)

// Options configure the handlers. The functions are called from several goroutines at once, during
// requests. They must not block on requests of their own.
type Options struct {
	// Access returns the current settings. Required.
	Access func() identity.AccessControl
	// UserLabel is the key of the label that names a user. Default identity.DefaultUserLabel.
	UserLabel string
	// PublishedQueue returns the queue annotation of the pages that the Placement with this UID
	// controls; empty for none. Required.
	PublishedQueue func(ctx context.Context, placement types.NamespacedName, uid types.UID) (annotation string)
	// GuardedTags returns the tags, in lower case, on which the queue of a Placement with this
	// annotation depends. Required.
	GuardedTags func(annotation string) []string
	// Administers is true if the adminacl of the queue in the annotation, or of a queue above it,
	// grants the user access. Required.
	Administers func(annotation string, who identity.Identity) bool
	// QueueConfig is the ConfigMap with the queues. Others are not checked. Required.
	QueueConfig types.NamespacedName
	// CheckQueues validates a queue configuration. Warnings are about legal settings without
	// effect. Required.
	CheckQueues func(text []byte) (warnings []string, err error)
}

// Register registers the handlers with a server. If options are missing, it returns an error and
// registers nothing.
func Register(server webhook.Server, o Options) error {
	if o.Access == nil || o.PublishedQueue == nil || o.GuardedTags == nil || o.Administers == nil || o.CheckQueues == nil ||
		o.QueueConfig.Name == "" || o.QueueConfig.Namespace == "" {
		return errors.New("registering the admission handlers: all options but UserLabel are required")
	}
	if o.UserLabel == "" {
		o.UserLabel = identity.DefaultUserLabel
	}
	reader := placementReader{options: o}
	server.Register(stampPath, limitBody(&webhook.Admission{Handler: &stamper{reader}}))
	server.Register(verifyPath, limitBody(&webhook.Admission{Handler: &verifier{reader}}))
	checker := &webhook.Admission{Handler: &queueChecker{config: o.QueueConfig, check: o.CheckQueues}}
	server.Register(queuesPath, LimitRequests(maxChecks, 0, oneAtATime(checker)))
	return nil
}
