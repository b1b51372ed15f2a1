package actions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// The verbs of actions. Drain and Undrain act on a cluster, Evict on a cluster and a Placement, the
// others on a Placement.
const (
	Approve = "approve"
	Reject  = "reject"
	Evict   = "evict"
	Drain   = "drain"
	Undrain = "undrain"
	Suspend = "suspend"
	Resume  = "resume"
	Undo    = "undo"
	Pin     = "pin"
	Unpin   = "unpin"
)

// Verbs are all verbs.
var Verbs = []string{Approve, Reject, Evict, Drain, Undrain, Suspend, Resume, Undo, Pin, Unpin}

// Request says what to do.
type Request struct {
	Verb      string
	Placement types.NamespacedName
	Cluster   string
	// Revision is that of the change to approve or reject, 0 for the one that is held; that to
	// which undo returns, 0 for the one before the newest edit of the spec; or that of pin, 0 for
	// the published one.
	Revision int64
	// AllowFewer permits undo and pin to lead to fewer clusters than are published, and pin to lead
	// to a part of the clusters of the revision.
	AllowFewer bool
	// AllowOthers permits undo to lead to other clusters than those of the revision.
	AllowOthers bool
	// Change is the name of the PlacementChange that the user saw. It must be the one that approve
	// or reject would answer without it. Empty for any.
	Change string
	// Comment is why. It is kept with an approval or rejection, else in an annotation of the object
	// that is written; that of Resume on the Placement.
	Comment string
	// DryRun lets the hub check what would be written, and write nothing.
	DryRun bool
	// ExcludeFor is how long an evicted cluster is not selected again, in whole seconds; 0 for the
	// default.
	ExcludeFor time.Duration
}

// Prepared is an action that is ready to be done.
type Prepared struct {
	Request
	// Question is what to ask before Do, Declined what to say if the answer is no, Done what to say
	// after it.
	Question, Declined, Done string
	// Nothing is why there is nothing to do: what the action achieves is so already. Then Do must
	// not be called.
	Nothing error
	// Record is the change to answer, or the open change of a Placement to suspend or resume; nil
	// if there is none.
	Record *berthv1alpha1.PlacementChange
	// SpecChanges are the changes of the Placement's spec, such as "numberOfClusters: 2 → 8".
	SpecChanges []string
	// Object is the object as it will be, for a comparison of decisions. If the hub chooses its
	// name, it has one that is not in use. Resume deletes it.
	Object client.Object

	write func(ctx context.Context) (client.Object, error)
	// Check compares published, the clusters that are published, and wanted, those of the revision
	// to which undo or pin leads, with a preview. number is numberOfClusters then; nil without it.
	published, wanted []string
	number            *int32
	// least is the number of clusters below which AllowFewer is needed.
	least int
}

// Do writes what was prepared. It returns the written object. Undo and Pin must pass Check first.
func (p *Prepared) Do(ctx context.Context) (client.Object, error) { return p.write(ctx) }

// Prepare reads the hub and returns what the request would do, or why it cannot be done. It writes
// nothing.
func Prepare(ctx context.Context, hub client.Client, r Request) (*Prepared, error) {
	p := &Prepared{Request: r}
	if r.DryRun {
		hub = client.NewDryRunClient(hub)
	}
	prepare, known := map[string]func(context.Context, client.Client) error{
		Approve: p.answer, Reject: p.answer, Evict: p.evict, Drain: p.drain, Undrain: p.drain,
		Suspend: p.suspend, Resume: p.suspend, Undo: p.undo, Pin: p.pin, Unpin: p.unpin,
	}[r.Verb]
	if !known {
		return nil, fmt.Errorf("the action %q is not known", r.Verb)
	}
	return p, prepare(ctx, hub)
}

// addComment sets the comment of an object that is written, and removes that of an earlier action.
func (p *Prepared) addComment(object client.Object) {
	annotations := maps.Clone(object.GetAnnotations())
	if p.Comment == "" {
		delete(annotations, berthv1alpha1.CommentAnnotation)
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[berthv1alpha1.CommentAnnotation] = p.Comment
	}
	object.SetAnnotations(annotations)
}

// OnCluster reports whether an action needs a cluster.
func OnCluster(verb string) bool { return slices.Contains([]string{Evict, Drain, Undrain}, verb) }

// OnPlacement reports whether an action needs a Placement.
func OnPlacement(verb string) bool { return verb != Drain && verb != Undrain }
