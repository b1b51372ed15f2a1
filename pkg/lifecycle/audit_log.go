package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// AuditLogName is the plugin's name.
const AuditLogName = "AuditLog"

// submitterAnnotation says as JSON who submitted a Placement, where admission stamps it; elsewhere
// anybody may have written it.
const submitterAnnotation = "yunikorn.apache.org/user.info"

// maxLogged is how many clusters a line names each way.
const maxLogged = 10

// AuditLog is a PostBind plugin that logs each published change of clusters in one line. Being told
// after the fact, it misses a change when the controller ends in between; what an attempt wrote
// before it failed is not in the line of the next one.
type AuditLog struct{}

// NewAuditLog is the plugin's factory.
func NewAuditLog(_ context.Context, args json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	if _, err := framework.DecodeArgs(args, struct{}{}); err != nil {
		return nil, err
	}
	return AuditLog{}, nil
}

// Name implements framework.Plugin.
func (AuditLog) Name() string { return AuditLogName }

// PostBind logs the change; nothing when no cluster came or went.
func (AuditLog) PostBind(ctx context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) {
	if len(p.Added) == 0 && len(p.Removed) == 0 {
		return
	}
	line := []any{
		"placement", client.ObjectKeyFromObject(pl).String(), "uid", pl.UID, "generation", pl.Generation, "revision", p.Revision, "digest", p.Digest,
		"added", len(p.Added), "removed", len(p.Removed), "pages", len(p.Writes), "why", why(pl),
	}
	if len(p.Added) > 0 {
		line = append(line, "addedNames", p.Added[:min(len(p.Added), maxLogged)])
	}
	if len(p.Removed) > 0 {
		line = append(line, "removedNames", p.Removed[:min(len(p.Removed), maxLogged)])
	}
	if by := submitter(pl); by != "" {
		line = append(line, "by", by)
	}
	if p.Approved {
		line = append(line, "approved", true)
	}
	log.FromContext(ctx).Info("decision published", line...)
}

// why says whether the Placement's spec differs from the one that its status speaks of. What else
// led to the change is more than a Proposal knows.
func why(pl *v1alpha1.Placement) string {
	before := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
	switch {
	case before == nil:
		return "first answer"
	case before.ObservedGeneration != pl.Generation:
		return fmt.Sprintf("generation %d, was %d", pl.Generation, before.ObservedGeneration)
	}
	return fmt.Sprintf("generation %d as before: clusters, sets, scores, annotations or time differ", pl.Generation)
}

// submitter is the user who submitted the Placement; empty when nothing legible says so.
func submitter(pl *v1alpha1.Placement) string {
	var info struct{ User, Username string }
	if err := json.Unmarshal([]byte(pl.Annotations[submitterAnnotation]), &info); err != nil {
		return ""
	}
	return cmp.Or(info.User, info.Username)
}
