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

// Options are what the handlers need from the rest of Berth. The functions are called from several
// goroutines at once, during requests. They must answer from memory.
type Options struct {
	// Access returns the current settings. Required.
	Access func() identity.AccessControl
	// UserLabel is the key of the label that names a user. Default identity.DefaultUserLabel.
	UserLabel string
	// Recorded returns the queue that the pages of a Placement record, of those that the Placement
	// with this UID controls; empty for none. Required.
	Recorded func(ctx context.Context, placement types.NamespacedName, uid types.UID) (record string)
	// GuardedTags returns the tags, in lower case, on which the queue of a Placement with this
	// record depends. Required.
	GuardedTags func(record string) []string
	// Administers is true if the adminacl of a recorded queue, or of a queue above it, grants the
	// user access. Required.
	Administers func(record string, who identity.Identity) bool
	// QueueConfig is the ConfigMap that holds the queues; others are none of Berth's. Required.
	QueueConfig types.NamespacedName
	// CheckQueues returns what is wrong with a queue configuration, and what is legal and yet
	// without effect, in words for its author. Required.
	CheckQueues func(text []byte) (warnings []string, err error)
}

// Register puts the handlers on a server. It returns an error, and registers nothing, where options
// are missing.
func Register(server webhook.Server, o Options) error {
	if o.Access == nil || o.Recorded == nil || o.GuardedTags == nil || o.Administers == nil || o.CheckQueues == nil ||
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
	server.Register(queuesPath, limitWaiting(limitBody(oneAtATime(checker))))
	return nil
}
